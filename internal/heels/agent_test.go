// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/settings"
)

// pair is a client and a server behind a balancer that masquerades.
func pair(t *testing.T) (r *rig, client, server *Agent) {
	t.Helper()
	r = newRig(t, testServer1)
	r.nat("80", testServer1+":80", true)
	r.servers[0].listen(":80", answerAddress)
	// The listener is older than the agent.
	server = r.servers[0].agent(serverText("rewritten", "80"))
	return r, r.client.agent(clientText), server
}

func (r *rig) connect() net.Conn {
	r.t.Helper()
	c, err := r.client.dial(testVIP + ":80")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { c.Close() })
	if _, err := c.Read(make([]byte, 64)); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// An agent that starts over its predecessor's pins keeps connections, counters and draining.
func TestAnAgentSucceedsAnother(t *testing.T) {
	r, client, _ := pair(t)
	c := r.connect()
	if err := client.SetDraining(ClientRole, true); err != nil {
		t.Fatal(err)
	}
	next := r.client.agent(clientText)
	c.(*net.TCPConn).SetNoDelay(true)
	echo(t, c.(*net.TCPConn), 1<<20)
	if n := next.count(t, "direct"); n != 1 {
		t.Errorf("%d connections were counted before, want 1", n)
	}
	s, err := next.Status()
	if err != nil || len(s.Draining) != 1 || s.Draining[0] != ClientRole {
		t.Errorf("draining %v, %v; want the client", s.Draining, err)
	}
	if err := next.SetDraining(ClientRole, false); err != nil {
		t.Fatal(err)
	}
	r.connect()
	if n := next.count(t, "direct"); n != 2 {
		t.Errorf("%d direct connections, want 2", n)
	}
}

// A role that drains leaves new connections to the balancer and keeps those that there are.
func TestDraining(t *testing.T) {
	for _, tt := range []struct {
		role    Role
		verdict string
	}{{ClientRole, "offer_draining"}, {ServerRole, "decline_draining"}} {
		t.Run(string(tt.role), func(t *testing.T) {
			r, client, server := pair(t)
			old := r.connect()
			agent := map[Role]*Agent{ClientRole: client, ServerRole: server}[tt.role]
			if err := agent.SetDraining(tt.role, true); err != nil {
				t.Fatal(err)
			}
			before := r.in.Load()
			echo(t, r.connect(), 1<<20)
			eventually(t, "the new connection goes through the balancer", func() bool { return agent.count(t, tt.verdict) == 1 && r.in.Load() >= before+5 })
			before = r.settled()
			echo(t, old, 8<<20)
			// The other connection is still there and may be acknowledged late; what was echoed are more than a hundred packets.
			if n := r.settled() - before; n > 20 {
				t.Errorf("%d packets of the old connection went through the balancer", n)
			}
		})
	}
}

// Programs are not taken away from under connections.
func TestDetachWaitsForConnections(t *testing.T) {
	r, client, _ := pair(t)
	c := r.connect()
	var flows *FlowsError
	if err := client.Detach(false); !errors.As(err, &flows) || flows.Count != 1 {
		t.Fatalf("error %v, want one connection in the way", err)
	}
	echo(t, c, 1<<16)
	c.Close()
	eventually(t, "no connection in the way", func() bool {
		conns, err := client.Connections()
		return err == nil && len(conns) == 0
	})
	if err := client.Detach(false); err != nil {
		t.Fatal(err)
	}
	if n := r.client.attached(); n != 0 {
		t.Errorf("%d programs are still in force", n)
	}
	if _, err := os.Stat(r.client.pin); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("pins are left: %v", err)
	}
	r.connect()
}

// What is in its handshake cannot be seen as a connection, and depends on the programs no less.
func TestDetachWaitsForHandshakes(t *testing.T) {
	r, _, server := pair(t)
	r.client.Run("table ip d {\n chain o { type filter hook output priority 0; ip daddr "+testVIP+" tcp flags & (syn | ack) == ack drop; }\n}\n", "nft", "-f", "-")
	c, err := r.client.dial(testVIP + ":80")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n := r.servers[0].halfOpen(); n != 1 {
		t.Fatalf("%d handshakes are under way, want 1", n)
	}
	detached := make(chan error, 1)
	go func() {
		detached <- heelstest.Enter(r.servers[0].NS, func() error { return server.Detach(false) })
	}()
	eventually(t, "the server begins to detach", func() bool {
		s, err := server.control()
		return err == nil && s.Flags != 0
	})
	r.client.Run("", "nft", "delete", "table", "ip", "d")
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	var flows *FlowsError
	if err := <-detached; !errors.As(err, &flows) || flows.Count != 1 {
		t.Errorf("error %v, want one connection in the way", err)
	}
	if _, err := c.Read(make([]byte, 64)); err != nil {
		t.Error(err)
	}
}

// An interface that is gone has taken its programs with it: nothing is wrong.
func TestDetachAfterTheInterface(t *testing.T) {
	r, client, _ := pair(t)
	heelstest.Within(t, r.client.NS, func() error {
		device, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		return netlink.LinkDel(device)
	})
	if err := client.Detach(false); err != nil {
		t.Error(err)
	}
}

func TestProbeTellsTheWay(t *testing.T) {
	r, client, server := pair(t)
	probe := func() *ProbeResult {
		t.Helper()
		var p *ProbeResult
		heelstest.Within(t, r.client.NS, func() (err error) {
			p, err = client.Probe(context.Background(), netip.MustParseAddrPort(testVIP+":80"), "")
			return err
		})
		return p
	}
	if p := probe(); p.State != Direct || !p.Confirmed || p.Server.String() != testServer1+":80" || p.Verdicts["direct"] != 1 {
		t.Errorf("probe %+v, want a direct connection", p)
	}
	if err := server.SetDraining(ServerRole, true); err != nil {
		t.Fatal(err)
	}
	if p := probe(); p.State != Fallback || !p.Confirmed {
		t.Errorf("probe %+v, want the balancer's path", p)
	}
	if err := client.SetDraining(ClientRole, true); err != nil {
		t.Fatal(err)
	}
	if p := probe(); p.State != "" {
		t.Errorf("probe %+v, want no option", p)
	}
}

// Whichever end closes first, and however late the other, no socket waits for an acknowledgement that went to the balancer.
func TestBothEndsMayCloseFirst(t *testing.T) {
	const connections = 50
	for _, tt := range []struct{ first, verdict string }{{"client", "client_closing"}, {"server", "server_closing"}} {
		t.Run(tt.first, func(t *testing.T) {
			r := newRig(t, testServer1)
			r.nat("80", testServer1+":80", true)
			server := r.servers[0].agent(serverText("rewritten", "80"))
			client := r.client.agent(clientText)
			late := make(chan struct{})
			r.servers[0].listen(":80", func(c net.Conn) {
				defer c.Close()
				if tt.first == "server" {
					return
				}
				_, _ = c.Read(make([]byte, 1))
				<-late
			})
			conns := make([]net.Conn, connections)
			for i := range conns {
				c, err := r.client.dial(testVIP + ":80")
				if err != nil {
					t.Fatal(err)
				}
				conns[i] = c
				if tt.first == "client" {
					c.Close()
				}
			}
			first, other := client, server
			if tt.first == "server" {
				first, other = server, client
			}
			eventually(t, "the first end has no sockets", func() bool { return live(t, first) == 0 })
			if live(t, other) != connections {
				t.Errorf("%d connections are left at the other end, want %d", live(t, other), connections)
			}
			close(late)
			for _, c := range conns {
				c.Close()
			}
			eventually(t, "all closed", func() bool { return live(t, other) == 0 })
			if n := first.count(t, tt.verdict); n < connections {
				t.Errorf("%d segments without a socket, want %d: %v", n, connections, dump(t, first))
			}
			if in := r.settled(); in != connections {
				t.Errorf("%d segments came to the balancer, want %d", in, connections)
			}
		})
	}
}

// Ends that an earlier connection had say nothing about where a later one goes: what it sends without a socket takes the balancer's path, as it did with one.
func TestTheNextConnectionOfTheSameEndsGoesItsOwnWay(t *testing.T) {
	for _, tt := range []struct {
		name, verdict string
		drain         func(client, server *Agent) error
	}{
		{"nothing offered", "offer_draining", func(client, _ *Agent) error { return client.SetDraining(ClientRole, true) }},
		{"no answer", "answer_none", func(_, server *Agent) error { return server.SetDraining(ServerRole, true) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, testServer1)
			r.nat("80", testServer1+":80", true)
			// Ends in TIME_WAIT may be taken after a second.
			r.client.Sysctl("ipv4/tcp_tw_reuse", "1")
			server := r.servers[0].agent(serverText("rewritten", "80"))
			client := r.client.agent(clientText)
			late := make(chan struct{})
			r.servers[0].listen(":80", func(c net.Conn) {
				_, _ = c.Read(make([]byte, 1))
				<-late
				c.Close()
			})
			closes := func() {
				c, err := r.client.dialFrom(20077, testVIP+":80")
				if err != nil {
					t.Fatal(err, dump(t, client), dump(t, server))
				}
				c.Close()
				eventually(t, "the server's acknowledgement", func() bool { return r.client.sockets(finWait2) == 1 })
				late <- struct{}{}
			}
			closes()
			eventually(t, "the first connection's last segment", func() bool { return client.count(t, "client_closing") == 1 })
			if err := tt.drain(client, server); err != nil {
				t.Fatal(err)
			}
			time.Sleep(1100 * time.Millisecond)
			before := r.settled()
			closes()
			// SYN, the handshake's end, FIN and the last acknowledgement, which no socket sends.
			eventually(t, "the balancer sees the second connection", func() bool { return r.in.Load() >= before+4 })
			r.settled()
			if client.count(t, tt.verdict) != 1 || client.count(t, "client_closing") != 1 {
				t.Errorf("verdicts %v, want one %s and no more client_closing", dump(t, client), tt.verdict)
			}
		})
	}
}

// A plain connection to the server's own address may have the two ends of an earlier one to the VIP: what it sends without a socket comes from the address
// that it was sent to, so that nobody waits in LAST_ACK.
func TestAPlainConnectionOfTheSameEndsIsLeftAlone(t *testing.T) {
	for _, tt := range []struct {
		name, mode  string
		vip, server string
		// The VIP is removed before the plain connection.
		removed bool
	}{
		{"rewritten", "rewritten", testVIP, testServer1, false},
		{"preserved", "preserved", testVIP, testServer1, false},
		{"preserved over IPv6", "preserved", rig6VIP, rig6Server, false},
		{"the VIP has been removed", "rewritten", testVIP, testServer1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const port = 20078
			r := newRig(t, testServer1)
			server, client := r.plainPair(tt.mode, tt.vip)
			resets := make(chan bool, 1)
			r.servers[0].listen(":80", func(c net.Conn) {
				// A reset leaves no TIME_WAIT behind, which the next SYN would have to pass.
				if <-resets {
					_ = c.(*net.TCPConn).SetLinger(0)
				}
				c.Close()
			})
			run := func(to string, reset bool) {
				c, err := r.client.dialFrom(port, net.JoinHostPort(to, "80"))
				if err != nil {
					t.Fatal(err, dump(t, client), dump(t, server))
				}
				defer c.Close()
				resets <- reset
				if _, err := c.Read(make([]byte, 1)); errors.Is(err, unix.ECONNRESET) != reset {
					t.Fatalf("error %v, want a reset: %v", err, reset)
				}
				// Until the acknowledgement of the server's end has come, there is a socket.
				eventually(t, "the server's end is acknowledged", func() bool { return r.servers[0].sockets(finWait1) == 0 })
			}
			run(tt.vip, true)
			if server.count(t, "accepted") != 1 {
				t.Fatalf("the first connection goes through the balancer: %v", dump(t, server))
			}
			if tt.removed {
				reload(t, r.servers[0], server, strings.ReplaceAll(serverText(tt.mode, "81"), testVIP, "10.77.0.200"))
			}
			before := server.count(t, "server_closing")
			run(tt.server, false)
			eventually(t, "the client has its last acknowledgement", func() bool { return r.client.sockets(lastAck) == 0 })
			if n := server.count(t, "server_closing") - before; n != 0 {
				t.Errorf("%d segments of the plain connection came from the VIP", n)
			}
		})
	}
}

// A handshake that nobody has ended under SYN cookies says nothing about a later connection of the same two ends, whether the SYN of that was kept or was
// forgotten for a cookie, too.
func TestACookieThatNobodyCameForIsNoVIP(t *testing.T) {
	const port = 20080
	for _, tt := range []struct{ name, cookies, vip, server, client string }{
		{"SYN kept", "1", testVIP, testServer1, testClient},
		{"SYN forgotten", "2", testVIP, testServer1, testClient},
		{"SYN forgotten, IPv6", "2", rig6VIP, rig6Server, rig6Client},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, testServer1)
			r.servers[0].Sysctl("ipv4/tcp_syncookies", tt.cookies)
			server, client := r.plainPair("preserved", tt.vip)
			r.servers[0].listen(":80", answerAddress)
			at := func(address string, port uint16) kernel.End {
				return kernel.EndOf(netip.AddrPortFrom(netip.MustParseAddr(address), port))
			}
			ends := kernel.Tuple{Local: at(tt.server, 80), Remote: at(tt.client, port)}
			if err := server.maps.HeelsCookies.Put(ends, kernel.Cookie{Vip: at(tt.vip, 80), Syns: [4]uint32{1000}, Next: 1}); err != nil {
				t.Fatal(err)
			}
			answered := func(address string, cookies uint64) {
				t.Helper()
				c, err := r.client.dialFrom(port, net.JoinHostPort(address, "80"))
				if err != nil {
					t.Fatal(err, dump(t, client), dump(t, server))
				}
				_ = c.(*net.TCPConn).SetLinger(0)
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(patience))
				if _, err := c.Read(make([]byte, 64)); err != nil || server.count(t, "accepted_cookie") != cookies {
					t.Fatalf("error %v; %v, want %d accepted_cookie", err, dump(t, server), cookies)
				}
			}
			answered(tt.server, 0)
			if tt.cookies == "2" {
				answered(tt.vip, 1)
				answered(tt.server, 1)
			}
		})
	}
}

// reload gives a host's agent another configuration.
func reload(t *testing.T, h *host, a *Agent, text string) {
	t.Helper()
	c, err := settings.Parse("heels.yaml", []byte("kind: heels\ninterfaces: [eth0]\ncgroup: "+testCgroup+"\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	heelstest.Within(t, h.NS, func() error { return a.Reload(c) })
}

// plainPair is a client and a server with agents, behind a balancer for the VIP.
func (r *rig) plainPair(mode, vip string) (server, client *Agent) {
	r.balance(mode, vip)
	return r.servers[0].agent(serverTextOf(mode, vip)), r.client.agent(clientTextOf(vip))
}

// balance makes the balancer's kernel send connections to the VIP on to the first server.
func (r *rig) balance(mode, vip string) {
	if vip == rig6VIP {
		r.nat6()
	} else {
		r.nat("80", testServer1+":80", mode == "rewritten")
	}
}

// clientTextOf is the client's part of a configuration for one of the rig's VIPs.
func clientTextOf(vip string) string {
	if vip == rig6VIP {
		return "client:\n  vips: [{ vip: \"[" + vip + "]:80\", backends: [\"fd77:2::/32\"] }]\n"
	}
	return clientText
}

// serverTextOf is the server's part of a configuration for one of the rig's VIPs.
func serverTextOf(mode, vip string) string {
	if vip == rig6VIP {
		return "server:\n  vips: [{ vip: \"[" + vip + "]:80\", mode: " + mode + ", clients: [\"fd77:3::/32\"] }]\n"
	}
	return serverText(mode, "80")
}

// A connection that the client's programs have no part in may have the two ends of an earlier one: nothing of it goes to that one's server.
func TestAConnectionOfSomebodyElseIsLeftAlone(t *testing.T) {
	const port = 20079
	for _, tt := range []struct {
		name string
		// become makes the client leave connections to the VIP alone, and says who dials.
		become func(*rig, *Agent) *host
	}{
		{"the VIP has been removed", func(r *rig, client *Agent) *host {
			reload(t, r.client, client, strings.ReplaceAll(clientText, testVIP, "10.77.0.200"))
			return r.client
		}},
		{"forwarded", func(r *rig, _ *Agent) *host { return r.guest() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, testServer1)
			r.nat("80", testServer1+":80", true)
			// The balancer has seen nothing of the first connection but its SYN. It would find numbers of the next one out of the window, and drop the
			// address translation, where they are smaller: so it is for two hosts in half of all boots.
			r.lb.Sysctl("netfilter/nf_conntrack_tcp_be_liberal", "1")
			server := r.servers[0].agent(serverText("rewritten", "80"))
			client := r.client.agent(clientText)
			r.servers[0].listen(":80", func(c net.Conn) {
				defer c.Close()
				_, _ = c.Read(make([]byte, 1))
				time.Sleep(300 * time.Millisecond)
			})
			dial := func(h *host) *net.TCPConn {
				c, err := h.dialFrom(port, testVIP+":80")
				if err != nil {
					t.Fatal(err, dump(t, client), dump(t, server))
				}
				return c.(*net.TCPConn)
			}
			first := dial(r.client)
			// A reset leaves no TIME_WAIT behind.
			_ = first.SetLinger(0)
			first.Close()
			if client.count(t, "direct") != 1 {
				t.Fatalf("the first connection goes through the balancer: %v", dump(t, client))
			}
			before := client.count(t, "client_closing")
			dial(tt.become(r, client)).Close()
			eventually(t, "the server has its last acknowledgement", func() bool {
				h := r.servers[0]
				return h.sockets(established)+h.sockets(closeWait)+h.sockets(lastAck) == 0
			})
			if n := client.count(t, "client_closing") - before; n != 0 {
				t.Errorf("%d segments went to the earlier connection's server", n)
			}
		})
	}
}

// live counts connections whose sockets are there.
func live(t *testing.T, a *Agent) int {
	t.Helper()
	conns, err := a.Connections()
	if err != nil {
		t.Fatal(err)
	}
	return len(conns)
}

// The client of a server that knows nothing of a connection any more is told at once, also when its VIP has been removed meanwhile.
func TestAResetComesBackFromTheVIP(t *testing.T) {
	for _, tt := range []struct{ name, vip string }{{"VIP that stays", testVIP}, {"VIP that was removed", "10.77.0.200"}} {
		t.Run(tt.name, func(t *testing.T) {
			r, client, server := pair(t)
			c := r.connect()
			again := parse(t, "eth0", strings.ReplaceAll(clientText, testVIP, tt.vip))
			heelstest.Within(t, r.client.NS, func() error { return client.Reload(again) })
			// The server loses connection and agent without a word.
			if err := server.Detach(true); err != nil {
				t.Fatal(err)
			}
			heelstest.Within(t, r.servers[0].NS, func() error { return destroy(c.LocalAddr().(*net.TCPAddr).AddrPort()) })
			eventually(t, "an error", func() bool {
				_, err := c.Write([]byte("x"))
				return errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
			})
			if client.count(t, "client_reset") == 0 {
				t.Errorf("verdicts %v, want a reset", dump(t, client))
			}
		})
	}
}

func TestReloadChangesVIPsAndRefusesTheRest(t *testing.T) {
	r, client, _ := pair(t)
	c := r.connect()
	load := func(text string) error {
		t.Helper()
		cfg, err := settings.Parse("heels.yaml", []byte("kind: heels\ninterfaces: [eth0]\ncgroup: "+testCgroup+"\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		return heelstest.Enter(r.client.NS, func() error { return client.Reload(cfg) })
	}
	var field *settings.FieldError
	if err := load(clientText + "option: { exid: 7 }\n"); !errors.As(err, &field) || field.Path != "option.exid" {
		t.Errorf("error %v, want option.exid to need a restart", err)
	}
	if err := load(strings.ReplaceAll(clientText, testVIP, "10.77.0.200")); err != nil {
		t.Fatal(err)
	}
	echo(t, c, 1<<16)
	offered := client.count(t, "offered")
	r.connect()
	if n := client.count(t, "offered"); n != offered {
		t.Errorf("%d SYNs carry the option, want %d: the VIP has been removed", n, offered)
	}
}

func TestMetrics(t *testing.T) {
	r, client, server := pair(t)
	echo(t, r.connect(), 1<<16)
	for agent, want := range map[*Agent][]string{
		client: {
			`xlb_heels_connections{role="client",server="10.77.2.1:80",vip="10.77.0.100:80"} 1`,
			`xlb_heels_connections_total{role="client",server="10.77.2.1:80",vip="10.77.0.100:80"} 1`,
			`xlb_heels_offered_total 1`, `xlb_heels_verdicts_total{verdict="direct"} 1`,
			`xlb_heels_backing_off{vip="10.77.0.100:80"} 0`, `xlb_heels_draining{role="client"} 0`,
			`xlb_heels_bytes_total{direction="sent",role="client",server="10.77.2.1:80",vip="10.77.0.100:80"} 65536`,
		},
		server: {`xlb_heels_verdicts_total{verdict="committed"} 1`, `xlb_heels_declined_total{reason="collision"} 0`},
	} {
		w := httptest.NewRecorder()
		agent.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		for _, line := range want {
			if !strings.Contains(w.Body.String(), line+"\n") {
				t.Errorf("no %s", line)
			}
		}
	}
}

// A socket that connects again begins anew: what its first connection has learnt does not count for the second.
func TestASocketMayConnectAgain(t *testing.T) {
	r, client, _ := pair(t)
	var fd int
	heelstest.Within(t, r.client.NS, func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
	defer unix.Close(fd)
	to := &unix.SockaddrInet4{Port: 80, Addr: netip.MustParseAddr(testVIP).As4()}
	connect := func() {
		t.Helper()
		if err := unix.Connect(fd, to); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Read(fd, make([]byte, 64)); err != nil || n == 0 {
			t.Fatalf("read %d, %v", n, err)
		}
	}
	connect()
	// AF_UNSPEC ends the connection, and leaves the socket.
	if _, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&unix.RawSockaddr{})), unix.SizeofSockaddrInet4); errno != 0 {
		t.Fatal(errno)
	}
	if err := client.SetDraining(ClientRole, true); err != nil {
		t.Fatal(err)
	}
	before := r.settled()
	connect()
	if client.count(t, "direct") != 1 || r.settled() < before+2 {
		t.Errorf("the second connection did not take the balancer's path: %v", dump(t, client))
	}
}

// A client that is told lies goes through the balancer soon.
func TestFailuresMakeTheClientBackOff(t *testing.T) {
	r := newRig(t, testServer1)
	r.nat("80", testServer1+":80", true)
	r.servers[0].agent(serverText("rewritten", "80"))
	r.servers[0].listen(":80", answerAddress)
	client := r.client.agent(strings.ReplaceAll(clientText, "10.77.2.0/24", "10.77.9.0/24"))
	if c, err := r.client.dial(testVIP + ":80"); err == nil {
		c.Close()
	}
	if n := client.count(t, "answer_backend"); n != 1 {
		t.Fatalf("verdicts %v, want an answer that is not believed", dump(t, client))
	}
	echo(t, r.connect(), 1<<16)
	if n := client.count(t, "offer_back_off"); n != 1 {
		t.Errorf("verdicts %v, want one connection without an offer", dump(t, client))
	}
	s, err := client.Status()
	if err != nil || len(s.VIPs) != 1 || s.VIPs[0].BackOff <= 0 {
		t.Errorf("status %+v, %v; want a VIP that backs off", s, err)
	}
}
