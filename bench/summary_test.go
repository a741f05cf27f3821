// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/bench/lab"
)

func TestSpreadIsMedianMinMax(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values []float64
		want   *spread
	}{
		{"none", nil, nil},
		{"one", []float64{3}, &spread{3, 3, 3}},
		{"odd, unsorted", []float64{9, 1, 2}, &spread{2, 1, 9}},
		{"even", []float64{4, 1, 2, 10}, &spread{3, 1, 10}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, spreadOf(tt.values)); diff != "" {
				t.Errorf("spreadOf(%v) (-want +got):\n%s", tt.values, diff)
			}
		})
	}
}

// measured makes a measurement on the same host with 32 kept-alive connections.
func measured(peer string, round int, rate, p50 float64) measurement {
	return measurement{
		Topology: lab.SameHost, load: keepalive(32), Peer: peer, Round: round, Rate: rate, P50: p50,
		P99: p50 * p50, // so that its ratios are not those of p50
	}
}

func rowFor(t *testing.T, rows []row, peer string) row {
	t.Helper()
	for _, r := range rows {
		if r.Peer == peer {
			return r
		}
	}
	t.Fatalf("no row for %s", peer)
	return row{}
}

func TestRatiosAreBuiltWithinRounds(t *testing.T) {
	// The machine is twice as fast in round 2: the ratio of medians would be
	// 1.0, the median of the ratios is 2.
	rows := summarise([]measurement{
		measured(peerDirect, 1, 100, 50), measured(peerXLB, 1, 200, 25),
		measured(peerDirect, 2, 200, 20), measured(peerXLB, 2, 400, 10),
		measured(peerDirect, 3, 400, 10), measured(peerXLB, 3, 200, 20),
	})
	got := rowFor(t, rows, peerXLB)
	if diff := cmp.Diff(&spread{2, 0.5, 2}, got.RateToDirect); diff != "" {
		t.Errorf("rate to direct (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&spread{0.5, 0.5, 2}, got.P50ToDirect); diff != "" {
		t.Errorf("p50 to direct (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&spread{0.25, 0.25, 4}, got.P99ToDirect); diff != "" {
		t.Errorf("p99 to direct (-want +got):\n%s", diff)
	}
	if got.RateToEnvoy != nil {
		t.Errorf("rate to envoy = %v without Envoy, want nil", got.RateToEnvoy)
	}
}

func TestFailedTurnsHaveNoFigures(t *testing.T) {
	failed := measured(peerXLB, 2, 0, 0)
	failed.Failure = "ended"
	got := rowFor(t, summarise([]measurement{
		measured(peerDirect, 1, 100, 50), measured(peerXLB, 1, 120, 40),
		measured(peerDirect, 2, 100, 50), failed,
	}), peerXLB)
	if got.Failures != 1 {
		t.Errorf("failures = %d, want 1", got.Failures)
	}
	if diff := cmp.Diff(&spread{120, 120, 120}, got.Rate); diff != "" {
		t.Errorf("rate (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&spread{1.2, 1.2, 1.2}, got.RateToDirect); diff != "" {
		t.Errorf("rate to direct (-want +got):\n%s", diff)
	}
}

func TestLoadsAndTopologiesDoNotMix(t *testing.T) {
	other := measured(peerDirect, 1, 1000, 5)
	other.Connections = 8
	cross := measured(peerDirect, 1, 1, 500)
	cross.Topology = lab.CrossHost
	rows := summarise([]measurement{other, cross, measured(peerDirect, 1, 100, 50), measured(peerXLB, 1, 150, 40)})
	if len(rows) != 4 {
		t.Fatalf("%d rows, want 4", len(rows))
	}
	if diff := cmp.Diff(&spread{1.5, 1.5, 1.5}, rowFor(t, rows, peerXLB).RateToDirect); diff != "" {
		t.Errorf("rate to direct (-want +got):\n%s", diff)
	}
}

func TestTargetsNeedProof(t *testing.T) {
	targets := []target{
		{lab.SameHost, keepalive(32), "requests/s", rateToDirect, 1.2, false},
		{lab.SameHost, keepalive(32), "p50", p50ToDirect, 0.9, true},
		{lab.CrossHost, keepalive(32), "requests/s", rateToDirect, 0.5, false},
	}
	withErrors := measured(peerXLB, 1, 130, 40)
	withErrors.Errors = 1
	for _, tt := range []struct {
		name string
		xlb  measurement
		want []bool
	}{
		{"both met", measured(peerXLB, 1, 120, 45), []bool{true, true, false}},
		{"too slow", measured(peerXLB, 1, 119, 45), []bool{false, true, false}},
		{"too late", measured(peerXLB, 1, 120, 46), []bool{true, false, false}},
		{"fast but with errors", withErrors, []bool{false, false, false}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			verdicts := judge(summarise([]measurement{measured(peerDirect, 1, 100, 50), tt.xlb}), targets)
			var got []bool
			for _, v := range verdicts {
				got = append(got, v.Met)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("met (-want +got):\n%s", diff)
			}
			if verdicts[2].Measured != nil {
				t.Errorf("cross host: measured = %v without a measurement", *verdicts[2].Measured)
			}
		})
	}
}

func TestBusyTimeLeavesOutIdleAndStolenTime(t *testing.T) {
	got, err := busyTime("cpu  100 20 30 9999 888 4 6 777 55 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n")
	if err != nil || got != 1600*time.Millisecond {
		t.Errorf("busyTime() = %v, %v, want 1.6s", got, err)
	}
	for _, bad := range []string{"", "intr 5\n", "cpu  1 2 3\n", "cpu  a b c d e f g h\n"} {
		if got, err := busyTime(bad); err == nil {
			t.Errorf("busyTime(%q) = %v, want an error", bad, got)
		}
	}
}

func TestTimePerRequestIsTheDifference(t *testing.T) {
	before := cpuTime{Machine: time.Second, Clients: time.Second, Balancer: time.Second}
	after := cpuTime{
		Machine: 2 * time.Second, Clients: 1500 * time.Millisecond, Endpoints: time.Second, Balancer: time.Second,
	}
	want := perRequest{Machine: 100, Clients: 50, Endpoints: 100}
	if diff := cmp.Diff(want, after.per(before, 10000)); diff != "" {
		t.Errorf("per() (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(perRequest{}, after.per(before, 0)); diff != "" {
		t.Errorf("per() of no requests (-want +got):\n%s", diff)
	}
}

func TestFastShareCountsOnlyTheMeasurement(t *testing.T) {
	before := parseServed("xlb_requests_total{path=\"fast\"} 100\nxlb_requests_total{path=\"slow\"} 50\n")
	after := parseServed("# TYPE xlb_requests_total counter\n" +
		"xlb_requests_total{cluster=\"a\",path=\"fast\"} 150\n" +
		"xlb_requests_total{cluster=\"b\",path=\"fast\"} 1.9e+02\n" +
		"xlb_requests_total{cluster=\"a\",path=\"slow\"} 110\n" +
		"xlb_handovers_total{reason=\"pool_empty\"} 7\n")
	got := after.shareSince(before)
	if got == nil || *got != 0.8 {
		t.Errorf("fast share = %v, want 0.8", got)
	}
	if got := after.shareSince(after); got != nil {
		t.Errorf("fast share of no requests = %v, want nil", *got)
	}
}
