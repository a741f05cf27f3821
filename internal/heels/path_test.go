// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/heels/heelstest"
)

const clientText = `
client:
  vips: [{ vip: 10.77.0.100:80, backends: [10.77.2.0/24] }]
`

func serverText(mode, port string) string {
	balancers := "balancers: [10.77.1.0/24], "
	if mode == "preserved" {
		balancers = ""
	}
	return "server:\n  vips: [{ vip: 10.77.0.100:80, port: " + port + ", mode: " + mode + ", " + balancers + "clients: [10.77.3.0/24] }]\n"
}

// A connection goes through the balancer with its SYN alone, whatever the balancer; both ends see each other's right address.
func TestOnlySynPassesTheBalancer(t *testing.T) {
	for _, tt := range []struct {
		name, mode, port string
		balancer         func(*rig)
	}{
		{"masquerade", "rewritten", "80", func(r *rig) { r.nat("80", testServer1+":80", true) }},
		{"masquerade to another port", "rewritten", "8080", func(r *rig) { r.nat("80", testServer1+":8080", true) }},
		{"destination only", "preserved", "80", func(r *rig) { r.nat("80", testServer1+":80", false) }},
		{"destination only to another port", "preserved", "8080", func(r *rig) { r.nat("80", testServer1+":8080", false) }},
		{"IPIP", "encapsulated", "80", func(r *rig) { r.encapsulate(ipip) }},
		{"IPIP to another port", "encapsulated", "8080", func(r *rig) { r.encapsulate(ipip) }},
		{"GUE variant 1", "encapsulated", "80", func(r *rig) { r.encapsulate(gue(6080)) }},
		{"GUE with private data", "encapsulated", "80", func(r *rig) {
			r.encapsulate(gue(19523, 2, 4, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, testServer1)
			tt.balancer(r)
			server := r.servers[0].agent(serverText(tt.mode, tt.port))
			r.servers[0].listen(":"+tt.port, answerAddress)
			client := r.client.agent(clientText)

			c, err := r.client.dial(testVIP + ":80")
			if err != nil {
				t.Fatal(err, dump(t, client), dump(t, server))
			}
			defer c.Close()
			if seen, err := bufio.NewReader(c).ReadString('\n'); err != nil || strings.TrimSpace(seen) != c.LocalAddr().String() {
				t.Fatalf("server sees %q, want %s (%v) %v %v", seen, c.LocalAddr(), err, dump(t, client), dump(t, server))
			}
			echo(t, c, 4<<20)
			conns, err := client.Connections()
			if err != nil || len(conns) != 1 || conns[0].State != Direct || conns[0].Server.String() != testServer1+":"+tt.port {
				t.Fatalf("connections %+v, %v", conns, err)
			}
			c.Close()
			eventually(t, "no connection left", func() bool {
				conns, err := client.Connections()
				return err == nil && len(conns) == 0
			})
			if in, out := r.settled(), r.out.Load(); in != 1 || out != 1 {
				t.Errorf("%d segments came to the balancer, %d left it; want the SYN alone %v %v", in, out, dump(t, client), dump(t, server))
			}
		})
	}
}

// A SYN that was sent again may overtake nothing and come when its connection is long there. It is part of that connection: if the server took it for
// another one, that would get half open, and the client would end it by a reset.
func TestASYNThatComesLateBeginsNothing(t *testing.T) {
	for _, tt := range []struct {
		name, mode string
		balancer   func(*rig)
	}{
		{"masquerade", "rewritten", func(r *rig) { r.nat("80", testServer1+":80", true) }},
		{"destination only", "preserved", func(r *rig) { r.nat("80", testServer1+":80", false) }},
		{"IPIP", "encapsulated", func(r *rig) { r.encapsulate(ipip) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, testServer1)
			tt.balancer(r)
			server := r.servers[0].agent(serverText(tt.mode, "80"))
			r.servers[0].listen(":80", answerAddress)
			r.client.agent(clientText)
			c := r.connect()
			echo(t, c, 1<<16)
			// The kernel forwards it whether or not the rig's capture has had its turn.
			eventually(t, "the SYN is captured", func() bool { return r.syn.Load() != nil })
			syn := *r.syn.Load()
			heelstest.FinishChecksum(syn)
			r.client.post(syn)
			eventually(t, "a second SYN", func() bool { return server.count(t, "committed")+server.count(t, "decline_collision") == 2 })
			echo(t, c, 1<<16)
			if n := server.count(t, "committed"); n != 2 {
				t.Errorf("%d SYNs were taken, want both: %v", n, dump(t, server))
			}
			if n := r.servers[0].halfOpen(); n != 0 {
				t.Errorf("%d handshakes began, want none", n)
			}
			c.Close()
			eventually(t, "no connection left", func() bool { return live(t, server) == 0 })
		})
	}
}

// echo sends n bytes and reads them back.
func echo(t *testing.T, c net.Conn, n int) {
	t.Helper()
	data := bytes.Repeat([]byte("0123456789abcdef"), n/16)
	go c.Write(data)
	back := make([]byte, n)
	if _, err := io.ReadFull(c, back); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(back, data) {
		t.Fatal("other bytes came back")
	}
}

func dump(t *testing.T, a *Agent) map[string]uint64 {
	t.Helper()
	v, err := a.Verdicts()
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range v {
		if n == 0 {
			delete(v, name)
		}
	}
	return v
}

// The kernel is asked for the way to a server once a second, however many connections there are.
func TestConnectionsShareTheNextHop(t *testing.T) {
	const connections = 50
	r, client, _ := pair(t)
	start := time.Now()
	for range connections {
		r.connect().Close()
	}
	most := 1 + uint64(time.Since(start)/time.Second)
	if n := client.count(t, "client_routed"); n == 0 || n > 2*most {
		t.Errorf("asked %d times, want at most %d", n, 2*most)
	}
	if n := client.count(t, "direct"); n != connections {
		t.Errorf("%d direct connections, want %d: %v", n, connections, dump(t, client))
	}
}
