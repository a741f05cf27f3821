// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func confirmText(port string) string {
	return strings.Replace(serverText("rewritten", port), "mode: rewritten,", "mode: rewritten, confirm: true,", 1)
}

// answerWhom waits for a line, then does as tell.
func answerWhom(c net.Conn) {
	if _, err := bufio.NewReader(io.LimitReader(c, 2)).ReadString('\n'); err != nil {
		c.Close()
		return
	}
	tell(c)
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
	cfg, err := Parse("heels.yaml", []byte("kind: heels\ninterfaces: [eth0]\ncgroup: "+testCgroup+"\n"+confirmText("80")))
	if err != nil {
		t.Fatal(err)
	}
	within(t, r.servers[0].ns, func() error { return server.Reload(cfg) })
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
				time.Sleep(2 * tellEvery)
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
		within(t, r.client.ns, func() (err error) {
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
	within(t, l.host.ns, l.readyListeners)
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
				finishChecksum(packet[14:])
			}
			if !bytes.Equal(out, packet) {
				t.Errorf("the packet is\n%x, want\n%x", out, packet)
			}
		})
	}
}

// An end that is told is a whole packet.
func TestResetsOfTheAgent(t *testing.T) {
	p := resetOf(netip.MustParseAddrPort("10.77.2.1:8080"), netip.MustParseAddrPort("10.77.1.1:1234"), 0x01020304)
	again := bytes.Clone(p)
	finishChecksum(again)
	if !bytes.Equal(p, again) || p[33] != 4 || binary.BigEndian.Uint32(p[24:]) != 0x01020304 {
		t.Errorf("the packet is %x, want %x", p, again)
	}
}
