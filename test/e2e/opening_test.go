// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// openingTime is the listener_filters_timeout of the tests.
const openingTime = 500 * time.Millisecond

// hesitant are clients that do not show at once what they are.
func hesitant() []opening {
	request, text := []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), []byte("\x00text\n")
	return []opening{
		{name: "nothing"}, {name: "half a request line", bytes: []byte("GET / HT")}, {name: "half a ClientHello", bytes: []byte("\x16\x03\x01\x02\x00\x01\x00")},
		{name: "half a preface of HTTP/2", bytes: []byte("PRI * HT")}, {name: "a request", bytes: request}, {name: "text", bytes: text},
		{name: "a request too late", bytes: request, delay: 2 * openingTime}, {name: "text too late", bytes: text, delay: 2 * openingTime},
	}
}

// hesitantSets are listeners whose clients have that time to begin.
func hesitantSets() map[string]func(service netip.AddrPort) harness.Listener {
	type m = map[string]any
	both := []string{"tls_inspector", "http_inspector"}
	http := toRoutes("http", m{"transport_protocol": "raw_buffer", "application_protocols": []any{"http/1.1"}})
	timed := func(l harness.Listener, more m) harness.Listener {
		l.Fields["listener_filters_timeout"] = fmt.Sprintf("%gs", openingTime.Seconds())
		for name, value := range more {
			l.Fields[name] = value
		}
		return l
	}
	return map[string]func(service netip.AddrPort) harness.Listener{
		"close": func(s netip.AddrPort) harness.Listener {
			return timed(chained(s, both, []any{http}, connectingTo("rest", nil)), nil)
		},
		"go on": func(s netip.AddrPort) harness.Listener {
			return timed(chained(s, both, []any{http}, connectingTo("rest", nil)), m{"continue_on_listener_filters_timeout": true})
		},
		"go on without a chain": func(s netip.AddrPort) harness.Listener {
			return timed(chained(s, both, []any{http}, nil), m{"continue_on_listener_filters_timeout": true})
		},
		"go on to routes": func(s netip.AddrPort) harness.Listener {
			chains := []any{toRoutes("http", m{"transport_protocol": "raw_buffer"}), connectingTo("one", m{"transport_protocol": "tls"})}
			return timed(chained(s, both, chains, nil), m{"continue_on_listener_filters_timeout": true})
		},
		"no routes": func(s netip.AddrPort) harness.Listener {
			chains := []any{connectingTo("one", m{"application_protocols": []any{"http/1.1"}})}
			return timed(chained(s, both, chains, connectingTo("rest", nil)), m{"continue_on_listener_filters_timeout": true})
		},
	}
}

// slowHelloCases are listeners of server names. Without a time for the first bytes clients may take as long as they like.
var slowHelloCases = []struct {
	name    string
	timeout time.Duration
}{{"with a timeout", 10 * time.Second}, {"without a timeout", 0}}

// slowHelloService chooses by the server name of TLS, and has routes for HTTP.
func slowHelloService(service netip.AddrPort, timeout time.Duration) harness.Listener {
	type m = map[string]any
	l := chained(service, []string{"tls_inspector", "http_inspector"}, []any{
		toRoutes("http", m{"transport_protocol": "raw_buffer", "application_protocols": []any{"http/1.1"}}),
		connectingTo("one", m{"transport_protocol": "tls", "server_names": []any{"one.example"}}),
		connectingTo("two", m{"transport_protocol": "tls", "server_names": []any{"two.example"}}),
	}, nil)
	l.Fields["listener_filters_timeout"] = fmt.Sprintf("%gs", timeout.Seconds())
	return l
}

// slowHellos are clients that send their ClientHello byte by byte, and clients that stop amid it. It is too long to be whole within the test's
// patience, also where each byte would begin the time anew.
func slowHellos(t *testing.T, place *harness.Place, service netip.AddrPort) []*harness.Process {
	t.Helper()
	const each, every = 100, 200 * time.Millisecond
	long := hello(t, "one.example", slices.Repeat([]string{strings.Repeat("x", 100)}, 40)...)
	spec := programs.AbuserSpec{Address: service.String(), Connections: each, Begin: string(long[:len(long)/3])}
	drip := spec
	drip.Begin, drip.Drip, drip.Every = string(long[:1]), string(long[1:]), every
	return []*harness.Process{abuse(t, place, spec), abuse(t, place, drip)}
}

// openOf is how many of their connections are open. They have no answers: they have not come to any chain.
func openOf(t *testing.T, abusers []*harness.Process) (open int) {
	t.Helper()
	for _, a := range abusers {
		var report programs.AbuserReport
		a.Ask(t, "report", &report)
		open += report.Open
		if len(report.Status) > 0 {
			t.Errorf("clients that have not shown what they are have answers: %v", report.Status)
		}
	}
	return open
}

// requireChosen has clients of each kind come to the listener, all of which are to be served.
func requireChosen(t *testing.T, place *harness.Place, service netip.AddrPort) (median time.Duration) {
	t.Helper()
	const connections = 20
	for _, name := range []string{"one", "two"} {
		var report programs.CallerReport
		place.Program(t, programs.CallerProgram, programs.CallerSpec{
			Address: service.String(), Clients: 4, Connections: connections, Bytes: 1 << 10, Opening: hello(t, name+".example"), Timeout: patience,
		}).Next(t, &report)
		if report.ServedBy[name] != connections {
			t.Errorf("connections to %s.example were served by %v, want %d by %s; failures: %q", name, report.ServedBy, connections, name, report.Failures)
		}
	}
	report := runLoad(t, place, programs.LoadSpec{Address: service.String(), Connections: 4, Requests: connections, OneShot: true})
	requireClean(t, report)
	return report.Median
}

// Clients that send their ClientHello byte by byte, or stop amid it, delay none of the others, which a chain is chosen for as well. They are closed
// when the time for the first bytes is over, however little or much has come, or hold what they have until they end where it has no end.
func TestSlowClientHellosHoldNothing(t *testing.T) {
	harness.Beside(t)
	for _, tt := range slowHelloCases {
		t.Run(tt.name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				place, service := harness.SameHost(t), harness.Service()
				_, greeting := greeters(t, place, "one", "two")
				origin := place.Origin(t, "http")
				b := harness.Start(t, mode, harness.Config{
					Listeners: []harness.Listener{slowHelloService(service, tt.timeout)},
					Clusters: []harness.Cluster{
						{Name: "http", Endpoints: []netip.AddrPort{origin.Address}}, {Name: "one", Endpoints: greeting[:1]}, {Name: "two", Endpoints: greeting[1:]},
					},
				}, place)
				alone := requireChosen(t, place, service)
				var before flat
				if !b.IsEnvoy() {
					before = flatOf(t, b)
				}
				var abusers []*harness.Process
				clock := await.Since(func() { abusers = slowHellos(t, place, service) })
				beside := requireChosen(t, place, service)
				t.Logf("median %v alone, %v beside slow clients", alone, beside)
				if tt.timeout == 0 {
					if open := openOf(t, abusers); open != 200 {
						t.Errorf("without a timeout %d clients are open, want 200", open)
					}
				} else {
					harness.Eventually(t, patience, "slow clients are closed", func() bool { requireChosen(t, place, service); return openOf(t, abusers) == 0 })
					clock.NoSooner(t, tt.timeout, "the end of slow clients")
				}
				for _, a := range abusers {
					a.Kill(t)
				}
				requireIdleAsBefore(t, b, before)
				requireChosen(t, place, service)
			})
		})
	}
}

// TestHesitantClientsComeToEnvoysChain: who does not begin in time is closed, or goes on as plain text.
func TestHesitantClientsComeToEnvoysChain(t *testing.T) {
	suite.Long(t, suite.Clock)
	place := harness.SameHost(t)
	_, greeting := greeters(t, place, "one", "rest")
	origin := place.Origin(t, "http")
	config := func() (c harness.Config, services map[string]netip.AddrPort) {
		c.Listeners, services = listenersOf(hesitantSets())
		c.Clusters = []harness.Cluster{
			{Name: "http", Endpoints: []netip.AddrPort{origin.Address}}, {Name: "one", Endpoints: greeting[:1]}, {Name: "rest", Endpoints: greeting[1:]},
		}
		return c, services
	}
	c, services := config()
	harness.StartEnvoy(t, c, place)
	want := decisions(t, place, services, 2*openingTime, hesitant())
	harness.OnlyXLB(t, "that is what is compared with")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		c, services := config()
		b := harness.Start(t, mode, c, place)
		requireDecisions(t, decisions(t, place, services, 2*openingTime, hesitant()), want, nil)
		if mode.Fast && b.Metric(t, "xlb_verdicts_total", `verdict="request_leased"`) == 0 {
			t.Error("no request was served in the kernel")
		}
	})
}
