// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/heels/stand"
	"github.com/xlb-project/xlb/test/heels/traffic"
	"github.com/xlb-project/xlb/test/suite"
)

// clock says when something happened.
const clock = "15:04:05.000"

// tool runs a command of the agent's program over its pins.
func (a *agent) tool(command ...string) error {
	a.b.t.Helper()
	args := append(append([]string{"heels"}, command...), "--pin", a.pins())
	_, err := a.host.Run("", os.Getenv("XLB_BIN"), args...)
	return err
}

// However an agent ends, be it while it starts, connections and what begins meanwhile go on.
func TestAgentsMayBeKilledAtAnyMoment(t *testing.T) {
	suite.Long(t, suite.Slow)
	for _, w := range append(threeWays(), confirmingPort) {
		t.Run(w.name, func(t *testing.T) {
			b := newBed(t)
			agents := b.stage(w)
			random := rand.New(rand.NewPCG(suite.Seed(t), 0))
			broken := b.broken()
			long, short := b.start(stream(w.target(), 30, endless)), b.start(churn(w.target()))
			b.underWay(30)
			for range 40 {
				h := b.ends()[random.IntN(len(b.ends()))]
				must(t, agents[h].p.Kill())
				agents[h].launch()
				time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
			}
			for _, a := range agents {
				a.await()
			}
			for name, r := range map[string]traffic.ClientReport{"long": long.finish(), "short": short.finish()} {
				if r.Errors != 0 || r.Requests == 0 {
					t.Errorf("%s connections: %d requests, errors %v", name, r.Requests, r.Kinds)
				}
			}
			if n := b.broken() - broken; n != 0 {
				t.Errorf("%d established connections were reset, want none", n)
			}
			b.allEnd(0)
			o := few(w.target(), 20)
			if w.confirm {
				b.forgotten()
				b.onlySetUp(o.Connections, func() { complete(t, o, b.ask(o)) })
				return
			}
			b.onlyHandshakes(o.Connections, func() { complete(t, o, b.ask(o)) })
		})
	}
}

// A port whose last connection went around the balancer, and which the server has in TIME_WAIT, is good for one by way of the balancer.
func TestPortsMayBeUsedAgainByWayOfTheBalancer(t *testing.T) {
	suite.Long(t, suite.Slow)
	for _, w := range append(threeWays(), confirmingPort) {
		t.Run(w.name, func(t *testing.T) {
			b := newBed(t)
			agents := b.stage(w)
			o := few(w.target(), 50)
			o.FirstPort, o.Close = 12_000, traffic.ServerFirst
			complete(t, o, b.ask(o))
			b.allEnd(0)
			for _, role := range []string{"server", "client"} {
				for _, h := range map[string][]*stand.Host{"server": b.Servers, "client": {b.Client}}[role] {
					must(t, agents[h].tool("drain", role))
				}
				complete(t, o, b.ask(o))
				b.allEnd(0)
			}
		})
	}
}

// Programs that go under load, with or without regard to connections, break no more than those that depend on them.
func TestDetachUnderLoad(t *testing.T) {
	suite.Long(t, suite.Slow)
	for _, w := range []way{masquerading, encapsulating, confirmingPort} {
		for _, force := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, force %t", w.name, force), func(t *testing.T) {
				// While an agent is off, connections take the balancer's path; it must not lose one of its own.
				b := newBedOf(t, stand.Options{Steered: true})
				agents := b.stage(w)
				o := churn(w.target())
				o.Requests, o.Timeout = 1, patience
				l := b.start(o)
				b.arrive(100)
				detached, refused := 0, 0
				for range 5 {
					for _, h := range b.ends() {
						a := agents[h]
						a.stop()
						command := []string{"detach"}
						if force {
							command = append(command, "--force")
						}
						began := time.Now()
						err := a.tool(command...)
						t.Logf("%s: %s to %s: %v", h.Name, began.Format(clock), time.Now().Format(clock), err)
						switch {
						case err == nil:
							detached++
						case force:
							t.Error(err)
						default:
							refused++
						}
						b.arrive(20)
						began = time.Now()
						a.start()
						t.Logf("%s: started from %s to %s", h.Name, began.Format(clock), time.Now().Format(clock))
					}
				}
				r := l.finish()
				for _, e := range r.First {
					t.Logf("%s: %s", e.At.Format(clock), e.What)
				}
				t.Logf("%d times detached, %d times refused; %d connections, errors %v", detached, refused, r.Connections, r.Kinds)
				allowed := int64(0)
				if force {
					allowed = int64(detached * o.Concurrency)
				}
				if r.Errors > allowed || r.Connections == 0 {
					t.Errorf("%d connections ended well, %d broke, want at most %d: %v", r.Connections, r.Errors, allowed, r.Kinds)
				}
				short := few(w.target(), 20)
				complete(t, short, b.ask(short))
			})
		}
	}
}

// Half-open connections without number, each with the option: what cannot be kept is pushed out, or under SYN cookies not kept at all, and nobody else's connection is hurt.
func TestAFloodOfOptionsHurtsNobody(t *testing.T) {
	suite.Long(t, suite.Slow)
	const syns = 60_000
	for _, w := range []way{masquerading, encapsulating, confirmingPort} {
		t.Run(w.name, func(t *testing.T) {
			b := newBed(t)
			agents := b.stage(w)
			long, short := b.start(stream(w.target(), 20, endless)), b.start(churn(w.target()))
			b.underWay(20)
			b.flood(w.target(), syns)
			for name, r := range map[string]traffic.ClientReport{"long": long.finish(), "short": short.finish()} {
				t.Logf("%s connections: %d requests, errors %v", name, r.Requests, r.Kinds)
				if r.Errors != 0 || r.Requests == 0 {
					t.Errorf("%s connections: %d requests, errors %v", name, r.Requests, r.Kinds)
				}
			}
			taken := verdict(t, agents, "committed") + verdict(t, agents, "confirm_taken")
			t.Logf("%d SYNs were taken, %d answered under cookies", taken, verdict(t, agents, "answered_cookie")+verdict(t, agents, "confirm_cookie"))
			if taken < syns/2 {
				t.Errorf("%d of %d SYNs were taken: the test shows little", taken, syns)
			}
		})
	}
}

// flood sends SYNs with the option from the client's host, each in the name of another client's port.
func (b *bed) flood(vip netip.AddrPort, syns int) {
	b.t.Helper()
	random := rand.New(rand.NewPCG(suite.Seed(b.t), 0))
	must(b.t, b.Client.Do(func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		to := &unix.SockaddrInet4{Addr: vip.Addr().As4()}
		address := b.Client.Address().As4()
		for i := range syns {
			address[3] = byte(2 + i%250)
			from := netip.AddrPortFrom(netip.AddrFrom4(address), uint16(1024+i/250))
			packet := segment{from: from, to: vip, options: append([]byte{2, 4, 5, 180}, heelsOption(from, vip)...)}.encode()
			binary.BigEndian.PutUint32(packet[24:], random.Uint32())
			seal(packet)
			if err := unix.Sendto(fd, packet, 0, to); err != nil {
				return err
			}
		}
		return nil
	}))
}
