// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/settings"
)

func confirmText(port string) string {
	return strings.Replace(serverText("rewritten", port), "mode: rewritten,", "mode: rewritten, confirm: true,", 1)
}

// answerWhom waits for a line, then does as answerAddress.
func answerWhom(c net.Conn) {
	if _, err := bufio.NewReader(io.LimitReader(c, 2)).ReadString('\n'); err != nil {
		c.Close()
		return
	}
	answerAddress(c)
}

// Nobody's accept() pays for a mode that is not used, and a VIP that comes to it while the agent runs has all it needs.
func TestReloadBeginsToConfirm(t *testing.T) {
	r := newRig(t, testServer1)
	r.nat("80", testServer1+":80", true)
	server := r.servers[0].agent(serverText("rewritten", "80"))
	r.servers[0].listen(":80", answerWhom)
	client := r.client.agent(clientText)
	hook := filepath.Join(r.servers[0].pin, "link_server_peername4")
	if _, err := os.Stat(hook); err == nil {
		t.Errorf("%s is there, and no VIP is in confirm mode", hook)
	}
	cfg, err := settings.Parse("heels.yaml", []byte("kind: heels\ninterfaces: [eth0]\ncgroup: "+testCgroup+"\n"+confirmText("80")))
	if err != nil {
		t.Fatal(err)
	}
	heelstest.Within(t, r.servers[0].NS, func() error { return server.Reload(cfg) })
	c, err := r.client.dial(testVIP + ":80")
	if err != nil {
		t.Fatal(err, dump(t, client), dump(t, server))
	}
	defer c.Close()
	if _, err := c.Write([]byte("?\n")); err != nil {
		t.Fatal(err)
	}
	if seen, err := bufio.NewReader(c).ReadString('\n'); err != nil || strings.TrimSpace(seen) != c.LocalAddr().String() {
		t.Errorf("server sees %q, want %s (%v) %v %v", seen, c.LocalAddr(), err, dump(t, client), dump(t, server))
	}
	if n := server.count(t, "confirm_heard"); n != 1 {
		t.Errorf("verdicts %v, want one confirm_heard", dump(t, server))
	}
}

// In confirm mode the balancer sees the handshake, and a reset when all is over; both ends see each other's right address.
func TestConfirmLeavesTheHandshakeToTheBalancer(t *testing.T) {
	for _, port := range []string{"80", "8080"} {
		for _, listen := range []string{"tcp4", "both families"} {
			t.Run(port+" "+listen, func(t *testing.T) {
				r := newRig(t, testServer1)
				r.nat("80", testServer1+":"+port, true)
				at := ":" + port
				if listen == "tcp4" {
					at = "0.0.0.0:" + port
				}
				server := r.servers[0].agent(confirmText(port))
				r.servers[0].listen(at, answerWhom)
				client := r.client.agent(clientText)
				c, err := r.client.dial(testVIP + ":80")
				if err != nil {
					t.Fatal(err, dump(t, client), dump(t, server))
				}
				defer c.Close()
				if _, err := c.Write([]byte("?\n")); err != nil {
					t.Fatal(err)
				}
				if seen, err := bufio.NewReader(c).ReadString('\n'); err != nil || strings.TrimSpace(seen) != c.LocalAddr().String() {
					t.Fatalf("server sees %q, want %s (%v) %v %v", seen, c.LocalAddr(), err, dump(t, client), dump(t, server))
				}
				echo(t, c, 4<<20)
				for a, remote := range map[*Agent]string{client: testVIP + ":80", server: ""} {
					conns, err := a.Connections()
					if err != nil || len(conns) != 1 || conns[0].State != Direct || remote != "" && conns[0].Remote.String() != remote {
						t.Errorf("connections %+v, %v", conns, err)
					}
				}
				if in, out := r.settled(), r.out.Load(); in != 3 || out != 3 {
					t.Errorf("%d segments came to the balancer, %d left it; want the handshake alone %v %v", in, out, dump(t, client), dump(t, server))
				}
				c.Close()
				eventually(t, "no connection left", func() bool { return live(t, client)+live(t, server) == 0 })
				eventually(t, "the balancer is told", func() bool { return r.in.Load() == 4 && r.out.Load() == 4 })
				time.Sleep(2 * notifyEvery)
				if in, out := r.in.Load(), r.out.Load(); in != 4 || out != 4 {
					t.Errorf("%d segments came to the balancer, %d left it; want the handshake and a reset %v %v", in, out, dump(t, client), dump(t, server))
				}
			})
		}
	}
}

// With keys the answer's flag is signed, too; the probe's payload goes directly.
func TestConfirmWithKeysAndAProbe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("0001020304050607\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	option := "option: { key: { file: " + file + " } }\n"
	r := newRig(t, testServer1)
	r.nat("80", testServer1+":80", true)
	server := r.servers[0].agent(option + confirmText("80"))
	r.servers[0].listen(":80", answerWhom)
	client := r.client.agent(option + clientText)
	for payload, want := range map[string]State{"": Waiting, "?\n": Direct} {
		var p *ProbeResult
		heelstest.Within(t, r.client.NS, func() (err error) {
			p, err = client.Probe(context.Background(), netip.MustParseAddrPort(testVIP+":80"), payload)
			return err
		})
		if p.State != want || !p.Confirmed || p.Server.String() != testServer1+":80" {
			t.Errorf("payload %q: probe %+v, want %s; %v", payload, p, want, dump(t, server))
		}
	}
	if s, err := server.Status(); err != nil || len(s.VIPs) != 1 || !s.VIPs[0].Confirm {
		t.Errorf("status %+v, %v; want a VIP in confirm mode", s, err)
	}
}

const confirmLab = `server:
  address: 10.77.2.1
  vips:
  - { vip: 10.77.0.100:80, port: 8080, mode: rewritten, confirm: true, balancers: [10.77.1.0/24], clients: [10.77.3.0/24] }
  - { vip: 10.77.0.101:80, port: 8081, mode: rewritten, confirm: true, balancers: [10.77.1.0/24], clients: [10.77.0.0/16] }
`

// A SYN that is taken is as it was but for the mark; one that is declined, as it was.
func TestConfirmLeavesSYNsAsTheyAre(t *testing.T) {
	l := newLab(t, confirmLab, "10.77.2.1:8080")
	l.reach("10.77.0.0/16")
	heelstest.Within(t, l.host.NS, l.readyListeners)
	heelstest.Within(t, l.host.NS, func() error { return l.ensureNotifier(l.config) })
	for _, tt := range []struct {
		name    string
		f       fixture
		verdict string
	}{
		{"as a balancer delivers it", rewritten, "confirm_taken"},
		{"from nobody's balancer", with(rewritten, func(f *fixture) { f.from = "10.77.3.1:1234" }), "decline_balancer"},
		{"client outside its prefixes", with(rewritten, func(f *fixture) { f.client = "192.0.2.1:40000" }), "decline_client"},
		{"client on the balancer", with(rewritten, func(f *fixture) { f.client, f.vip, f.to = "10.77.1.1:40000", "10.77.0.101:80", "10.77.2.1:8081" }), "decline_client"},
		{"nobody listens", with(rewritten, func(f *fixture) { f.vip, f.to = "10.77.0.101:80", "10.77.2.1:8081" }), "decline_no_listener"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			packet := tt.f.packet()
			out, verdicts := l.run(t, l.hooks.ServerIngress, packet)
			if len(verdicts) != 1 || verdicts[tt.verdict] != 1 {
				t.Errorf("verdicts %v, want %s", verdicts, tt.verdict)
			}
			if tt.verdict == "confirm_taken" {
				at := bytes.LastIndex(packet, []byte{254, 20, 0x48, 0x45}) + 16
				if bytes.Equal(out[at:at+4], packet[at:at+4]) {
					t.Error("the option has no mark")
				}
				copy(packet[at:at+4], out[at:at+4])
				heelstest.FinishChecksum(packet[14:])
			}
			if !bytes.Equal(out, packet) {
				t.Errorf("the packet is\n%x, want\n%x", out, packet)
			}
		})
	}
}

// A handshake that nobody has ended says nothing about a later connection from the client's end to the server's own address.
func TestConfirmAHandshakeThatNobodyEndedHurtsNoPlainConnection(t *testing.T) {
	const port = 20081
	r := newRig(t, testServer1)
	r.nat("80", testServer1+":80", true)
	server := r.servers[0].agent(confirmText("80"))
	r.servers[0].listen(":80", answerWhom)
	at := func(address string, port uint16) kernel.End {
		return kernel.EndOf(netip.AddrPortFrom(netip.MustParseAddr(address), port))
	}
	ends := kernel.Tuple{Local: at(testServer1, 80), Remote: at(testClient, port)}
	left := kernel.Confirmed{Vip: at(testVIP, 80), Client: ends.Remote, Balancer: at(testBalancer, 1234), Since: kernel.Monotonic()}
	if err := server.maps.HeelsConfirmOther.Put(ends, left); err != nil {
		t.Fatal(err)
	}
	c, err := r.client.dialFrom(port, testServer1+":80")
	if err != nil {
		t.Fatal(err, dump(t, server))
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte("?\n")); err != nil {
		t.Fatal(err)
	}
	if seen, err := bufio.NewReader(c).ReadString('\n'); err != nil || strings.TrimSpace(seen) != c.LocalAddr().String() {
		t.Errorf("server sees %q, want %s (%v) %v", seen, c.LocalAddr(), err, dump(t, server))
	}
}

// Who does not see a connection knows its ends perhaps, and no number of it: what he makes up moves it neither way.
func TestConfirmWhatIsMadeUpMovesNothing(t *testing.T) {
	r := newRig(t, testServer1)
	r.nat("80", testServer1+":80", true)
	server := r.servers[0].agent(confirmText("80"))
	r.servers[0].listen(":80", answerWhom)
	client := r.client.agent(clientText)
	// A retransmission timer that does not run out in the meantime.
	r.client.Run("", "ip", "route", "add", testVIP+"/32", "dev", "eth0", "rto_min", "10s")
	c, err := r.client.dial(testVIP + ":80")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	eventually(t, "the handshake has ended", func() bool { return server.count(t, "confirm_accepted") == 1 })
	own, port := testServer1+":80", c.LocalAddr().String()
	made := fixture{from: port, to: own, flags: 0x10}
	r.client.post(made.packet()[14:])
	// The answer to it, by way of the balancer, says that it has come.
	eventually(t, "the segment has come", func() bool { return r.settled() > 3 || server.count(t, "confirm_heard") > 0 })
	if n := server.count(t, "confirm_heard"); n != 0 {
		t.Error("a segment that was made up was taken for the client's")
	}
	r.client.Run("table ip d {\n chain i { type filter hook prerouting priority -300; ip saddr "+testVIP+" drop; }\n}\n", "nft", "-f", "-")
	if _, err := c.Write([]byte("?\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the client is heard", func() bool { return server.count(t, "confirm_heard") == 1 })
	made = fixture{from: own, to: port, flags: 0x04}
	r.servers[0].post(made.packet()[14:])
	eventually(t, "the reset has come", func() bool { return client.count(t, "client_reset")+client.count(t, "confirm_returned") > 0 })
	if n := client.count(t, "confirm_returned"); n != 0 {
		t.Error("a reset that was made up has sent the connection back to the balancer")
	}
	r.client.Run("", "nft", "delete", "table", "ip", "d")
	if seen, err := bufio.NewReader(c).ReadString('\n'); err != nil || strings.TrimSpace(seen) != port {
		t.Errorf("server sees %q, want %s (%v) %v %v", seen, port, err, dump(t, client), dump(t, server))
	}
}

// The balancer may give the end of a connection that has closed to another client: what the first client still sends is no part of that one's connection.
func TestConfirmALateSegmentIsNotForWhoHasTheEndNow(t *testing.T) {
	r := newRig(t, testServer1)
	r.nat("80", testServer1+":80", true)
	server := r.servers[0].agent(confirmText("80"))
	r.servers[0].listen(":80", answerWhom)
	r.client.agent(clientText)
	c, err := r.client.dial(testVIP + ":80")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	eventually(t, "the handshake has ended", func() bool { return server.count(t, "confirm_accepted") == 1 })
	at := func(s string) kernel.End { return kernel.EndOf(netip.MustParseAddrPort(s)) }
	var live kernel.Confirmed
	if err := server.maps.HeelsConfirmed.Lookup(kernel.Tuple{Local: at(testServer1 + ":80"), Remote: at(c.LocalAddr().String())}, &live); err != nil {
		t.Fatal(err)
	}
	host := &lab{server, r.servers[0]}
	for _, tt := range []struct {
		name, first string
		balancer    kernel.End
		passes      bool
	}{
		{"another has it", "10.77.3.2:20999", live.Balancer, true},
		{"nobody has it", "10.77.3.2:20998", at(testBalancer + ":1"), false},
	} {
		closed := kernel.Confirmed{Vip: live.Vip, Client: at(tt.first), Balancer: tt.balancer, Heard: 1}
		if err := server.maps.HeelsConfirmOther.Put(kernel.Tuple{Local: at(testServer1 + ":80"), Remote: closed.Client}, closed); err != nil {
			t.Fatal(err)
		}
		late := fixture{from: tt.first, to: testServer1 + ":80", flags: 0x10}
		want := late
		if !tt.passes {
			want.from = kernel.AddrPort(tt.balancer).String()
		}
		if out, verdicts := host.run(t, server.hooks.ServerIngress, late.packet()); !bytes.Equal(out, want.packet()) {
			t.Errorf("%s: the packet is\n%x, want\n%x %v", tt.name, out, want.packet(), verdicts)
		}
	}
}

// withoutRaw runs do on a thread that may not open raw sockets.
func withoutRaw(t *testing.T, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&header, &have[0]); err != nil {
		t.Fatal(err)
	}
	fewer := have
	fewer[0].Effective &^= 1 << unix.CAP_NET_RAW
	if err := unix.Capset(&header, &fewer[0]); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Capset(&header, &have[0]); err != nil {
			panic(err)
		}
	}()
	do()
}

// Only who has to tell balancers of ends needs the capability for it, and is told so before anything is in force.
func TestOnlyConfirmNeedsRawSockets(t *testing.T) {
	r := newRig(t, testServer1)
	for _, tt := range []struct{ text, want string }{
		{confirmText("80"), "CAP_NET_RAW"},
		{serverText("rewritten", "80"), ""},
	} {
		withoutRaw(t, func() {
			c := parse(t, "eth0", tt.text)
			if tt.want == "" {
				r.servers[0].start(c)
				return
			}
			err := heelstest.Enter(r.servers[0].NS, func() error {
				_, err := Start(c, filepath.Join(heelstest.BPFFS(t), "pins"), testCgroup)
				return err
			})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one about %s", err, tt.want)
			}
			if n := r.servers[0].attached(); n != 0 {
				t.Errorf("%d programs are in force, want none", n)
			}
		})
	}
}

// Ends that wait for a TIME_WAIT are told when programs go: nobody would do it later, and the balancer would hold the connections for days.
func TestConfirmDetachTellsTheRest(t *testing.T) {
	r := newRig(t, testServer1)
	r.nat("80", testServer1+":80", true)
	server := r.servers[0].agent(confirmText("80"))
	r.servers[0].listen(":80", func(c net.Conn) {
		_, _ = c.Read(make([]byte, 1))
		c.Close()
	})
	client := r.client.agent(clientText)
	c, err := r.client.dial(testVIP + ":80")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("?")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("error %v, want the server's end", err)
	}
	c.Close()
	eventually(t, "no connection is left", func() bool { return live(t, client)+live(t, server) == 0 })
	if in := r.settled(); in != 3 {
		t.Fatalf("%d segments came to the balancer, want the handshake", in)
	}
	heelstest.Within(t, r.servers[0].NS, func() error { return server.Detach(false) })
	eventually(t, "the balancer is told", func() bool { return r.in.Load() == 4 && r.out.Load() == 4 })
}

// Of an agent that is gone, or has more to tell than it can keep, nobody begins what it would have to tell of: the balancer would run out of ports.
func TestConfirmOnlyWhatWillBeTold(t *testing.T) {
	l := newLab(t, confirmLab, "10.77.2.1:8080")
	l.reach("10.77.0.0/16")
	heelstest.Within(t, l.host.NS, l.readyListeners)
	is := func(want string) {
		t.Helper()
		if _, verdicts := l.run(t, l.hooks.ServerIngress, rewritten.packet()); verdicts[want] != 1 {
			t.Errorf("verdicts %v, want %s", verdicts, want)
		}
	}
	is("decline_agent")
	notifier := &endNotifier{k: l.Kernel}
	promise := func() {
		t.Helper()
		if err := notifier.promise(); err != nil {
			t.Fatal(err)
		}
	}
	promise()
	is("confirm_taken")
	counts := make([]uint64, ebpf.MustPossibleCPU())
	counts[0] = 1
	if err := l.maps.HeelsVerdicts.Put(uint32(kernel.VerdictConfirmUnqueued), counts); err != nil {
		t.Fatal(err)
	}
	promise()
	is("decline_agent")
	notifier.quietUntil = kernel.Monotonic()
	promise()
	is("confirm_taken")
	if err := l.maps.HeelsConfirmUntil.Put(uint32(0), kernel.Monotonic()); err != nil {
		t.Fatal(err)
	}
	is("decline_agent")
}

// Where there is no room for a connection it takes the balancer's path, and nothing of it is lost.
func TestConfirmFullMaps(t *testing.T) {
	mapSizes = map[string]uint32{"heels_confirmed": 2, "heels_confirm_other": 2, "heels_ended_now": 1, "heels_traffic": 1, "heels_client_hops": 1}
	defer func() { mapSizes = nil }()
	r := newRig(t, testServer1)
	r.nat("80", testServer1+":80", true)
	server := r.servers[0].agent(confirmText("80"))
	r.servers[0].listen(":80", answerWhom)
	client := r.client.agent(clientText)
	var conns []net.Conn
	for range 3 {
		c, err := r.client.dial(testVIP + ":80")
		if err != nil {
			t.Fatal(err, dump(t, client), dump(t, server))
		}
		defer c.Close()
		conns = append(conns, c)
	}
	for i, c := range conns {
		if _, err := c.Write([]byte("?\n")); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(c).ReadString('\n'); err != nil {
			t.Fatal(i, err, dump(t, client), dump(t, server))
		}
		echo(t, c, 1<<20)
	}
	if heard, returned := server.count(t, "confirm_heard"), client.count(t, "confirm_returned"); heard != 1 || returned != 2 || server.count(t, "accept_no_memory") != 2 {
		t.Errorf("%d connections are direct, and %d have returned to the balancer, want 1 and 2: %v %v", heard, returned, dump(t, client), dump(t, server))
	}
	for _, c := range conns {
		c.Close()
	}
	eventually(t, "no connection is left", func() bool { return live(t, client)+live(t, server) == 0 })
	if r, s := r.client, r.servers[0]; r.sockets(lastAck)+s.sockets(lastAck)+s.sockets(established) != 0 {
		t.Error("a socket is left")
	}
}
