// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/pins"
	"github.com/xlb-project/xlb/internal/heels/settings"
	"github.com/xlb-project/xlb/test/violation"
)

// subCgroup is a cgroup below the test's, or below another one.
func subCgroup(t *testing.T, parent, name string) string {
	t.Helper()
	dir := filepath.Join(parent, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	})
	return dir
}

// inside runs do while this process is in a cgroup.
func inside(t *testing.T, cgroup string, do func()) {
	t.Helper()
	join := func(dir string) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
			t.Fatal(err)
		}
	}
	join(cgroup)
	defer join(testCgroup)
	do()
}

// withCgroup is a configuration for the processes of a cgroup.
func withCgroup(t *testing.T, cgroup, text string) *settings.Config {
	t.Helper()
	c, err := settings.Parse("heels.yaml", []byte("kind: heels\ninterfaces: [eth0]\ncgroup: "+cgroup+"\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A listener that is older than the agent, in a cgroup that the agent has no programs in, is not prepared: a SYN that was committed to would get no answer.
func TestListenersOfOtherCgroupsAreLeftAlone(t *testing.T) {
	for _, tt := range []struct {
		name    string
		listens string
		ready   bool
	}{
		{"its own", "a", true},
		{"below it", "a/b", true},
		{"beside it", "c", false},
		{"above it", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, family := range reuses {
				t.Run(family.name, func(t *testing.T) {
					own := subCgroup(t, testCgroup, "a")
					subCgroup(t, own, "b")
					subCgroup(t, testCgroup, "c")
					r := newRig(t, testServer1)
					r.balance(family.mode, family.vip)
					inside(t, filepath.Join(testCgroup, tt.listens), func() { r.servers[0].listen(":80", answerAddress) })
					server := r.servers[0].start(withCgroup(t, own, serverTextOf(family.mode, family.vip)))
					r.client.agent(clientTextOf(family.vip))
					if n := server.count(t, "listener_ready"); n == 1 != tt.ready {
						t.Errorf("%d listeners are prepared, want one: %t", n, tt.ready)
					}
					vip := netip.AddrPortFrom(netip.MustParseAddr(family.vip), 80)
					// Of one that is declined the rig's balancer has no way back over IPv6.
					c := r.client.socket(t, vip)
					c.begin(vip)
					want := map[bool]string{true: "accepted", false: "decline_listener"}[tt.ready]
					eventually(t, want, func() bool { return server.count(t, want) == 1 })
					if n := server.count(t, "committed"); n == 1 != tt.ready {
						t.Errorf("%d SYNs were committed to, want one: %t; %v", n, tt.ready, dump(t, server))
					}
				})
			}
		})
	}
}

// Connections of a cgroup that the agent after this one does not serve are finished: their ends are dealt with as all are.
func TestConnectionsOfTheLastCgroupAreFinished(t *testing.T) {
	for _, tt := range []struct{ name, old, next string }{
		{"beside it", "a", "c"},
		{"inside it", "a", "a/b"},
		{"around it", "a/b", "a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			subCgroup(t, subCgroup(t, testCgroup, "a"), "b")
			subCgroup(t, testCgroup, "c")
			old, next := filepath.Join(testCgroup, tt.old), filepath.Join(testCgroup, tt.next)
			r := newRig(t, testServer1)
			r.nat("80", testServer1+":80", true)
			var c net.Conn
			inside(t, old, func() {
				r.servers[0].listen(":80", answerWhom)
				server := r.servers[0].start(withCgroup(t, old, confirmText("80")))
				r.client.start(withCgroup(t, old, clientText))
				var err error
				if c, err = r.client.dial(testVIP + ":80"); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Write([]byte("?\n")); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the client is heard", func() bool { return server.count(t, "confirm_heard") == 1 })
			})
			defer c.Close()
			server := r.servers[0].start(withCgroup(t, next, confirmText("80")))
			client := r.client.start(withCgroup(t, next, clientText))
			if _, err := c.Read(make([]byte, 64)); err != nil {
				t.Fatal(err, dump(t, server))
			}
			echo(t, c, 1<<20)
			if in := r.settled(); in != 3 {
				t.Errorf("%d segments came to the balancer, want the handshake", in)
			}
			c.Close()
			eventually(t, "no connection is left", func() bool { return live(t, client)+live(t, server) == 0 })
			eventually(t, "the balancer is told", func() bool { return r.in.Load() == 4 })
			if _, n := entriesOf(t, server); n != 0 {
				violation.Errorf(t, "%d entries of connections are left", n)
			}
			s, err := server.Status()
			if err != nil || len(s.Backends) != 1 || s.Backends[0].Opened != 1 || s.Backends[0].Sent > 1<<20+64 {
				t.Errorf("status %+v, %v; want one connection, and what it has carried once", s, err)
			}
			if h := r.servers[0]; h.sockets(established)+h.sockets(closeWait)+h.sockets(lastAck) != 0 {
				violation.Errorf(t, "a socket of the server is left")
			}
			for _, a := range []*Agent{server, client} {
				a.mu.Lock()
				a.refresher.started = a.refresher.started.Add(-handshakesEnd)
				a.mu.Unlock()
				eventually(t, "no link to the last cgroup", func() bool {
					names, err := pins.LinkNames(a.pin)
					return err == nil && !slices.ContainsFunc(names, pins.IsFinisher)
				})
			}
		})
	}
}

// An entry whose socket has gone without a word catches the segments of whoever comes with its client's end. The agent takes it away, and tells the balancer.
func TestEntriesWithoutASocketAreSwept(t *testing.T) {
	const port = 20083
	r := newRig(t, testServer1)
	r.nat("80", testServer1+":80", true)
	server := r.servers[0].agent(confirmText("80"))
	r.servers[0].listen(":80", answerWhom)
	r.client.agent(clientText)
	keeps, err := r.client.dial(testVIP + ":80")
	if err != nil {
		t.Fatal(err)
	}
	defer keeps.Close()
	if _, err := keeps.Write([]byte("?\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := keeps.Read(make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	at := func(s string) kernel.End { return kernel.EndOf(netip.MustParseAddrPort(s)) }
	left := kernel.Confirmed{Vip: at(testVIP + ":80"), Client: kernel.EndOf(netip.AddrPortFrom(netip.MustParseAddr(testClient), port)), Balancer: at(testBalancer + ":1234"), Heard: 1, Mark: 7, Since: 1}
	for _, from := range []kernel.End{left.Client, left.Balancer} {
		if err := server.maps.HeelsConfirmed.Put(kernel.Tuple{Local: at(testServer1 + ":80"), Remote: from}, left); err != nil {
			t.Fatal(err)
		}
	}
	before := r.settled()
	if err := server.sweep(); err != nil {
		t.Fatal(err)
	}
	c, err := r.client.dialFrom(port, testServer1+":80")
	if err != nil {
		t.Fatal(err, dump(t, server))
	}
	c.Close()
	eventually(t, "the balancer is told", func() bool { return r.in.Load() == before+1 })
	// That of a connection that lives stays, although it is as old.
	if direct, n := entriesOf(t, server); n != 2 || direct != 1 {
		t.Errorf("%d entries are left, want the two of the live connection", n)
	}
	echo(t, keeps, 1<<16)
}

// entriesOf counts entries of connections in confirm mode: those of clients' ends, and all.
func entriesOf(t *testing.T, a *Agent) (direct, all int) {
	t.Helper()
	var (
		key kernel.Tuple
		e   kernel.Confirmed
	)
	entries := a.maps.HeelsConfirmed.Iterate()
	for entries.Next(&key, &e) {
		all++
		if key.Remote == e.Client {
			direct++
		}
	}
	if err := entries.Err(); err != nil {
		t.Fatal(err)
	}
	return direct, all
}

// systemd makes the cgroup of a service anew with each start: programs come with it, and listeners that were faster are prepared.
func TestACgroupThatIsMadeAgain(t *testing.T) {
	for _, tt := range reuses {
		t.Run(tt.name, func(t *testing.T) {
			service := subCgroup(t, testCgroup, "service")
			r := newRig(t, testServer1)
			r.balance(tt.mode, tt.vip)
			server := r.servers[0].start(withCgroup(t, service, serverTextOf(tt.mode, tt.vip)))
			client := r.client.start(withCgroup(t, service, clientTextOf(tt.vip)))
			if err := os.Remove(service); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(service, 0o755); err != nil {
				t.Fatal(err)
			}
			number, err := pins.CgroupNumber(service)
			if err != nil {
				t.Fatal(err)
			}
			inside(t, service, func() {
				r.servers[0].listen(":80", answerAddress)
				eventually(t, "the listener is prepared", func() bool { return server.count(t, "listener_ready") == 1 })
				eventually(t, "the client's program is there", func() bool { return pins.AttachedTo(client.pin, "link_client_sockops") == number })
				vip := netip.AddrPortFrom(netip.MustParseAddr(tt.vip), 80)
				c := r.client.socket(t, vip)
				c.connect(vip)
				c.read()
			})
			if client.count(t, "direct") != 1 || server.count(t, "accepted") != 1 {
				t.Errorf("the connection goes through the balancer: %v %v", dump(t, client), dump(t, server))
			}
		})
	}
}
