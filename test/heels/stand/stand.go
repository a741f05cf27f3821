// SPDX-License-Identifier: Apache-2.0

package stand

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
)

// Addresses. VIPs lead to the balancer, from the client and from anywhere else.
var (
	VIP  = netip.MustParseAddr("10.0.0.100")
	VIP2 = netip.MustParseAddr("10.0.0.101")
	VIP6 = netip.MustParseAddr("fd00::100")
	// VIP6b is the second of its family.
	VIP6b = netip.MustParseAddr("fd00::101")

	vips4, vips6 = netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::/64")

	routerAddresses = addresses{netip.MustParseAddr("10.0.255.254"), netip.MustParseAddr("fd00:0:0:ff::1")}
	lbAddresses     = addresses{netip.MustParseAddr("10.0.1.1"), netip.MustParseAddr("fd00:0:0:1::1")}
	clientAddresses = addresses{netip.MustParseAddr("10.0.3.1"), netip.MustParseAddr("fd00:0:0:3::1")}
)

// Prefixes of the hosts, for configurations.
const (
	Balancers  = "10.0.1.0/24"
	Balancers6 = "fd00:0:0:1::/64"
	Servers    = "10.0.2.0/24"
	Servers6   = "fd00:0:0:2::/64"
	Clients    = "10.0.3.0/24"
	Clients6   = "fd00:0:0:3::/64"
)

type addresses struct{ v4, v6 netip.Addr }

func serverAddresses(i int) addresses {
	return addresses{netip.AddrFrom4([4]byte{10, 0, 2, byte(i + 1)}), netip.MustParseAddr(fmt.Sprintf("fd00:0:0:2::%x", i+1))}
}

const (
	// edgeMTU is that of the client's link, in bytes; coreMTU of all others has room for two outer headers.
	edgeMTU, coreMTU = 1500, 1600
	// link is the name of a host's end of its link; the router's is called as the host.
	link = "eth0"
	// maxServers is what the addresses have room for.
	maxServers = 100
)

// Link is the name of every host's network device.
const Link = link

// Options of a stand.
type Options struct {
	// Cgroups is the start of the path of each cgroup that is made: a directory and the beginning of a name.
	Cgroups string
	// Servers is how many there are; 0: three.
	Servers int
	// Steered: hosts take the segments of a connection on one processor, one after the other, as behind a device that spreads connections over its
	// queues. A veth device has the sender's processor take them. Two of one connection may then meet, and while one of them ends the handshake the
	// kernel may find no socket but the listener for the other, and answer by a reset (in Linux also after "inet: Avoid ehash lookup race in
	// inet_ehash_insert()").
	Steered bool
}

// Stand is a network with its hosts.
type Stand struct {
	Client, LB, Router *Host
	Servers            []*Host
	watcher            *watcher
	steered            bool
}

// New builds a stand. The caller closes it.
func New(o Options) (*Stand, error) {
	if o.Servers == 0 {
		o.Servers = 3
	}
	if o.Servers < 0 || o.Servers > maxServers {
		return nil, fmt.Errorf("%d servers: use 1 to %d", o.Servers, maxServers)
	}
	s := &Stand{steered: o.Steered}
	if err := s.build(o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Stand) build(o Options) (err error) {
	if s.Router, err = newHost("router", o.Cgroups, routerAddresses); err != nil {
		return err
	}
	if err := s.Router.forward(); err != nil {
		return err
	}
	if s.Client, err = s.join("client", o.Cgroups, clientAddresses, edgeMTU); err != nil {
		return err
	}
	if s.LB, err = s.join("lb", o.Cgroups, lbAddresses, coreMTU); err != nil {
		return err
	}
	for i := range o.Servers {
		server, err := s.join("s"+strconv.Itoa(i+1), o.Cgroups, serverAddresses(i), coreMTU)
		if err != nil {
			return err
		}
		s.Servers = append(s.Servers, server)
	}
	return s.Router.Do(func() error { return s.route(s.LB, vips4, vips6) })
}

// join makes a host and its link to the router.
func (s *Stand) join(name, cgroups string, own addresses, mtu int) (*Host, error) {
	h, err := newHost(name, cgroups, own)
	if err != nil {
		return nil, err
	}
	if s.steered {
		err = h.steer()
	}
	if err := errors.Join(err, s.wire(h, mtu)); err != nil {
		return nil, errors.Join(fmt.Errorf("link of %s: %w", name, err), h.Close())
	}
	return h, nil
}

func (s *Stand) wire(h *Host, mtu int) error {
	err := s.Router.Do(func() error {
		veth := netlink.NewVeth(netlink.LinkAttrs{Name: h.Name, MTU: mtu})
		veth.PeerName, veth.PeerNamespace = link, netlink.NsFd(h.ns)
		return netlink.LinkAdd(veth)
	})
	if err != nil {
		return err
	}
	near, far, err := s.ends(h)
	if err != nil {
		return err
	}
	err = h.Do(func() error { return plug(link, h.own, routerAddresses, near, true) })
	if err != nil {
		return err
	}
	return s.Router.Do(func() error {
		if err := plug(h.Name, addresses{}, h.own, far, false); err != nil {
			return err
		}
		return s.route(h, netip.PrefixFrom(h.own.v4, 32), netip.PrefixFrom(h.own.v6, 128))
	})
}

// ends are the hardware addresses of both ends of a host's link, the router's first.
func (s *Stand) ends(h *Host) (near, far net.HardwareAddr, err error) {
	if near, err = s.Router.hardware(h.Name); err != nil {
		return nil, nil, err
	}
	far, err = h.hardware(link)
	return near, far, err
}

// route leads prefixes to a host; in the router's namespace.
func (s *Stand) route(h *Host, v4, v6 netip.Prefix) error {
	l, err := netlink.LinkByName(h.Name)
	if err != nil {
		return err
	}
	for prefix, via := range map[netip.Prefix]netip.Addr{v4: h.own.v4, v6: h.own.v6} {
		r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(prefix)}
		if prefix.Addr() != via {
			r.Gw, r.Flags = via.AsSlice(), int(netlink.FLAG_ONLINK)
		}
		if err := netlink.RouteReplace(r); err != nil {
			return fmt.Errorf("route %s: %w", prefix, err)
		}
	}
	return nil
}

// Hosts are all but the router.
func (s *Stand) Hosts() []*Host { return append([]*Host{s.Client, s.LB}, s.Servers...) }

// Remove takes a host off the network, as if its power went: its link vanishes first, so that nothing of its end is heard.
func (s *Stand) Remove(h *Host) error {
	err := s.Router.Do(func() error {
		l, err := netlink.LinkByName(h.Name)
		if err != nil {
			return err
		}
		return netlink.LinkDel(l)
	})
	return errors.Join(err, h.Close())
}

// Replace puts a new host in the place of a server that was removed, with its name and addresses and nothing else of it.
func (s *Stand) Replace(gone *Host) (*Host, error) {
	for i, h := range s.Servers {
		if h != gone {
			continue
		}
		fresh, err := s.join(gone.Name, strings.TrimSuffix(gone.cgroup, gone.Name), gone.own, coreMTU)
		if err != nil {
			return nil, err
		}
		s.Servers[i] = fresh
		return fresh, nil
	}
	return nil, fmt.Errorf("%s is no server of the stand", gone.Name)
}

// Narrow sets what the router sends to a host at most, in bytes, so that it has to tell others of it. The host itself knows nothing of it.
func (s *Stand) Narrow(h *Host, mtu int) error {
	return s.Router.Do(func() error {
		l, err := netlink.LinkByName(h.Name)
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(l, mtu)
	})
}

// Offloads switches what devices do for the kernel, checksums and segmentation, on all links of clients and servers.
func (s *Stand) Offloads(on bool) error {
	var errs []error
	for _, h := range s.Hosts() {
		if h == s.LB {
			continue
		}
		errs = append(errs, h.Do(func() error { return setOffloads(link, on, allOffloads...) }),
			s.Router.Do(func() error { return setOffloads(h.Name, on, allOffloads...) }))
	}
	return errors.Join(errs...)
}

// Close removes everything.
func (s *Stand) Close() error {
	errs := []error{s.watcher.close()}
	for _, h := range append(s.Servers, s.LB, s.Client, s.Router) {
		if h != nil {
			errs = append(errs, h.Close())
		}
	}
	return errors.Join(errs...)
}

// plug brings a device up with an address, and tells it of the one neighbour behind it.
func plug(name string, own, neighbour addresses, hardware net.HardwareAddr, isDefault bool) error {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if err := quiet(name, l); err != nil {
		return err
	}
	if own.v4.IsValid() {
		if err := own.addTo(l); err != nil {
			return err
		}
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return err
	}
	for _, address := range []netip.Addr{neighbour.v4, neighbour.v6} {
		n := &netlink.Neigh{LinkIndex: l.Attrs().Index, IP: address.AsSlice(), HardwareAddr: hardware, State: netlink.NUD_PERMANENT}
		if err := netlink.NeighSet(n); err != nil {
			return fmt.Errorf("enter neighbour %s: %w", address, err)
		}
		if !isDefault {
			continue
		}
		everything := netip.PrefixFrom(unspecified(address), 0)
		r := &netlink.Route{LinkIndex: l.Attrs().Index, Dst: ipNet(everything), Gw: address.AsSlice(), Flags: int(netlink.FLAG_ONLINK)}
		if err := netlink.RouteAdd(r); err != nil {
			return fmt.Errorf("route to everything by %s: %w", address, err)
		}
	}
	return nil
}

// quiet keeps the kernel from sending anything of its own: no multicast, no address made up from the hardware's.
func quiet(name string, l netlink.Link) error {
	return errors.Join(
		netlink.LinkSetMulticastOff(l),
		writeSysctl("ipv6/conf/"+name+"/addr_gen_mode", "1"),
		writeSysctl("ipv6/conf/"+name+"/accept_ra", "0"),
		writeSysctl("ipv4/conf/"+name+"/rp_filter", "0"))
}

func (a addresses) addTo(l netlink.Link) error {
	for _, address := range []netip.Addr{a.v4, a.v6} {
		if err := addAddress(l, address); err != nil {
			return err
		}
	}
	return nil
}

func addAddress(l netlink.Link, address netip.Addr) error {
	a := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(address, address.BitLen()))}
	if address.Is6() {
		// Detection of duplicates would keep it back, and send something.
		a.Flags = ifaNoDAD
	}
	if err := netlink.AddrAdd(l, a); err != nil {
		return fmt.Errorf("add address %s: %w", address, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func unspecified(a netip.Addr) netip.Addr {
	if a.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// writeSysctl sets a value of net/ in the namespace of this thread.
func writeSysctl(name, value string) error {
	if err := os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0); err != nil {
		return fmt.Errorf("set sysctl net/%s: %w", name, err)
	}
	return nil
}
