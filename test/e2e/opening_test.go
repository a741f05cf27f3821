// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
)

// openingTime is the listener_filters_timeout of the tests.
const openingTime = 500 * time.Millisecond

// hesitant are clients that do not show at once what they are, by how long they wait before they send.
func hesitant() map[time.Duration][]opening {
	request := []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	return map[time.Duration][]opening{
		0: {
			{"nothing", nil}, {"half a request line", []byte("GET / HT")}, {"half a ClientHello", []byte("\x16\x03\x01\x02\x00\x01\x00")},
			{"half a preface of HTTP/2", []byte("PRI * HT")}, {"a request", request}, {"text", []byte("\x00text\n")},
		},
		2 * openingTime: {{"a request too late", request}, {"text too late", []byte("\x00text\n")}},
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
	place := harness.SameHost(t)
	_, greeting := greeters(t, place, "one", "rest")
	origin := place.Origin(t, "http")
	sets, clients := hesitantSets(), hesitant()
	var names []string
	for name := range sets {
		names = append(names, name)
	}
	slices.Sort(names)
	config := func() (c harness.Config, services []netip.AddrPort) {
		for _, name := range names {
			service := harness.Service()
			services, c.Listeners = append(services, service), append(c.Listeners, sets[name](service))
		}
		c.Clusters = []harness.Cluster{
			{Name: "http", Endpoints: []netip.AddrPort{origin.Address}}, {Name: "one", Endpoints: greeting[:1]}, {Name: "rest", Endpoints: greeting[1:]},
		}
		return c, services
	}
	ask := func(services []netip.AddrPort) map[string]string {
		found := map[string]string{}
		for i, name := range names {
			for delay, openings := range clients {
				for j, by := range decisionsAfter(t, place, services[i], delay, 2*openingTime, openings) {
					found[name+": "+openings[j].name] = by
				}
			}
		}
		return found
	}
	c, services := config()
	harness.StartEnvoy(t, c, place)
	want := ask(services)
	harness.OnlyXLB(t, "that is what is compared with")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		c, services := config()
		b := harness.Start(t, mode, c, place)
		for what, by := range ask(services) {
			t.Logf("%s: %s", what, by)
			if by != want[what] {
				t.Errorf("%s: %s, and Envoy %s", what, by, want[what])
			}
		}
		if mode.Fast && b.Metric(t, "xlb_verdicts_total", `verdict="request_leased"`) == 0 {
			t.Error("no request was served in the kernel")
		}
	})
}
