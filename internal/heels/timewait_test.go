// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
)

const timeWaitState = "06"

// onlyResetsRepeat has the first timeout of a SYN last two minutes, in place of a second. A SYN that meets a TIME_WAIT comes again at once where a reset
// ends that; where none does, the handshake is not over before a dial gives up.
func onlyResetsRepeat(t testing.TB) {
	t.Helper()
	const timeoutInit, reply, longest = 1, 4, 1 << 20 // BPF_SOCK_OPS_TIMEOUT_INIT; the offset of reply in struct bpf_sock_ops; jiffies, which the kernel cuts
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SockOps, AttachType: ebpf.AttachCGroupSockOps, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word),
		asm.JNE.Imm(asm.R2, timeoutInit, "out"),
		asm.Mov.Imm(asm.R3, longest),
		asm.StoreMem(asm.R1, reply, asm.R3, asm.Word),
		asm.Mov.Imm(asm.R0, 1).WithSymbol("out"),
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	attached, err := link.AttachCgroup(link.CgroupOptions{Path: testCgroup, Attach: ebpf.AttachCGroupSockOps, Program: program})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { attached.Close() })
}

// noTimestamps leaves a TIME_WAIT nothing to know a new SYN by but its number.
func (r *rig) noTimestamps() {
	r.t.Helper()
	for _, h := range append([]*host{r.client}, r.servers...) {
		h.Sysctl("ipv4/tcp_timestamps", "0")
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
			onlyResetsRepeat(t)
			for port := first; port < first+ports; port++ {
				c, err := r.client.dialFrom(port, net.JoinHostPort(tt.server, "80"))
				if err != nil {
					t.Fatalf("port %d: %v: %v %v", port, err, dump(t, client), dump(t, server))
				}
				c.Close()
			}
		})
	}
}

const (
	// sequenceRate is how fast the clock goes that the kernel takes first sequence numbers from: one in 64 ns.
	sequenceRate = 15_625_000
	// ahead is by how much a payload outruns it.
	ahead = 10 * time.Second
)

// outrun makes a connection from a port to the VIP whose payload outruns the clock that the kernel takes first sequence numbers from. The server ends first:
// its TIME_WAIT refuses the next SYN from the port. Then it makes one more, and returns how many there were. On a machine so slow that the clock has caught
// up meanwhile it tries another port.
func (r *rig) outrun(port int) (connections uint64) {
	t := r.t
	t.Helper()
	// size is how long the payload is, once that is known.
	var size atomic.Int64
	r.servers[0].listen(":80", func(c net.Conn) {
		defer c.Close()
		b := make([]byte, 1<<20)
		for read := int64(0); size.Load() == 0 || read < size.Load(); {
			n, err := c.Read(b)
			if err != nil {
				return
			}
			read += int64(n)
		}
	})
	for try := range tries {
		size.Store(0)
		caught := r.runAhead(port+try, &size)
		connections++
		eventually(t, "the connection is in TIME_WAIT", func() bool { return r.servers[0].sockets(timeWaitState) == try+1 })
		if left := time.Until(caught); left < ahead/10 {
			t.Logf("port %d: the next connection's number is beyond, or nearly: %v", port+try, left)
			continue
		}
		c := r.dialVIP(port + try)
		t.Cleanup(func() { c.Close() })
		return connections + 1
	}
	t.Fatalf("this machine moves too few bytes in %d tries", tries)
	return 0
}

// runAhead makes a connection, and returns when the clock of first sequence numbers will have caught up with its payload.
func (r *rig) runAhead(port int, size *atomic.Int64) (caught time.Time) {
	t := r.t
	t.Helper()
	begun := time.Now()
	c := r.dialVIP(port)
	defer c.Close()
	of := func(n int64) time.Duration { return time.Duration(n) * time.Second / sequenceRate }
	b, sent := make([]byte, 1<<20), int64(0)
	for of(sent) < time.Since(begun)+ahead {
		n, err := c.Write(b)
		if err != nil {
			t.Fatal(err)
		}
		sent += int64(n)
	}
	// The server waits for one more.
	size.Store(sent + 1)
	if _, err := c.Write(b[:1]); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(b); !errors.Is(err, io.EOF) {
		t.Fatalf("error %v, want the server's end", err)
	}
	return begun.Add(of(sent))
}

func (r *rig) dialVIP(port int) net.Conn {
	r.t.Helper()
	c, err := r.client.dialFrom(port, testVIP+":80")
	if err != nil {
		r.t.Fatal(err)
	}
	return c
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
			onlyResetsRepeat(t)
			if r.outrun(21100); server.count(t, "decline_collision") != 1 {
				t.Errorf("want one decline_collision: %v", dump(t, server))
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
	onlyResetsRepeat(t)
	if connections := r.outrun(21300); server.count(t, "confirm_accepted") != connections {
		t.Errorf("want %d connections confirmed: %v %v", connections, dump(t, server), dump(t, client))
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
		answerAddress(c)
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
	_ = c.SetDeadline(time.Now().Add(patience))
	seen := make([]byte, 64)
	if n, err := c.Read(seen); err != nil || !strings.HasPrefix(string(seen[:n]), testClient) {
		t.Fatalf("server sees %q, %v; %v", seen[:n], err, dump(t, server))
	}
	echo(t, c, 992)
	if n := server.count(t, "decapsulated_detour"); n != 0 {
		t.Errorf("%d segments were taken for those of the earlier connection", n)
	}
}
