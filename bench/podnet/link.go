// SPDX-License-Identifier: Apache-2.0

package podnet

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/bench/lab"
)

// device is what a pod calls its end of the veth pair.
const device = "eth0"

// gateway is the address of the host at each link, as networks for pods have it that route.
var gateway = netip.MustParseAddr("169.254.1.1")

// newHub opens the links of a host.
func newHub(ns netns.NsHandle) (*netlink.Handle, error) {
	return netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
}

// join links the i-th pod to the host. Both ends know each other's hardware address from the start: a thousand pods would have more neighbours than
// kernels keep that they have to ask for (net.ipv4.neigh.default.gc_thresh3).
func join(hub *netlink.Handle, i int, p *Pod) error {
	name, outer, inner := fmt.Sprintf("pod%d", i), hardware(0, i), hardware(1, i)
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.HardwareAddr = name, outer
	err := hub.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: device, PeerHardwareAddr: inner, PeerNamespace: netlink.NsFd(int(p.ns))})
	if err != nil {
		return err
	}
	if err := setUp(hub, name, gateway, p.Address, inner); err != nil {
		return err
	}
	pod, err := netlink.NewHandleAt(p.ns, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer pod.Close()
	lo, err := pod.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := errors.Join(pod.LinkSetUp(lo), setUp(pod, device, p.Address, gateway, outer)); err != nil {
		return err
	}
	return pod.RouteAdd(&netlink.Route{Gw: gateway.AsSlice(), Dst: single(netip.IPv4Unspecified(), 0)})
}

// setUp gives one end its address, and the way to the other one's.
func setUp(h *netlink.Handle, name string, own, other netip.Addr, otherHardware net.HardwareAddr) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return err
	}
	index := link.Attrs().Index
	if err := h.LinkSetUp(link); err != nil {
		return err
	}
	return errors.Join(
		h.AddrAdd(link, &netlink.Addr{IPNet: single(own, own.BitLen())}),
		h.RouteAdd(&netlink.Route{LinkIndex: index, Scope: netlink.SCOPE_LINK, Dst: single(other, other.BitLen())}),
		h.NeighSet(&netlink.Neigh{LinkIndex: index, State: netlink.NUD_PERMANENT, IP: other.AsSlice(), HardwareAddr: otherHardware}))
}

// single is an address with a prefix's length.
func single(a netip.Addr, bits int) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(bits, a.BitLen())}
}

// hardware is a local address of a side of the i-th link.
func hardware(side byte, i int) net.HardwareAddr {
	return net.HardwareAddr{0x02, 0x58, 0x4c, side, byte(i >> 8), byte(i)}
}

// serverAddress and podAddress are of a link between a pod and the lab's other host.
var (
	serverAddress = netip.MustParseAddr("198.18.80.6")
	podAddress    = netip.MustParseAddr("198.18.80.5")
)

// JoinServerHost links a pod to the lab's other host as the first host is linked to it, and returns the server's address there. Both places reach both
// addresses of the server. A net has one such link.
func (n *Net) JoinServerHost(p *Pod) (netip.AddrPort, error) {
	server := netip.AddrPortFrom(serverAddress, ServerPort)
	var ends []*netlink.Handle
	for _, ns := range []netns.NsHandle{p.ns, n.Namespace(lab.ServerHost), n.Namespace(lab.ClientHost)} {
		h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
		if err != nil {
			return server, err
		}
		defer h.Close()
		ends = append(ends, h)
	}
	pod, host, hub := ends[0], ends[1], ends[2]
	const inner, outer = "server0", "pod0"
	attributes := netlink.NewLinkAttrs()
	attributes.Name = inner
	if err := pod.LinkAdd(&netlink.Veth{LinkAttrs: attributes, PeerName: outer, PeerNamespace: netlink.NsFd(int(n.Namespace(lab.ServerHost)))}); err != nil {
		return server, fmt.Errorf("link a pod to the other host: %w", err)
	}
	if err := errors.Join(address(pod, inner, podAddress), address(host, outer, serverAddress)); err != nil {
		return server, err
	}
	return server, errors.Join(
		hub.RouteAdd(&netlink.Route{Dst: single(serverAddress, serverAddress.BitLen()), Gw: n.EndpointAddress().AsSlice()}),
		host.RouteAdd(&netlink.Route{Dst: single(p.Address, p.Address.BitLen()), Gw: lab.ClientAddress.AsSlice()}))
}

// address sets one end of a link of two addresses up.
func address(h *netlink.Handle, name string, own netip.Addr) error {
	const bits = 30
	link, err := h.LinkByName(name)
	if err != nil {
		return err
	}
	return errors.Join(h.AddrAdd(link, &netlink.Addr{IPNet: single(own, bits)}), h.LinkSetUp(link))
}
