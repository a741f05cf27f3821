// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/settings"
)

// directConfirmed is a connection in confirm mode that goes around the balancer, and what its server knows of its ends.
func directConfirmed(t *testing.T) (r *rig, server *Agent, c net.Conn, live kernel.Confirmed) {
	t.Helper()
	r = newRig(t, testServer1)
	r.nat("80", testServer1+":80", true)
	server = r.servers[0].agent(confirmText("80"))
	r.servers[0].listen(":80", answerWhom)
	r.client.agent(clientText)
	c, err := r.client.dial(testVIP + ":80")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := c.Write([]byte("?\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the client is heard", func() bool { return server.count(t, "confirm_heard") == 1 })
	ends := kernel.Tuple{Local: kernel.EndOf(netip.MustParseAddrPort(testServer1 + ":80")), Remote: kernel.EndOf(netip.MustParseAddrPort(c.LocalAddr().String()))}
	if err := server.maps.HeelsConfirmed.Lookup(ends, &live); err != nil {
		t.Fatal(err)
	}
	return r, server, c, live
}

// Whoever can send with the balancer's address cannot send a connection back to it: that would end it, because the balancer has seen nothing of it.
func TestConfirmWhatIsMadeUpBehindTheBalancerMovesNothing(t *testing.T) {
	r, server, c, live := directConfirmed(t)
	host := &lab{server, r.servers[0]}
	// What the server has sent so far ends here: the handshake's own number, and the client's acknowledgement when it was heard, are what a guess has to hit.
	for _, tt := range []struct {
		name  string
		flags byte
		ack   uint32
		seq   uint32
	}{
		{"no acknowledgement", 0x01, 0, 0},
		{"the end of a connection, and any number", 0x11, 0x01020304, 0},
		{"an acknowledgement that is right, and any sequence", 0x11, live.Mark, 0x40000000},
		{"an acknowledgement that is right, and the opposite sequence", 0x11, live.Mark, 0xc0000000},
	} {
		made := fixture{from: kernel.AddrPort(live.Balancer).String(), to: testServer1 + ":80", flags: tt.flags, seq: tt.seq}
		packet := made.packet()
		binary.BigEndian.PutUint32(packet[14+20+8:], tt.ack)
		heelstest.FinishChecksum(packet[14:])
		if _, verdicts := host.run(t, server.hooks.ServerIngress, packet); verdicts["confirm_back"] != 0 {
			t.Errorf("%s: the connection is the balancer's again", tt.name)
		}
	}
	echo(t, c, 1<<20)
	if n := server.count(t, "confirm_back"); n != 0 {
		t.Errorf("verdicts %v: the connection is the balancer's again", dump(t, server))
	}
}

// An application may have its listener keep no SYNs after all: a connection would come without its VIP, and answer from another address.
func TestAListenerThatKeepsNoSYNsIsLeftAlone(t *testing.T) {
	type vip struct{ name, mode, vip, text string }
	vips := []vip{{"confirm", "rewritten", testVIP, confirmText("80")}}
	for _, v := range reuses {
		vips = append(vips, vip{v.name, v.mode, v.vip, serverTextOf(v.mode, v.vip)})
	}
	for _, tt := range vips {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, testServer1)
			r.balance(tt.mode, tt.vip)
			server := r.servers[0].agent(tt.text)
			r.client.agent(clientTextOf(tt.vip))
			to := netip.AddrPortFrom(netip.MustParseAddr(tt.vip), 80)
			l := r.servers[0].socket(t, to)
			l.listen(80)
			if err := unix.SetsockoptInt(l.fd, unix.IPPROTO_TCP, unix.TCP_SAVE_SYN, 0); err != nil {
				t.Fatal(err)
			}
			c := r.client.socket(t, to)
			c.begin(to)
			eventually(t, "the SYN is declined", func() bool { return server.count(t, "decline_listener") == 1 })
			if n := server.count(t, "committed") + server.count(t, "confirm_taken"); n != 0 {
				t.Errorf("%d SYNs were taken, want none", n)
			}
			// Over IPv6 the rig's balancer has no way back.
			if to.Addr().Is4() {
				eventually(t, "the connection is there", func() bool { return r.client.sockets(established) == 1 })
			}
		})
	}
}

// Whoever has seen one SYN can send it again with other sequence numbers: under SYN cookies those take the room of its own end, and of no other client's.
func TestACapturedSYNFillsNoCookies(t *testing.T) {
	const replays = 100
	r := newRig(t, testServer1)
	server, _ := r.plainPair("preserved", testVIP)
	r.servers[0].Sysctl("ipv4/tcp_syncookies", "2")
	r.servers[0].listen(":80", answerAddress)
	captured := fixture{client: testClient + ":20090", from: testClient + ":20090", to: testServer1 + ":80", vip: testVIP + ":80", flags: 2, ours: true}
	for i := range uint32(replays) {
		captured.seq = i
		r.client.post(captured.packet()[14:])
	}
	eventually(t, "all are answered", func() bool { return server.count(t, "answered_cookie") == replays })
	n := 0
	var (
		ends kernel.Tuple
		c    kernel.Cookie
	)
	for entries := server.maps.HeelsCookies.Iterate(); entries.Next(&ends, &c); {
		n++
	}
	if n != 1 {
		t.Errorf("%d entries for one client's end, want 1", n)
	}
	// The client itself connects all the same.
	conn, err := r.client.dialFrom(20090, testVIP+":80")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := conn.Read(make([]byte, 64)); err != nil || server.count(t, "accepted_cookie") != 1 {
		t.Errorf("error %v, %v; want the connection", err, dump(t, server))
	}
}

// guessLab is a server with a key, and what signs as its clients do.
func guessLab(t *testing.T) (*lab, *settings.Key) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("0001020304050607\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLab(t, "option: { key: { file: "+file+` } }
server:
  address: [10.77.2.1, "fd77:2::1"]
  vips:
  - { vip: 10.77.0.100:80, port: 8080, mode: rewritten, balancers: [10.77.1.0/24], clients: [10.77.3.0/24] }
  - { vip: 10.77.0.101:80, port: 8080, mode: rewritten, balancers: [10.77.1.0/24], clients: [10.77.3.0/24] }
  - { vip: "[fd77::102]:82", mode: preserved, clients: ["fd77:3::/64"] }
`, "10.77.2.1:8080", "[fd77:2::1]:82")
	heelstest.Within(t, l.host.NS, l.readyListeners)
	return l, &settings.Key{0x03020100, 0x07060504}
}

// 32 bits of tag are found by trying: after some wrong ones of a client in a second none of its SYNs is believed for the
// rest of it, not even one that is right.
func TestTagsCannotBeTried(t *testing.T) {
	l, signer := guessLab(t)
	right := with(rewritten, func(f *fixture) { f.key = signer })
	right6 := with6(preserved6, func(f *fixture6) { f.key = signer })
	wrong6 := with6(preserved6, func(f *fixture6) { f.key = &settings.Key{1, 2} })
	for _, tt := range []struct {
		name         string
		wrong, right []byte
	}{{"IPv4", rewritten.packet(), right.packet()}, {"IPv6", wrong6.packet(), right6.packet()}} {
		t.Run(tt.name, func(t *testing.T) {
			before := l.count(t, "decline_tag")
			heelstest.Within(t, l.host.NS, func() error {
				_, err := l.hooks.ServerIngress.Run(&ebpf.RunOptions{Data: tt.wrong, Repeat: 1000})
				return err
			})
			if n := l.count(t, "decline_tag") - before; n != kernel.GuessesEach {
				t.Errorf("%d tags were tried in a moment, want %d", n, kernel.GuessesEach)
			}
			eventually(t, "one that is right is not believed", func() bool {
				heelstest.Within(t, l.host.NS, func() error {
					_, err := l.hooks.ServerIngress.Run(&ebpf.RunOptions{Data: tt.wrong, Repeat: 1000})
					return err
				})
				_, verdicts := l.run(t, l.hooks.ServerIngress, tt.right)
				return verdicts["decline_guessed"] == 1
			})
			eventually(t, "the second is over", func() bool {
				_, verdicts := l.run(t, l.hooks.ServerIngress, tt.right)
				return verdicts["committed"] == 1
			})
		})
	}
}

// Whoever has another key, or tries tags in one client's name, takes nothing from others; whoever does it in many names
// keeps one VIP's clients to the balancer's path, and no other VIP's.
func TestTagsThatAreTriedHurtNobodyElse(t *testing.T) {
	l, signer := guessLab(t)
	of := func(vip, client string, k *settings.Key) []byte {
		f := with(rewritten, func(f *fixture) { f.vip, f.client, f.key = vip, client, k })
		return f.packet()
	}
	const vip, other = "10.77.0.100:80", "10.77.0.101:80"
	try := func(client string) {
		heelstest.Within(t, l.host.NS, func() error {
			_, err := l.hooks.ServerIngress.Run(&ebpf.RunOptions{Data: of(vip, client, nil), Repeat: 100})
			return err
		})
	}
	is := func(name, want string, packet []byte) {
		t.Helper()
		if _, verdicts := l.run(t, l.hooks.ServerIngress, packet); verdicts[want] != 1 {
			t.Errorf("%s: verdicts %v, want %s", name, verdicts, want)
		}
	}
	eventually(t, "another port of the client is not believed", func() bool {
		try("10.77.3.1:40000")
		_, verdicts := l.run(t, l.hooks.ServerIngress, of(vip, "10.77.3.1:40001", signer))
		return verdicts["decline_guessed"] == 1
	})
	is("another client", "committed", of(vip, "10.77.3.2:40000", signer))
	is("the client at another VIP", "committed", of(other, "10.77.3.1:40000", signer))
	begun, before := time.Now(), l.count(t, "decline_tag")
	for i := range 64 {
		try(fmt.Sprintf("10.77.3.%d:40000", 10+i))
	}
	// Without a limit for all together it were 8 of each.
	seconds := uint64(time.Since(begun)/time.Second) + 1
	if n := l.count(t, "decline_tag") - before; n > seconds*kernel.Guesses {
		t.Errorf("%d tags were tried in %d s, want %d a second at most", n, seconds, kernel.Guesses)
	}
	eventually(t, "the VIP's clients go by way of the balancer", func() bool {
		for i := range 16 {
			try(fmt.Sprintf("10.77.3.%d:40000", 100+i))
		}
		_, verdicts := l.run(t, l.hooks.ServerIngress, of(vip, "10.77.3.2:40000", signer))
		return verdicts["decline_guessed"] == 1
	})
	is("another VIP", "committed", of(other, "10.77.3.2:40000", signer))
}

// Whoever looks at status, metrics or log sees that tags are tried.
func TestTagsThatAreTriedAreSeen(t *testing.T) {
	l, _ := guessLab(t)
	status := func() *Status {
		t.Helper()
		s, err := l.Status()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var text bytes.Buffer
	w := &watcher{log: slog.New(slog.NewTextHandler(&text, nil)), logged: map[netip.AddrPort]guessLog{}}
	w.begin(status().VIPs)
	now := time.Now()
	try := func() *Status {
		t.Helper()
		heelstest.Within(t, l.host.NS, func() error {
			_, err := l.hooks.ServerIngress.Run(&ebpf.RunOptions{Data: rewritten.packet(), Repeat: 100})
			return err
		})
		return status()
	}
	if s := status(); len(s.Problems) != 0 {
		t.Errorf("problems %q, want none", s.Problems)
	}
	s := try()
	if len(s.Problems) != 1 || !strings.Contains(s.Problems[0], "10.77.0.100:80") || !strings.Contains(s.Problems[0], "wrong tags") {
		t.Errorf("problems %q, want one about the VIP", s.Problems)
	}
	for _, later := range []time.Duration{0, guessesLogged / 2, guessesLogged, guessesLogged * 2} {
		if later < guessesLogged*2 {
			s = try()
		}
		w.look(s.VIPs, now.Add(later))
	}
	if n := strings.Count(text.String(), "level=WARN"); n != 2 || !strings.Contains(text.String(), "vip=10.77.0.100:80") {
		t.Errorf("the log has %d warnings, want one a minute:\n%s", n, text.String())
	}
	answer := httptest.NewRecorder()
	l.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	want := fmt.Sprintf("xlb_heels_guessed_total{vip=\"10.77.0.100:80\"} %d\n", s.VIPs[0].Guessed)
	if s.VIPs[0].Guessed == 0 || !strings.Contains(answer.Body.String(), want) {
		t.Errorf("metrics have no %q", want)
	}
	if old := problemsOf([]VIP{{Role: ServerRole, Guessed: 1, GuessedAgo: guessesShown}}); len(old) != 0 {
		t.Errorf("problems %q, want none of long ago", old)
	}
}

// With a key, too, what is wrapped is unwrapped by its outer source and the VIP, and by nothing inside: as docs/heels.md says.
func TestWhatIsWrappedIsTakenByOuterSourceAndVIP(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("0001020304050607\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLab(t, "option: { key: { file: "+file+" } }\n"+labText)
	plain := with(wrapped, func(f *fixture) { f.ours, f.from = false, "198.51.100.1:40000" })
	for _, tt := range []struct {
		name, verdict string
		f             fixture
	}{
		{"a client that takes no part", "decapsulated", plain},
		{"no balancer", "decapsulate_refused", with(plain, func(f *fixture) { f.outer = "198.51.100.2" })},
		{"no VIP", "", with(plain, func(f *fixture) { f.to = "10.77.0.101:81" })},
		{"another's VIP", "", with(plain, func(f *fixture) { f.to = "10.77.2.1:22" })},
		{"to another host", "", with(plain, func(f *fixture) { f.outerTo = "10.77.2.9" })},
	} {
		packet := tt.f.packet()
		out, verdicts := l.run(t, l.hooks.ServerIngress, packet)
		if len(verdicts) > 1 || tt.verdict != "" && verdicts[tt.verdict] != 1 {
			t.Errorf("%s: verdicts %v, want %q", tt.name, verdicts, tt.verdict)
		}
		want := packet
		if tt.verdict == "decapsulated" {
			want = append(bytes.Clone(packet[:14]), packet[34:]...)
		}
		if !bytes.Equal(out, want) {
			t.Errorf("%s: the packet is\n%x, want\n%x", tt.name, out, want)
		}
	}
}

// Whoever has seen a SYN can send its option again as long as its time lasts, and with its sequence number alone.
func TestACapturedOptionIsGoodForOneSYNAndNotForLong(t *testing.T) {
	l, signer := guessLab(t)
	before := func(n uint32) uint32 { return -n }
	for _, tt := range []struct {
		name, verdict string
		moved, slot   uint32
		legacy        bool
	}{
		{"as it was signed", "committed", 0, 0, false},
		{"by a clock that is behind", "committed", 0, before(1), false},
		{"by a clock that is ahead", "committed", 0, 1, false},
		{"another sequence number", "decline_tag", 1, 0, false},
		{"long ago", "decline_tag", 0, before(3), false},
		{"from the future", "decline_tag", 0, 3, false},
		{"by an agent that signs neither", "decline_tag", 0, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// At the edge of a slot what is one apart may be two.
			eventually(t, tt.verdict, func() bool {
				f := with(rewritten, func(f *fixture) { f.key, f.moved, f.slot, f.legacy = signer, tt.moved, tt.slot, tt.legacy })
				_, verdicts := l.run(t, l.hooks.ServerIngress, f.packet())
				return verdicts[tt.verdict] == 1
			})
			if tt.legacy {
				return
			}
			eventually(t, tt.verdict+" over IPv6", func() bool {
				f := with6(preserved6, func(f *fixture6) { f.key, f.moved, f.slot = signer, tt.moved, tt.slot })
				_, verdicts := l.run(t, l.hooks.ServerIngress, f.packet())
				return verdicts[tt.verdict] == 1
			})
		})
	}
}

// With confirm whoever sends a captured SYN as it was, by another connection of the balancer, gets the answer. So a server
// takes it once.
func TestConfirmTakesACapturedSYNOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("0001020304050607\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := newLab(t, "option: { key: { file: "+file+" } }\n"+confirmLab, "10.77.2.1:8080")
	l.reach("10.77.0.0/16")
	heelstest.Within(t, l.host.NS, l.readyListeners)
	heelstest.Within(t, l.host.NS, func() error { return l.ensureNotifier(l.config) })
	signer := &settings.Key{0x03020100, 0x07060504}
	for _, tt := range []struct {
		name, verdict, client, from string
		seq                         uint32
	}{
		{"the client's", "confirm_taken", "10.77.3.1:40000", "10.77.1.1:1234", 100},
		{"which comes again", "confirm_taken", "10.77.3.1:40000", "10.77.1.1:1234", 100},
		{"a copy by way of another connection", "decline_replayed", "10.77.3.1:40000", "10.77.1.1:1235", 100},
		{"a copy of an older one", "decline_replayed", "10.77.3.1:40000", "10.77.1.1:1235", 99},
		{"another client's", "confirm_taken", "10.77.3.2:40000", "10.77.1.1:1235", 100},
		{"the client's next one from the same port", "confirm_taken", "10.77.3.1:40000", "10.77.1.1:1236", 200},
		{"a copy of the one before", "decline_replayed", "10.77.3.1:40000", "10.77.1.1:1234", 100},
	} {
		f := with(rewritten, func(f *fixture) { f.key, f.client, f.from, f.seq = signer, tt.client, tt.from, tt.seq })
		if _, verdicts := l.run(t, l.hooks.ServerIngress, f.packet()); verdicts[tt.verdict] != 1 {
			t.Errorf("%s: verdicts %v, want %s", tt.name, verdicts, tt.verdict)
		}
	}
	// What is too old for its tag need not be known any more.
	ends := kernel.Tuple{Local: endAt("10.77.3.1:40000"), Remote: endAt(rewritten.vip)}
	if err := l.maps.HeelsSeen.Put(ends, kernel.Seen{From: endAt("10.77.1.1:1"), Number: 0x12345678 + 300, Slot: tagSlot() - 3}); err != nil {
		t.Fatal(err)
	}
	f := with(rewritten, func(f *fixture) { f.key, f.seq = signer, 250 })
	if _, verdicts := l.run(t, l.hooks.ServerIngress, f.packet()); verdicts["confirm_taken"] != 1 {
		t.Errorf("after its time: verdicts %v, want confirm_taken", verdicts)
	}
}
