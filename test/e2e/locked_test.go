// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	_ "embed"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/hostile/traffic"
	"github.com/xlb-project/xlb/test/suite"
	"github.com/xlb-project/xlb/test/violation"
)

//go:embed clients/large_upload.py
var largeUploadPython string

//go:embed clients/upload_server.py
var uploadServerPython string

const (
	upgradeHead  = "GET /tunnel HTTP/1.1\r\nHost: e2e.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	switchedHead = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"
	chunkedHead  = "Transfer-Encoding: chunked\r\n\r\n"
	postHead     = "POST / HTTP/1.1\r\nHost: e2e.test\r\n"
)

// lockCase is an exchange of which one side has the lock of its socket, while the other sends to it.
type lockCase struct {
	name string
	// What goes before the lock is taken; answer: "" for none.
	request, answer string
	byServer        bool // who sends then
	then, last      string
}

var lockCases = []lockCase{
	{"response", get("/"), "", true, okHead + "Content-Length: 4\r\n\r\nfine", "fine"},
	{"request", get("/"), okHead + "Content-Length: 4\r\n\r\nthis", false, get("/next"), "\r\n\r\n"},
	{"rest of a response", get("/"), okHead + "Content-Length: 8\r\n\r\nthis", true, "fine", "fine"},
	{"rest of a chunked response", get("/"), okHead + chunkedHead + "4\r\nthis\r\n", true, "4\r\nfine\r\n0\r\n\r\n", "0\r\n\r\n"},
	{"response in a tunnel", upgradeHead, switchedHead, true, "fine", "fine"},
	{"rest of a request", postHead + "Content-Length: 8\r\n\r\nthis", "", false, "fine", "fine"},
	{"rest of a chunked request", postHead + chunkedHead + "4\r\nthis\r\n", "", false, "4\r\nfine\r\n0\r\n\r\n", "0\r\n\r\n"},
	{"request in a tunnel", upgradeHead, switchedHead, false, "fine", "fine"},
}

// A process sends from memory that does not come: meanwhile it has the lock of its socket. Who sends to it from the same host must not
// wait for that, as no signal would end the wait.
func TestNobodyWaitsForTheLockOfAnothersSocket(t *testing.T) {
	requireFastPath(t)
	for _, c := range lockCases {
		t.Run(c.name, func(t *testing.T) {
			e := newTunnels(t)
			var before float64
			c.run(t, e, func() { before = e.overTCP(t) })
			if e.overTCP(t) == before {
				t.Error("nothing went over TCP: the test says nothing")
			}
		})
	}
}

// Where that is asked for, nothing is moved from socket to socket: then there is no lock to wait for.
func TestServersOnThisHostAreServedOverTCP(t *testing.T) {
	requireFastPath(t)
	for _, c := range lockCases[:2] {
		t.Run(c.name, func(t *testing.T) {
			e := newTunnels(t, "--same-host=tcp")
			c.run(t, e, func() {})
			if n := e.balancer.Metric(t, "xlb_verdicts_total", `verdict="ssock_joined"`); n != 0 {
				t.Errorf("%.0f connections to servers joined the fast path of one host", n)
			}
			if n := e.balancer.Metric(t, "xlb_requests_total", `path="fast"`); n == 0 {
				t.Error("no request was served by the kernel")
			}
		})
	}
}

// run fails if the one waits for the other's lock, or what is sent meanwhile does not arrive. The last thing before the lock is taken is ready.
func (c *lockCase) run(t *testing.T, e exchanges, ready func()) {
	t.Helper()
	here, there := e.ask(t, c.request, c.request[len(c.request)-4:])
	if c.answer != "" {
		e.answer(t, there, c.answer, c.answer[len(c.answer)-4:])
	}
	sender, conn, holder, port := e.client, here, e.server, e.server.Address.Port()
	if c.byServer {
		sender, conn, holder, port = e.server, there, e.client, netip.MustParseAddrPort(e.service).Port()
	}
	ready()
	g, err := traffic.TakeGrip(holder.PID(), port)
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		say(t, sender, conn, c.then)
	}()
	if waitsBefore(sender.PID(), sent) {
		t.Error("who sends waits for the lock of the other's socket, and cannot be killed")
	}
	if err := g.Release(); err != nil {
		t.Fatal(err)
	}
	<-sent
	heard(t, holder, c.last)
	// The daemon waits for it when it ends.
	e.client.Pull(t, programs.Pull{Do: programs.PuppetReset, Conn: here})
}

// newTunnels are exchanges on one host that may become tunnels.
func newTunnels(t *testing.T, arguments ...string) exchanges {
	t.Helper()
	place, service := harness.SameHost(t), harness.Service()
	server := place.Puppet(t)
	config := harness.OneCluster(service, server.Address)
	config.Listeners[0].Upgrades = []harness.Upgrade{{Type: "websocket"}}
	config.Arguments = arguments
	return exchanges{place.Puppet(t), server, harness.Start(t, harness.Mode{Fast: true}, config, place), service.String()}
}

// overTCP counts what programs have left to the daemon, for whatever reason.
func (e *exchanges) overTCP(t *testing.T) float64 {
	t.Helper()
	return e.balancer.Metric(t, "xlb_handovers_total") + e.balancer.Metric(t, "xlb_spills_total")
}

// waitsBefore tells whether a thread of a process is seen to wait for a socket's lock before done is closed.
func waitsBefore(pid int, done <-chan struct{}) bool {
	for {
		if traffic.WaitsForALock(pid) {
			return true
		}
		select {
		case <-done:
			return false
		case <-time.After(time.Millisecond):
		}
	}
}

// A server answers a request twice. The second answer is the next client's only if the server has had that one's request.
func TestSecondAnswerIsNotTheNextClients(t *testing.T) {
	const rounds = 5
	requireFastPath(t)
	for _, c := range []struct {
		topology topology
		// keep keeps the next request from the server until it is undone.
		keep func(t *testing.T, e exchanges, servers *harness.Place, there int) (undo func())
	}{
		{topologies[0], func(t *testing.T, e exchanges, _ *harness.Place, there int) func() {
			e.server.Pull(t, programs.Pull{Do: programs.PuppetIgnore, Conn: there})
			return func() { e.server.Pull(t, programs.Pull{Do: programs.PuppetHear, Conn: there}) }
		}},
		{topologies[1], func(t *testing.T, _ exchanges, servers *harness.Place, _ int) func() {
			servers.Firewall(t, "table ip deaf { chain in { type filter hook input priority 0; tcp flags & (syn|fin|rst) == 0 drop; }; }")
			return func() { servers.Firewall(t, "delete table ip deaf") }
		}},
	} {
		t.Run(c.topology.name, func(t *testing.T) {
			clients, servers := c.topology.places(t)
			e := exchangesBetween(t, clients, servers, harness.Mode{Fast: true})
			balancer, tried := e.balancer, 0
			for done := 0; done < rounds; tried++ {
				_, there := e.ask(t, get("/first"), "\r\n\r\n")
				const answer = okHead + "Content-Length: 5\r\n\r\n"
				e.answer(t, there, answer+"first", "first")
				undo := c.keep(t, e, servers, there)
				next := e.client.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: e.service}).Conn
				say(t, e.client, next, get("/second"))
				say(t, e.server, there, answer+"stray")
				got, hasEnded := e.answered(t, next, there, undo)
				// The pool opens connections meanwhile. The last one that is free is taken first, and may be one of those.
				if got == otherConnection {
					if tried >= 5*rounds {
						t.Fatalf("%d of %d requests came over another connection than the one that spoke", tried-done, tried)
					}
					continue
				}
				if !strings.HasPrefix(got, "HTTP/1.1 503 ") {
					t.Fatalf("the next client got %q, want 503", got)
				}
				done++
				harness.Eventually(t, patience, "the connection that spoke unasked has ended", func() bool {
					return hasEnded || slices.ContainsFunc(e.server.Pull(t, programs.Pull{Do: programs.PuppetLook, Patience: 10 * time.Millisecond}).News,
						func(n programs.News) bool { return n.Conn == there && n.Ended != "" })
				})
			}
			if n := balancer.Metric(t, "xlb_guard_total", `what="unasked"`); n != float64(tried) {
				t.Errorf("answers that nobody asked for: %.0f are counted, want %d", n, tried)
			}
		})
	}
}

// otherConnection is the answer to a request that came over a connection that hears.
const otherConnection = "other one"

// answered returns what a client gets, whose request is kept from the server at one of its connections until undo, and whether that connection has been seen
// to end. A request that came over another one is answered so.
func (e *exchanges) answered(t *testing.T, client, deaf int, undo func()) (got string, hasEnded bool) {
	t.Helper()
	look := programs.Pull{Do: programs.PuppetLook, Patience: 10 * time.Millisecond}
	isAnswered := func() bool {
		for _, n := range e.client.Pull(t, look).News {
			if n.Conn == client {
				got += string(n.Bytes)
			}
		}
		return got != ""
	}
	// Long enough for an answer that comes. Without one it is seen behind undo where the request is.
	for began := time.Now(); !isAnswered() && time.Since(began) < 2*time.Second; {
	}
	undo()
	harness.Eventually(t, patience, "the next client is answered", func() bool {
		if got != "" || isAnswered() {
			return true
		}
		for _, n := range e.server.Pull(t, look).News {
			hasEnded = hasEnded || n.Conn == deaf && n.Ended != ""
			if n.Conn != deaf && strings.HasPrefix(string(n.Bytes), "GET /second ") {
				e.answer(t, n.Conn, okHead+"Content-Length: 9\r\n\r\n"+otherConnection, otherConnection)
				got = otherConnection
			}
		}
		return got != ""
	})
	return got, hasEnded
}

// The same where the second answer is under way when the next request is about to come: that one waits for the lock of the server's socket, which
// the answer has. Nothing of it lies at the server then.
func TestSecondAnswerThatOvertakesTheNextRequestIsNobodys(t *testing.T) {
	const rounds = 10
	requireFastPath(t)
	clients, servers := topologies[0].places(t)
	e := exchangesBetween(t, clients, servers, harness.Mode{Fast: true, Waits: true})
	server, held := e.server, 0
	for range rounds {
		_, there := e.ask(t, get("/first"), "\r\n\r\n")
		const answer = okHead + "Content-Length: 5\r\n\r\n"
		e.answer(t, there, answer+"first", "first")
		next := e.client.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: e.service}).Conn
		g, err := traffic.TakeGrip(server.PID(), server.Address.Port())
		if err != nil {
			t.Fatal(err)
		}
		var sends sync.WaitGroup
		sends.Go(func() { say(t, server, there, answer+"stray") })
		first := traffic.AwaitLocked(server.PID())
		sends.Go(func() { say(t, e.client, next, get("/second")) })
		if traffic.AwaitLocked(e.client.PID()) && first {
			held++
		}
		if err := g.Release(); err != nil {
			t.Fatal(err)
		}
		sends.Wait()
		got, ended := "", false
		harness.Eventually(t, patience, "the next client is answered, and the connection that spoke unasked has ended", func() bool {
			for _, n := range server.Pull(t, programs.Pull{Do: programs.PuppetLook}).News {
				// What comes there late would be taken for the first request of the next round.
				ended = ended || n.Conn == there && n.Ended != ""
				if n.Conn != there && strings.Contains(string(n.Bytes), "/second") {
					say(t, server, n.Conn, answer+"right")
				}
			}
			for _, n := range e.client.Pull(t, programs.Pull{Do: programs.PuppetLook, Patience: 10 * time.Millisecond}).News {
				if n.Conn == next {
					got += string(n.Bytes)
				}
			}
			return got != "" && ended
		})
		if strings.Contains(got, "stray") {
			violation.Errorf(t, "the next client got %q", got)
		}
	}
	if held < rounds/2 {
		t.Errorf("only in %d of %d rounds the second answer was before the request: the test says nothing", held, rounds)
	}
}

// What a server has acknowledged of a request is told by a count that does not wrap: behind 2 GiB a sequence number says that nothing was.
func TestAnswerToALongUploadIsNoSecondOne(t *testing.T) {
	suite.Long(t, suite.Slow)
	const length = 5 << 29 // 2.5 GiB
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			clients, servers := topology.places(t)
			service, endpoint := harness.Service(), netip.AddrPortFrom(servers.Address, servers.FreePort(t))
			server := servers.Run(t, harness.Command(t, "python3"), "-c", uploadServerPython, endpoint.Addr().String(), strconv.Itoa(int(endpoint.Port())))
			var ready string
			server.Next(t, &ready)
			balancer := harness.Start(t, harness.Mode{Fast: harness.FastPath(t)}, harness.OneCluster(service, endpoint), clients)
			got := clients.Run(t, harness.Command(t, "python3"), "-c", largeUploadPython,
				service.Addr().String(), strconv.Itoa(int(service.Port())), strconv.Itoa(length)).Output(t, time.Hour)
			if want := "200 " + strconv.Itoa(length); strings.TrimSpace(got) != want {
				t.Errorf("the answer is %q, want %q", got, want)
			}
			if n := balancer.Metric(t, "xlb_guard_total"); n > 0 {
				t.Errorf("%.0f invariants are said to be broken", n)
			}
		})
	}
}
