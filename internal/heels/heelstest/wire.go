// SPDX-License-Identifier: Apache-2.0

package heelstest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// Host is a network namespace with one interface, eth0.
type Host struct {
	T    testing.TB
	NS   netns.NsHandle
	Name string
}

// Wire is a bridge that hosts are plugged into.
type Wire struct {
	T  testing.TB
	NS netns.NsHandle
}

// NewWire makes a wire without hosts.
func NewWire(t testing.TB) *Wire {
	t.Helper()
	w := &Wire{T: t, NS: NewNS(t)}
	Within(t, w.NS, func() error {
		br := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
		return errors.Join(netlink.LinkAdd(br), netlink.LinkSetUp(br))
	})
	return w
}

// Plug makes a host on the wire.
func (w *Wire) Plug(name, address string) *Host {
	w.T.Helper()
	h := &Host{T: w.T, NS: NewNS(w.T), Name: name}
	// Addresses of IPv6 are good at once, for questions for neighbours, too.
	h.Sysctl("ipv6/conf/default/accept_dad", "0")
	w.Connect(h, address)
	return h
}

// Connect makes the host's interface.
func (w *Wire) Connect(h *Host, addresses ...string) {
	w.T.Helper()
	Within(w.T, w.NS, func() error {
		v := netlink.NewVeth(netlink.LinkAttrs{Name: h.Name})
		v.PeerName, v.PeerNamespace = "eth0", netlink.NsFd(h.NS)
		if err := netlink.LinkAdd(v); err != nil {
			return err
		}
		br, err := netlink.LinkByName("br0")
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetMaster(v, br), netlink.LinkSetUp(v))
	})
	Within(w.T, h.NS, func() error {
		err := LinkUp("lo")
		for _, a := range addresses {
			err = errors.Join(err, AddAddr("eth0", a+"/16"))
		}
		return errors.Join(err, LinkUp("eth0"))
	})
}

// Unplug deletes the host's interface.
func (h *Host) Unplug() {
	h.T.Helper()
	Within(h.T, h.NS, func() error {
		device, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.LinkDel(device)
	})
}

// Sysctl writes a setting of the host, by its path below /proc/sys/net.
func (h *Host) Sysctl(name, value string) {
	h.T.Helper()
	Within(h.T, h.NS, func() error { return os.WriteFile(filepath.Join("/proc/sys/net", name), []byte(value), 0) })
}

// Run runs a command on the host.
func (h *Host) Run(stdin, name string, args ...string) {
	h.T.Helper()
	Within(h.T, h.NS, func() error {
		cmd := exec.Command(name, args...)
		cmd.Stdin = strings.NewReader(stdin)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s %v: %w: %s", name, args, err, out)
		}
		return nil
	})
}
