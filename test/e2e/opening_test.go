// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
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
