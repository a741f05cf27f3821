// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// faultTimeout bounds every exchange with something broken: reaching it is a
// hang, which no fault may cause.
const faultTimeout = await.Patience

// faulty routes paths to a good server, a server that nobody runs, and both.
func faulty(t *testing.T, mode harness.Mode) (place *harness.Place, balancer *harness.Balancer, service netip.AddrPort) {
	t.Helper()
	place, service = harness.SameHost(t), harness.Service()
	_, good := origins(t, place, "good")
	refusing := netip.AddrPortFrom(place.Address, place.FreePort(t))
	config := harness.Config{
		Listeners: []harness.Listener{{Address: service, Hosts: []harness.VirtualHost{{
			Domains: []string{"e2e.test"},
			Routes: []harness.Route{
				{Prefix: "/refusing", Clusters: harness.To("refusing")},
				{Prefix: "/mixed", Clusters: harness.To("mixed")},
				{Prefix: "/stall", Clusters: harness.To("good"), Timeout: time.Second},
				{Prefix: "/reset", Clusters: harness.To("good")},
				{Prefix: "/hangup", Clusters: harness.To("good")},
				{Prefix: "/ok", Clusters: harness.To("good")},
			},
		}}}},
		Clusters: []harness.Cluster{
			{Name: "good", Endpoints: good},
			{Name: "refusing", Endpoints: []netip.AddrPort{refusing}},
			{Name: "mixed", Endpoints: []netip.AddrPort{refusing, good[0]}},
		},
	}
	return place, harness.Start(t, mode, config, place), service
}

func TestFaultsAreAnsweredAndTheConnectionGoesOn(t *testing.T) {
	tests := []struct {
		name   string
		path   string
		status int
		// The answer comes no sooner. It comes at last: the exchange has a deadline.
		earliest time.Duration
	}{
		{name: "endpoint refuses", path: "/refusing", status: 503},
		{name: "endpoint stalls", path: "/stall", status: 504, earliest: 900 * time.Millisecond},
		{name: "no route", path: "/nowhere", status: 404},
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, _, service := faulty(t, mode)
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				steps := append(getAndReceive("/ok"), getAndReceive(tt.path)...)
				steps = append(steps, getAndReceive("/ok")...)
				report := runExchange(t, place, service, faultTimeout, steps...)
				requireStatus(t, report, 200, tt.status, 200)
				if len(report.Replies) < 2 {
					return
				}
				// The first answer is read before the second request is sent.
				if took := report.Replies[1].At - report.Replies[0].At; took < tt.earliest {
					t.Errorf("time to the answer: got %v, want at least %v", took, tt.earliest)
				}
			})
		}
		t.Run("unknown host", func(t *testing.T) {
			report := runExchange(t, place, service, faultTimeout,
				programs.Step{Send: "GET /ok HTTP/1.1\r\nHost: other.test\r\n\r\n"}, programs.Step{Receive: true})
			requireStatus(t, report, 404)
		})
	})
}

// A client that is quick sends its next request before the connection is the fast path's again: it is a whole request, not the
// rest of the one that failed.
func TestRequestRightBehindALocalReplyIsServed(t *testing.T) {
	harness.Beside(t)
	const rounds = 100
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, _, service := faulty(t, mode)
		var steps []programs.Step
		var want []int
		for range rounds {
			steps = append(steps, getAndReceive("/hangup")...)
			steps = append(steps, getAndReceive("/ok")...)
			want = append(want, 503, 200)
		}
		requireStatus(t, runExchange(t, place, service, faultTimeout, steps...), want...)
	})
}

func TestRefusingEndpointDoesNotHarmItsNeighbour(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, _, service := faulty(t, mode)
		report := runLoad(t, place, programs.LoadSpec{
			Address: service.String(), Connections: 4, Requests: 50, Timeout: faultTimeout,
			Asks: []programs.Ask{{Path: "/mixed"}},
		})
		if got := report.Status[200] + report.Status[503]; got != report.Total {
			t.Errorf("answers of 200 or 503: got %d of %d: %v", got, report.Total, report.Failures)
		}
		if got := report.Status[200]; got < report.Total/2 {
			t.Errorf("answers of 200: got %d of %d, want at least the neighbour's half", got, report.Total)
		}
		if report.Reconnects != 0 {
			t.Errorf("%d connections of clients were ended", report.Reconnects)
		}
	})
}

func TestResetInMidBodyIsNoCleanEnd(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, balancer, service := faulty(t, mode)
		for _, framing := range []string{programs.FramingLength, programs.FramingChunked, programs.FramingClose} {
			for _, size := range []string{"2000", "1000000", "40000000"} {
				t.Run(framing+" "+size, func(t *testing.T) {
					report := runExchange(t, place, service, faultTimeout,
						getAndReceive("/reset?seed=5&size="+size+"&framing="+framing)...)
					if report.Timeout {
						t.Fatalf("the client hangs: %s", report.Error)
					}
					for _, r := range report.Replies {
						if r.Status == 200 && r.BodyError == "" {
							t.Errorf("half of a body looks whole: %d bytes", r.Size)
						}
					}
				})
			}
		}
		harness.Eventually(t, await.Patience, "no lease is active", func() bool {
			return balancer.Metric(t, "xlb_leases_active") == 0
		})
		requireStatus(t, runExchange(t, place, service, faultTimeout, getAndReceive("/ok")...), 200)
	})
}

func TestMalformedHTTPIsAnswered400AndClosed(t *testing.T) {
	harness.Beside(t)
	tests := []struct{ name, request string }{
		{"not HTTP at all", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello hello hello\r\n\r\n"},
		{"no target", "GET HTTP/1.1\r\nHost: e2e.test\r\n\r\n"},
		{"unknown version", "GET /ok HTTP/1.7x\r\nHost: e2e.test\r\n\r\n"},
		{"header without a colon", "GET /ok HTTP/1.1\r\nHost: e2e.test\r\nnonsense\r\n\r\n"},
		{"space before the colon", "GET /ok HTTP/1.1\r\nHost: e2e.test\r\nX-A : b\r\n\r\n"},
		{"NUL in a header", "GET /ok HTTP/1.1\r\nHost: e2e.test\r\nX-A: b\x00c\r\n\r\n"},
		{"length that is no number", "POST /ok HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: 1x\r\n\r\na"},
		{"negative length", "POST /ok HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: -1\r\n\r\n"},
		{"two different lengths", "POST /ok HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"},
		{"length and chunked", "POST /ok HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, _, service := faulty(t, mode)
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				report := runExchange(t, place, service, faultTimeout,
					programs.Step{Send: tt.request}, programs.Step{Receive: true}, programs.Step{End: true})
				requireStatus(t, report, 400)
			})
			t.Run(tt.name+", after a good request", func(t *testing.T) {
				steps := append(getAndReceive("/ok"),
					programs.Step{Send: tt.request}, programs.Step{Receive: true}, programs.Step{End: true})
				requireStatus(t, runExchange(t, place, service, faultTimeout, steps...), 200, 400)
			})
		}
		t.Run("no host", func(t *testing.T) {
			report := runExchange(t, place, service, faultTimeout,
				programs.Step{Send: "GET /ok HTTP/1.1\r\n\r\n"}, programs.Step{Receive: true})
			requireStatus(t, report, 400)
		})
	})
}

func TestUnusualButValidHTTPIsServed(t *testing.T) {
	harness.Beside(t)
	tests := []struct {
		name   string
		writes []string
		want   []string
	}{
		{"request in single bytes", strings.Split(get("/ok"), ""), []string{"good"}},
		{"head in two writes", []string{get("/ok")[:20], get("/ok")[20:]}, []string{"good"}},
		{"two requests in one write", []string{get("/ok/1") + get("/ok/2")}, []string{"good", "good"}},
		{"many requests in one write", []string{strings.Repeat(get("/ok"), 20)}, repeat("good", 20)},
		{"second request before the first is answered", []string{get("/ok/1"), get("/ok/2"), get("/ok/3")}, repeat("good", 3)},
		{"HEAD", []string{"HEAD /ok HTTP/1.1\r\nHost: e2e.test\r\n\r\n"}, nil},
		{"no body of a POST", []string{"POST /ok HTTP/1.1\r\nHost: e2e.test\r\nContent-Length: 0\r\n\r\n"}, []string{"good"}},
		{"absolute form", []string{"GET http://e2e.test/ok HTTP/1.1\r\nHost: e2e.test\r\n\r\n"}, []string{"good"}},
		{"long head", []string{"GET /ok HTTP/1.1\r\nHost: e2e.test\r\nX-Long: " + strings.Repeat("a", 16<<10) + "\r\n\r\n"}, []string{"good"}},
		{"many headers", []string{"GET /ok HTTP/1.1\r\nHost: e2e.test\r\n" + strings.Repeat("X-A: b\r\n", 90) + "\r\n"}, []string{"good"}},
		{"empty line before the request", []string{"\r\n" + get("/ok")}, []string{"good"}},
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, _, service := faulty(t, mode)
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				var steps []programs.Step
				for _, w := range tt.writes {
					steps = append(steps, programs.Step{Send: w})
				}
				for range tt.want {
					steps = append(steps, programs.Step{Receive: true})
				}
				if tt.want == nil {
					// The answer to HEAD has a length and no body.
					steps = append(steps, programs.Step{Sip: len("HTTP/1.1 200 OK")})
				}
				report := runExchange(t, place, service, faultTimeout, steps...)
				if report.Error != "" {
					t.Fatal(report.Error)
				}
				for i, want := range tt.want {
					if got := report.Replies[i]; got.Status != 200 || got.Body != want {
						t.Errorf("answer %d: got %d %q, want 200 %q", i, got.Status, got.Body, want)
					}
				}
			})
		}
	})
}

func repeat(s string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = s
	}
	return all
}

// An endpoint that begins to answer before it has the whole request, and then stalls: the route's timeout counts from the end of the request,
// whoever forwards the response.
func TestAnswersThatBeginTooSoonAndStallTimeOut(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	const timeout = 500 * time.Millisecond
	answers := []struct {
		begins, want string
		spilled      bool
	}{
		{"HTTP/1.1 2", "HTTP/1.1 504 ", true},
		{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nab", "HTTP/1.1 200 ", false},
		{"HTTP/1.1 200 OK\r\n\r\nab", "HTTP/1.1 200 ", true},
	}
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		service, front, back := harness.Service(), clients.Puppet(t), servers.Puppet(t)
		config := harness.OneCluster(service, back.Address)
		config.Listeners[0].Hosts[0].Routes[0].Timeout = timeout
		balancer := harness.Start(t, mode, config, clients)
		conns, asked, spilled := map[int]int{}, map[int]bool{}, 0
		for i, a := range answers {
			conn := front.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: service.String()}).Conn
			conns[conn] = i
			front.Pull(t, programs.Pull{Do: programs.PuppetSend, Conn: conn, Bytes: []byte(partialBody.Send)})
			back.Pull(t, programs.Pull{Do: programs.PuppetSend, Conn: awaitAsked(t, back, asked), Bytes: []byte(a.begins)})
			if a.spilled && mode.Fast {
				spilled++
			}
		}
		harness.Eventually(t, faultTimeout, "responses are the daemon's to forward", func() bool { return spills(t, balancer) == spilled })
		got := make([]string, len(answers))
		ended := await.Since(func() {
			for conn := range conns {
				front.Pull(t, programs.Pull{Do: programs.PuppetSend, Conn: conn, Bytes: []byte("12345678")})
			}
		})
		harness.Eventually(t, faultTimeout, "the answers end", func() bool {
			for _, n := range front.Pull(t, programs.Pull{Do: programs.PuppetLook, Patience: time.Second}).News {
				i, waits := conns[n.Conn]
				if !waits {
					continue
				}
				got[i] += string(n.Bytes)
				if n.Ended == "" && !strings.HasPrefix(got[i], "HTTP/1.1 504 ") {
					continue
				}
				delete(conns, n.Conn)
				// Timers are coarse.
				ended.NoSooner(t, 4*timeout/5, fmt.Sprintf("%q: the answer", answers[i].begins))
				if !strings.HasPrefix(got[i], answers[i].want) {
					t.Errorf("%q: got %q, want %s", answers[i].begins, got[i], answers[i].want)
				}
			}
			return len(conns) == 0
		})
	})
}

// spills counts the leases of which the daemon forwards the response.
func spills(t *testing.T, b *harness.Balancer) (n int) {
	t.Helper()
	if !b.Mode.Fast {
		return 0
	}
	for _, slot := range b.Slots(t) {
		if maps.SlotState(slot.State) == maps.SlotLeased && slot.Spill != uint32(maps.SpillNone) {
			n++
		}
	}
	return n
}

// awaitAsked waits until one more connection has brought a request, in one piece or in several, and tells which.
func awaitAsked(t *testing.T, puppet *harness.Puppet, asked map[int]bool) (conn int) {
	t.Helper()
	harness.Eventually(t, faultTimeout, "the beginning of a request", func() bool {
		for _, n := range puppet.Pull(t, programs.Pull{Do: programs.PuppetLook, Patience: time.Second}).News {
			if len(n.Bytes) > 0 && !asked[n.Conn] {
				conn, asked[n.Conn] = n.Conn, true
			}
		}
		return conn != 0
	})
	return conn
}
