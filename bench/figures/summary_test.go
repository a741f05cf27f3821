// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
)

func TestSpreadIsMedianMinMax(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		want   *Spread
	}{
		{"none", nil, nil},
		{"one", []float64{3}, &Spread{Median: 3, Min: 3, Max: 3}},
		{"odd, unsorted", []float64{9, 1, 2}, &Spread{Median: 2, Min: 1, Max: 9}},
		{"even", []float64{4, 1, 2, 10}, &Spread{Median: 3, Min: 1, Max: 10}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, spreadOf(tt.values)); diff != "" {
				t.Errorf("spreadOf(%v) (-want +got):\n%s", tt.values, diff)
			}
		})
	}
}

// measured makes a measurement on the same host with 32 kept-alive connections.
func measured(peer string, round int, rate, p50 float64) Measurement {
	return Measurement{
		Topology: lab.SameHost, Load: cases.KeptAlive(32), Peer: peer, Round: round, Rate: rate, P50: p50,
		P99: p50 * p50, // so that its ratios are not those of p50
	}
}

func rowFor(t *testing.T, rows []Row, peer string) Row {
	t.Helper()
	for _, r := range rows {
		if r.Peer == peer {
			return r
		}
	}
	t.Fatalf("no row for %s", peer)
	return Row{}
}

func TestRatiosAreBuiltWithinRounds(t *testing.T) {
	// The machine is twice as fast in round 2: the ratio of medians would be
	// 1.0, the median of the ratios is 2.
	rows := Summarise([]Measurement{
		measured(peers.Direct, 1, 100, 50), measured(peers.XLB, 1, 200, 25),
		measured(peers.Direct, 2, 200, 20), measured(peers.XLB, 2, 400, 10),
		measured(peers.Direct, 3, 400, 10), measured(peers.XLB, 3, 200, 20),
	})
	got := rowFor(t, rows, peers.XLB)
	if diff := cmp.Diff(&Spread{Median: 2, Min: 0.5, Max: 2}, got.RateToDirect); diff != "" {
		t.Errorf("rate to direct (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&Spread{Median: 0.5, Min: 0.5, Max: 2}, got.P50ToDirect); diff != "" {
		t.Errorf("p50 to direct (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&Spread{Median: 0.25, Min: 0.25, Max: 4}, got.P99ToDirect); diff != "" {
		t.Errorf("p99 to direct (-want +got):\n%s", diff)
	}
	if got.RateToEnvoy != nil {
		t.Errorf("rate to envoy = %v without Envoy, want nil", got.RateToEnvoy)
	}
}

func TestFailedTurnsHaveNoFigures(t *testing.T) {
	failed := measured(peers.XLB, 2, 0, 0)
	failed.Failure = "ended"
	got := rowFor(t, Summarise([]Measurement{
		measured(peers.Direct, 1, 100, 50), measured(peers.XLB, 1, 120, 40),
		measured(peers.Direct, 2, 100, 50), failed,
	}), peers.XLB)
	if got.Failures != 1 {
		t.Errorf("failures = %d, want 1", got.Failures)
	}
	if diff := cmp.Diff(&Spread{Median: 120, Min: 120, Max: 120}, got.Rate); diff != "" {
		t.Errorf("rate (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&Spread{Median: 1.2, Min: 1.2, Max: 1.2}, got.RateToDirect); diff != "" {
		t.Errorf("rate to direct (-want +got):\n%s", diff)
	}
}

func TestLoadsAndTopologiesDoNotMix(t *testing.T) {
	other := measured(peers.Direct, 1, 1000, 5)
	other.Connections = 8
	cross := measured(peers.Direct, 1, 1, 500)
	cross.Topology = lab.CrossHost
	rows := Summarise([]Measurement{other, cross, measured(peers.Direct, 1, 100, 50), measured(peers.XLB, 1, 150, 40)})
	if len(rows) != 4 {
		t.Fatalf("%d rows, want 4", len(rows))
	}
	if diff := cmp.Diff(&Spread{Median: 1.5, Min: 1.5, Max: 1.5}, rowFor(t, rows, peers.XLB).RateToDirect); diff != "" {
		t.Errorf("rate to direct (-want +got):\n%s", diff)
	}
}

func TestTimePerRequestIsTheDifference(t *testing.T) {
	before := lab.CPUTime{Machine: time.Second, Clients: time.Second, Balancer: time.Second}
	after := lab.CPUTime{
		Machine: 2 * time.Second, Clients: 1500 * time.Millisecond, Endpoints: time.Second, Balancer: time.Second,
	}
	want := PerRequest{Machine: 100, Clients: 50, Endpoints: 100}
	if diff := cmp.Diff(want, PerRequestOf(after, before, 10000)); diff != "" {
		t.Errorf("perRequestOf() (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(PerRequest{}, PerRequestOf(after, before, 0)); diff != "" {
		t.Errorf("perRequestOf() of no requests (-want +got):\n%s", diff)
	}
}
