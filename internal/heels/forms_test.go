// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
	"github.com/xlb-project/xlb/test/violation"
)

const (
	testRouter = "10.77.5.1"
	// narrowMTU is what the router's ways to client and server carry, in bytes.
	narrowMTU = 1000
)

// router is a host that client and server reach each other by, over a way that is narrower than their wire.
func (r *rig) router() *host {
	r.t.Helper()
	h := r.plug("router", testRouter)
	h.Sysctl("ipv4/ip_forward", "1")
	h.Sysctl("ipv4/conf/all/send_redirects", "0")
	h.Sysctl("ipv4/conf/eth0/send_redirects", "0")
	ends := map[*host]string{r.client: testServer1, r.servers[0]: testClient}
	for at, to := range ends {
		h.Run("", "ip", "route", "add", to+"/32", "dev", "eth0", "mtu", "lock", fmt.Sprint(narrowMTU))
		at.Run("", "ip", "route", "add", to+"/32", "via", testRouter)
		at.Sysctl("ipv4/conf/all/accept_redirects", "0")
	}
	return h
}

// formWays are the ways that packets of every form are tried on.
var formWays = []struct {
	name  string
	begin func(*rig) (server, client *Agent)
}{
	{"rewritten", func(r *rig) (*Agent, *Agent) { return r.plainPair("rewritten", testVIP) }},
	{"confirm", func(r *rig) (*Agent, *Agent) {
		r.nat("80", testServer1+":80", true)
		return r.servers[0].agent(confirmText("80")), r.client.agent(clientText)
	}},
	{"encapsulated", func(r *rig) (*Agent, *Agent) {
		r.encapsulate(ipip)
		return r.servers[0].agent(serverText("encapsulated", "80")), r.client.agent(clientText)
	}},
}

// Whatever form the packets of a direct connection have, the same bytes come that were sent.
func TestBytesAreTheSameInPacketsOfEveryForm(t *testing.T) {
	const size = 1 << 20
	for _, way := range formWays {
		for _, form := range []struct {
			name string
			// before is done before the connection begins, after when it has carried something.
			before, after func(*rig)
			// fragments: the way makes some.
			fragments bool
		}{
			{name: "super-packets"},
			{name: "one segment a packet from now on", after: (*rig).single},
			{name: "narrower interfaces from now on", after: func(r *rig) { r.mtu(r.servers[0], 1200); r.mtu(r.client, 1200) }},
			{name: "a router tells of its MTU", before: func(r *rig) {
				r.router()
				// What is sent to the client is told to the VIP (docs/heels.md).
				r.servers[0].Sysctl("ipv4/tcp_mtu_probing", "1")
			}},
			{name: "fragments", before: func(r *rig) {
				r.router()
				for _, h := range []*host{r.client, r.servers[0]} {
					h.Sysctl("ipv4/ip_no_pmtu_disc", "1")
				}
			}, fragments: true},
		} {
			// Fragments of what a client sends directly are not recognised in confirm mode (docs/heels.md).
			if form.fragments && way.name == "confirm" {
				continue
			}
			t.Run(way.name+", "+form.name, func(t *testing.T) {
				r := newRig(t, testServer1)
				if form.before != nil {
					form.before(r)
				}
				server, client := way.begin(r)
				r.servers[0].listen(":80", answerWhom)
				c, err := r.client.dial(testVIP + ":80")
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, err := c.Write([]byte("?\n")); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Read(make([]byte, 64)); err != nil {
					t.Fatal(err, dump(t, client), dump(t, server))
				}
				if form.after != nil {
					echo(t, c, size)
					form.after(r)
				}
				echo(t, c, size)
				if n := client.count(t, "direct") + client.count(t, "confirm_switched"); n != 1 || client.count(t, "confirm_returned") != 0 {
					t.Errorf("the connection is not direct: %v %v", dump(t, client), dump(t, server))
				}
				if form.fragments && r.servers[0].reassembled(t) == 0 {
					t.Error("the server has reassembled nothing: the case shows nothing")
				}
			})
		}
	}
}

// single has both ends send one segment a packet.
func (r *rig) single() {
	for _, h := range []*host{r.client, r.servers[0]} {
		heelstest.Within(r.t, h.NS, func() error {
			l, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			return netlink.LinkSetGSOMaxSegs(l, 1)
		})
	}
}

func (r *rig) mtu(h *host, bytes int) {
	heelstest.Within(r.t, h.NS, func() error {
		l, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(l, bytes)
	})
}

// reassembled is how many packets the host has put together of fragments.
func (h *host) reassembled(t *testing.T) (n int) {
	t.Helper()
	return h.snmp(t, "Ip", "ReasmOKs")
}

// Extension headers that an application asks for are walked over: in a SYN they leave the connection to the balancer, later it stays direct.
func TestBytesAreTheSameBehindExtensionHeaders(t *testing.T) {
	for _, tt := range []struct {
		name   string
		option int
		early  bool
	}{
		{"destination options from the SYN on", unix.IPV6_DSTOPTS, true},
		{"destination options later", unix.IPV6_DSTOPTS, false},
		{"hop-by-hop options later", unix.IPV6_HOPOPTS, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, testServer1)
			r.masquerade6()
			text := strings.Replace(serverTextOf("rewritten", rig6VIP), "mode: rewritten,", "mode: rewritten, balancers: [\"fd77::/16\"],", 1)
			server, client := r.servers[0].agent(text), r.client.agent(clientTextOf(rig6VIP))
			r.servers[0].listen(":80", answerAddress)
			to := netip.AddrPortFrom(netip.MustParseAddr(rig6VIP), 80)
			s := r.client.socket(t, to)
			// One header of 8 bytes: its kind, no more words, padding of 4 bytes.
			extend := func() {
				if err := unix.SetsockoptString(s.fd, unix.IPPROTO_IPV6, tt.option, string([]byte{0, 0, 1, 4, 0, 0, 0, 0})); err != nil {
					t.Fatal(err)
				}
			}
			if tt.early {
				extend()
			}
			s.connect(to)
			s.read()
			if !tt.early {
				extend()
			}
			s.echo(1 << 18)
			direct, declined := client.count(t, "direct"), server.count(t, "decline_extension")
			if want := map[bool][2]uint64{true: {0, 1}, false: {1, 0}}[tt.early]; direct != want[0] || declined != want[1] {
				t.Errorf("%d direct, %d declined, want %v: %v %v", direct, declined, want, dump(t, client), dump(t, server))
			}
		})
	}
}

// echo sends n bytes and reads them back.
func (s *plainSocket) echo(n int) {
	s.t.Helper()
	data := lifeBytes(n, 7)
	go func() {
		for rest := data; len(rest) > 0; {
			sent, err := unix.Write(s.fd, rest)
			if err != nil {
				return
			}
			rest = rest[sent:]
		}
	}()
	timeout := unix.Timeval{Sec: 20}
	if err := unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		s.t.Fatal(err)
	}
	var back []byte
	for buf := make([]byte, 1<<16); len(back) < n; {
		got, err := unix.Read(s.fd, buf)
		if errors.Is(err, unix.EINTR) {
			continue // a read with a time limit is not begun again behind a signal, such as the runtime's own
		}
		if err != nil || got == 0 {
			s.t.Fatalf("after %d bytes: %v", len(back), err)
		}
		back = append(back, buf[:got]...)
	}
	if !bytes.Equal(back, data) {
		violation.Errorf(s.t, "other bytes came back")
	}
}

// A VLAN's interface is one as any other: the kernel shows its packets without the tag. Needs a kernel with CONFIG_VLAN_8021Q.
func TestBytesAreTheSameInAVLAN(t *testing.T) {
	r := newRig(t, testServer1)
	for h, address := range map[*host]string{r.client: testClient, r.lb: testBalancer, r.servers[0]: testServer1} {
		var err error
		heelstest.Within(t, h.NS, func() error {
			var l netlink.Link
			if l, err = netlink.LinkByName("eth0"); err != nil {
				return err
			}
			err = netlink.LinkAdd(&netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: "vlan7", ParentIndex: l.Attrs().Index}, VlanId: 7})
			if errors.Is(err, unix.EOPNOTSUPP) {
				return nil
			}
			var old *netlink.Addr
			if old, err = netlink.ParseAddr(address + "/16"); err != nil {
				return err
			}
			return errors.Join(err, netlink.AddrDel(l, old), heelstest.AddAddr("vlan7", address+"/16"), heelstest.LinkUp("vlan7"))
		})
		if errors.Is(err, unix.EOPNOTSUPP) {
			t.Skip("this kernel has no VLAN interfaces (CONFIG_VLAN_8021Q)")
		}
	}
	heelstest.Within(t, r.lb.NS, func() error { return heelstest.AddAddr("vlan7", testVIP+"/32") })
	r.lb.Sysctl("ipv4/ip_forward", "1")
	r.lb.Run("table ip t {\n chain pre { type nat hook prerouting priority -100; ip daddr "+testVIP+" tcp dport 80 dnat to "+testServer1+":80; }\n chain post { type nat hook postrouting priority 100; ct status dnat masquerade; }\n}\n", "nft", "-f", "-")
	server := r.servers[0].start(parse(t, "vlan7", serverText("rewritten", "80")))
	client := r.client.start(parse(t, "vlan7", clientText))
	r.servers[0].listen(":80", answerAddress)
	echo(t, r.connect(), 4<<20)
	if n := server.count(t, "accepted"); n != 1 || client.count(t, "direct") != 1 {
		t.Errorf("the connection is not direct: %v %v", dump(t, client), dump(t, server))
	}
}

// What has a tag of its own in front is another network's: programs of the interface beneath leave it as it is.
func TestTaggedPacketsAreLeftAlone(t *testing.T) {
	l := newLab(t, labText, "10.77.2.1:8080")
	heelstest.Within(t, l.host.NS, l.readyListeners)
	for _, f := range []fixture{rewritten, wrapped, preserved} {
		plain := f.packet()
		tagged := append(append(bytes.Clone(plain[:12]), 0x81, 0, 0, 7), plain[12:]...)
		for name, p := range l.hooks.ByName() {
			if !strings.Contains(name, "gress") {
				continue
			}
			if out, verdicts := l.run(t, p, tagged); len(verdicts) != 0 || !bytes.Equal(out, tagged) {
				t.Errorf("%s: verdicts %v, the packet is\n%x, it was\n%x", name, verdicts, out, tagged)
			}
		}
	}
}

// snmp is a number of proc_net_snmp(5).
func (h *host) snmp(t *testing.T, group, name string) (n int) {
	t.Helper()
	heelstest.Within(t, h.NS, func() error {
		text, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			return err
		}
		var names []string
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			switch {
			case f[0] != group+":":
			case names == nil:
				names = f
			default:
				n, err = strconv.Atoi(f[slices.Index(names, name)])
			}
		}
		return err
	})
	return n
}
