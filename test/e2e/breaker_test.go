// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

const overflowText = "upstream connect error or disconnect/reset before headers. reset reason: overflow"

// TestCircuitBreakersBoundWhatIsInFlight has four clients ask at once, and an endpoint that answers when two kinds of answers are clear: what
// the breakers refuse is refused while the others are in flight, on whichever path.
func TestCircuitBreakersBoundWhatIsInFlight(t *testing.T) {
	type answers struct{ Served, Refused int }
	tests := []struct {
		name       string
		thresholds map[string]any
		priority   string
		want       answers
		// alike: Envoy, whose threads each have a connection to begin with, does the same.
		alike bool
	}{
		{"max_requests", map[string]any{"max_requests": 1}, "DEFAULT", answers{1, 3}, true},
		{"max_connections and max_pending_requests", map[string]any{"max_connections": 1, "max_pending_requests": 1}, "DEFAULT", answers{2, 2}, false},
		{"priority", map[string]any{"priority": "HIGH", "max_requests": 2}, "HIGH", answers{2, 2}, true},
		{"of another priority", map[string]any{"max_requests": 1}, "HIGH", answers{4, 0}, true},
		{"none", map[string]any{"max_requests": uint32(4294967295), "max_connections": uint32(4294967295)}, "DEFAULT", answers{4, 0}, true},
	}
	place := harness.SameHost(t)
	play := func(t *testing.T, start func(harness.Config), thresholds map[string]any, priority string) answers {
		t.Helper()
		s, service := newScript(), harness.Service()
		config := harness.OneCluster(service, s.serve(t))
		config.Clusters[0].Fields = map[string]any{"circuit_breakers": map[string]any{"thresholds": []any{thresholds}}}
		route := map[string]any{"match": map[string]any{"prefix": "/"}, "route": map[string]any{"cluster": "origins", "priority": priority}}
		config.Listeners[0].Table = map[string]any{"name": "all", "virtual_hosts": []any{
			map[string]any{"name": "all", "domains": []any{"*"}, "routes": []any{route}},
		}}
		start(config)
		return fourAtOnce(t, place, s, service)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, mode := range harness.Modes(t) {
				t.Run(mode.Name, func(t *testing.T) {
					got := play(t, func(c harness.Config) { harness.Start(t, mode, c, place) }, tt.thresholds, tt.priority)
					if diff := cmp.Diff(tt.want, got); diff != "" {
						t.Errorf("(-want +got):\n%s", diff)
					}
				})
			}
			if !tt.alike || harness.Envoy() {
				return
			}
			got := play(t, func(c harness.Config) { harness.StartEnvoy(t, c, place) }, tt.thresholds, tt.priority)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Envoy (-want +got):\n%s", diff)
			}
		})
	}
}

// fourAtOnce counts the answers to four clients. Those that are served are held until nobody is refused any more.
func fourAtOnce(t *testing.T, place *harness.Place, s *script, service netip.AddrPort) (got struct{ Served, Refused int }) {
	t.Helper()
	spec := programs.ExchangeSpec{Address: service.String(), Timeout: 30 * time.Second, Steps: getAndReceive("/?do=hold")}
	var clients []*harness.Process
	for range 4 {
		clients = append(clients, place.Program(t, programs.ExchangeProgram, spec))
	}
	finished := func() (n int) {
		for _, c := range clients {
			if !c.Alive() {
				n++
			}
		}
		return n
	}
	quiet := time.Now()
	for seen := -1; time.Since(quiet) < time.Second; time.Sleep(20 * time.Millisecond) {
		attempts, _ := s.seen("/")
		if now := finished() + attempts; now != seen {
			seen, quiet = now, time.Now()
		}
	}
	s.Release()
	for _, c := range clients {
		var report programs.ExchangeReport
		c.Next(t, &report)
		switch {
		case len(report.Replies) != 1:
			t.Errorf("no answer: %s", report.Error)
		case report.Replies[0].Status == 200:
			got.Served++
		case report.Replies[0].Body == overflowText:
			got.Refused++
		default:
			t.Errorf("answer %d %q", report.Replies[0].Status, report.Replies[0].Body)
		}
	}
	return got
}
