// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

const (
	timeWaitState = "06"
	// soon bounds a handshake whose first SYN meets a TIME_WAIT: a reset ends that, and the SYN comes again at once. Without the reset it comes again after a second.
	soon = 900 * time.Millisecond
)

// noTimestamps leaves a TIME_WAIT nothing to know a new SYN by but its number.
func (r *rig) noTimestamps() {
	r.t.Helper()
	for _, h := range append([]*host{r.client}, r.servers...) {
		h.sysctl("ipv4/tcp_timestamps", "0")
	}
}

// serverEndsFirst makes a connection from a port to the VIP, which goes around the balancer and leaves a TIME_WAIT at the server.
func (r *rig) serverEndsFirst(port int, vip string) {
	r.t.Helper()
	c, err := r.client.dialFrom(port, net.JoinHostPort(vip, "80"))
	if err != nil {
		r.t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		r.t.Fatalf("error %v, want the server's end", err)
	}
}

// A plain connection to the server's own address may have the ends of a TIME_WAIT that a connection to the VIP has left, and its SYN may be one that a TIME_WAIT
// refuses: numbers and timestamps of two addresses have nothing to do with each other. The refusal comes from the address that the SYN was sent to, so that the client's
// TCP resets it and goes on, as it does where there is no HEELS.
func TestAPlainConnectionPassesATimeWaitOfTheVIP(t *testing.T) {
	// Each port's SYN is refused with a probability of one half.
	const first, ports = 21000, 16
	for _, tt := range []struct{ name, mode, vip, server string }{
		{"rewritten", "rewritten", testVIP, testServer1},
		{"preserved over IPv6", "preserved", rig6VIP, rig6Server},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, testServer1)
			r.noTimestamps()
			server, client := r.plainPair(tt.mode, tt.vip)
			r.servers[0].listen(":80", func(c net.Conn) { c.Close() })
			for port := first; port < first+ports; port++ {
				r.serverEndsFirst(port, tt.vip)
			}
			eventually(t, "every connection is in TIME_WAIT", func() bool { return r.servers[0].sockets(timeWaitState) == ports })
			if n := client.count(t, "direct"); n != ports {
				t.Fatalf("%d connections went around the balancer, want %d: %v", n, ports, dump(t, server))
			}
			for port := first; port < first+ports; port++ {
				begin := time.Now()
				c, err := r.client.dialFrom(port, net.JoinHostPort(tt.server, "80"))
				if err != nil {
					t.Fatal(err, dump(t, client), dump(t, server))
				}
				c.Close()
				if took := time.Since(begin); took > soon {
					t.Errorf("port %d: the handshake took %v, want less than %v", port, took, soon)
				}
			}
		})
	}
}

// outrun makes a connection from a port to the VIP whose payload outruns the clock that the kernel takes first sequence numbers from, which is at 15.6 MB a
// second. The server ends first: its TIME_WAIT refuses the next SYN from the port. Then it makes one more, and returns how long that took.
func (r *rig) outrun(port int) time.Duration {
	const enough, seconds = 128 << 20, 6
	t := r.t
	t.Helper()
	r.servers[0].listen(":80", func(c net.Conn) {
		_, _ = io.CopyN(io.Discard, c, enough)
		c.Close()
	})
	dial := func() net.Conn {
		c, err := r.client.dialFrom(port, testVIP+":80")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	start := time.Now()
	c := dial()
	if _, err := io.CopyN(c, zeros{}, enough); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatalf("error %v, want the server's end", err)
	}
	c.Close()
	eventually(t, "the connection is in TIME_WAIT", func() bool { return r.servers[0].sockets(timeWaitState) == 1 })
	if time.Since(start) > seconds*time.Second {
		t.Fatalf("%d bytes took %v: the next connection's number is beyond", enough, time.Since(start))
	}
	again := time.Now()
	dial()
	return time.Since(again)
}

// A SYN with the option whose TIME_WAIT would refuse it is left to the balancer, who has another end for it: the refusal would go to the client, and what the client
// answers to the VIP.
func TestASYNThatATimeWaitRefusesIsLeftToTheBalancer(t *testing.T) {
	for _, mode := range []string{"rewritten", "encapsulated"} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t, testServer1)
			r.noTimestamps()
			if mode == "rewritten" {
				r.nat("80", testServer1+":80", true)
			} else {
				r.encapsulate(ipip)
			}
			server := r.servers[0].agent(serverText(mode, "80"))
			r.client.agent(clientText)
			if took := r.outrun(21100); took > soon || server.count(t, "decline_collision") != 1 {
				t.Errorf("the second handshake took %v, want less than %v and one decline_collision: %v", took, soon, dump(t, server))
			}
		})
	}
}

// In confirm mode the balancer has the same end for it. The refusal acknowledges what the balancer has not seen, and is no packet of the connection to it: it goes to
// the client directly, and so does the client's reset, which ends the TIME_WAIT.
func TestConfirmASYNThatATimeWaitRefusesComesAgainAtOnce(t *testing.T) {
	r := newRig(t, testServer1)
	r.noTimestamps()
	r.nat("80", testServer1+":80", true)
	server := r.servers[0].agent(confirmText("80"))
	client := r.client.agent(clientText)
	if took := r.outrun(21300); took > soon || server.count(t, "confirm_accepted") != 2 {
		t.Errorf("the second handshake took %v, want less than %v, and confirmed as the first: %v %v", took, soon, dump(t, server), dump(t, client))
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// Behind a balancer that encapsulates, a connection by way of the balancer is with the VIP, and the TIME_WAIT of one around it with the server's own address.
func TestAConnectionByTheBalancerAfterOneAroundIt(t *testing.T) {
	const port = 21200
	r := newRig(t, testServer1)
	r.encapsulate(ipip)
	server, client := r.servers[0].agent(serverText("encapsulated", "80")), r.client.agent(clientText)
	closes := make(chan bool, 1)
	r.servers[0].listen(":80", func(c net.Conn) {
		if <-closes {
			c.Close()
			return
		}
		tell(c)
	})
	closes <- true
	r.serverEndsFirst(port, testVIP)
	eventually(t, "the connection is in TIME_WAIT", func() bool { return r.servers[0].sockets(timeWaitState) == 1 })
	if err := client.SetDraining(ClientRole, true); err != nil {
		t.Fatal(err)
	}
	closes <- false
	c, err := r.client.dialFrom(port, testVIP+":80")
	if err != nil {
		t.Fatal(err, dump(t, client), dump(t, server))
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	seen := make([]byte, 64)
	if n, err := c.Read(seen); err != nil || !strings.HasPrefix(string(seen[:n]), testClient) {
		t.Fatalf("server sees %q, %v; %v", seen[:n], err, dump(t, server))
	}
	echo(t, c, 992)
	if n := server.count(t, "decapsulated_detour"); n != 0 {
		t.Errorf("%d segments were taken for those of the earlier connection", n)
	}
}
