// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
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
	return &Pod{Place: at, Address6: netip.MustParseAddr(fmt.Sprintf("fd00:244::%x", n.pods))}
}
