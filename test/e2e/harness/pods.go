// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Node is a host with pods: network namespaces that are joined by a bridge, and have no route to anywhere else.
type Node struct {
	// Place is the host's own network namespace, and the cgroup of all that is balanced.
	*Place
	pods int
}

// Pod is a place on a node, with an address of each family.
type Pod struct {
	*Place
	Address6 netip.Addr
	// link is the node's end of the pod's wire.
	link string
}

const bridge = "pods"

// NewNode returns a host without pods.
func NewNode(t testing.TB) *Node {
	t.Helper()
	n := &Node{Place: Isolated(t)}
	n.inside(t, func() error {
		return errors.Join(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge}}), n.address(bridge), up(bridge))
	})
	n.Address = netip.MustParseAddr("10.244.0.1")
	return n
}

// address gives a link the node's next addresses.
func (n *Node) address(link string) error {
	n.pods++
	return errors.Join(addAddress(link, fmt.Sprintf("10.244.0.%d/24", n.pods)), addAddress(link, fmt.Sprintf("fd00:244::%x/64", n.pods)))
}

// Pod returns another pod, whose processes are in a cgroup that is balanced.
func (n *Node) Pod(t testing.TB) *Pod {
	t.Helper()
	return n.plugged(t, n.Apart(t))
}

// OtherHost returns a place with an address of the pods' network that the daemon takes for another host: it is in no cgroup of the daemon's.
func (n *Node) OtherHost(t testing.TB) *Pod {
	t.Helper()
	return n.plugged(t, Isolated(t))
}

func (n *Node) plugged(t testing.TB, at *Place) *Pod {
	t.Helper()
	link := fmt.Sprintf("pod%d", n.pods)
	n.inside(t, func() error {
		wire := netlink.NewVeth(netlink.LinkAttrs{Name: link})
		wire.PeerName, wire.PeerNamespace = "eth0", netlink.NsFd(at.ns)
		if err := netlink.LinkAdd(wire); err != nil {
			return err
		}
		master, err := netlink.LinkByName(bridge)
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetMaster(wire, master), up(link))
	})
	at.inside(t, func() error { return errors.Join(n.address("eth0"), up("eth0")) })
	at.Address = netip.MustParseAddr(fmt.Sprintf("10.244.0.%d", n.pods))
	return &Pod{Place: at, Address6: netip.MustParseAddr(fmt.Sprintf("fd00:244::%x", n.pods)), link: link}
}

// Shun has a pod answer nothing that comes from an address, as a network policy does.
func (p *Pod) Shun(t testing.TB, from netip.Addr) {
	t.Helper()
	p.inside(t, func() error {
		return netlink.RouteAdd(&netlink.Route{Dst: netlink.NewIPNet(from.AsSlice()), Type: unix.RTN_BLACKHOLE})
	})
}

// Watched is a pod's network namespace as its node can see it.
type Watched struct {
	node *Node
	link string
}

// Watch adds a second wire between node and pod, of which the node's end goes with the pod's namespace.
func (n *Node) Watch(t testing.TB, p *Pod) *Watched {
	t.Helper()
	w := &Watched{node: n, link: "w" + p.link}
	n.inside(t, func() error {
		wire := netlink.NewVeth(netlink.LinkAttrs{Name: w.link})
		wire.PeerName, wire.PeerNamespace = "watch", netlink.NsFd(p.ns)
		return netlink.LinkAdd(wire)
	})
	return w
}

// Unplug removes a pod's wire, as a CNI plugin does before the pod's last process ends, and the test's own hold on its namespace: the pod's processes, and
// what others have opened there, are all that keeps it. Nothing can be done in the pod from then on.
func (n *Node) Unplug(t testing.TB, p *Pod) {
	t.Helper()
	n.inside(t, func() error {
		link, err := netlink.LinkByName(p.link)
		if err != nil {
			return err
		}
		return netlink.LinkDel(link)
	})
	p.letGo(t)
}

// Exists reports whether the namespace does.
func (w *Watched) Exists(t testing.TB) (exists bool) {
	t.Helper()
	w.node.inside(t, func() error {
		_, err := netlink.LinkByName(w.link)
		exists = err == nil
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			return nil
		}
		return err
	})
	return exists
}
