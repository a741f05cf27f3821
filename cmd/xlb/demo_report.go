// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/plural"
)

// Names of the peers in the report.
const (
	peerDirect = "direct"
	peerXLB    = "xlb"
	peerEnvoy  = "envoy"
)

// demoReport is what "xlb demo" prints.
type demoReport struct {
	Service     netip.AddrPort `json:"service"`
	Requests    int            `json:"requests"`
	Connections int            `json:"connections"`
	// Endpoints in the order of the configuration.
	Endpoints []demoShare `json:"endpoints"`
	// Fast and Slow are the requests by the path that served them, FastShare is from
	// 0 to 1.
	Fast      uint64  `json:"fast"`
	Slow      uint64  `json:"slow"`
	FastShare float64 `json:"fast_share"`
	// Latencies of one connection, measured in turns.
	Latencies []demoLatency `json:"latencies"`
}

// demoShare is what one endpoint answered.
type demoShare struct {
	Name     string         `json:"name"`
	Address  netip.AddrPort `json:"address"`
	Requests int            `json:"requests"`
}

// demoLatency is one peer's latency; ToDirect is the ratio of the medians.
type demoLatency struct {
	Peer     string  `json:"peer"`
	P50us    float64 `json:"p50_us"`
	P99us    float64 `json:"p99_us"`
	ToDirect float64 `json:"p50_to_direct"`
}

func newDemoReport(service netip.AddrPort, endpoints []endpoint, counted, timed *clientReport) *demoReport {
	r := &demoReport{Service: service, Connections: counted.Connections}
	for _, e := range endpoints {
		n := counted.Served[e.Name]
		r.Endpoints = append(r.Endpoints, demoShare{Name: e.Name, Address: e.Address, Requests: n})
		r.Requests += n
	}
	// The direct connection is measured first.
	for _, l := range timed.Latencies {
		r.Latencies = append(r.Latencies, demoLatency{
			Peer: l.Peer, P50us: microseconds(l.P50), P99us: microseconds(l.P99),
			ToDirect: microseconds(l.P50) / microseconds(timed.Latencies[0].P50),
		})
	}
	return r
}

// countPaths takes the paths from the daemon's counters before and after the requests.
func (r *demoReport) countPaths(before, after *metrics.Snapshot) {
	r.Fast = after.Requests.Fast - before.Requests.Fast
	r.Slow = after.Requests.Slow - before.Requests.Slow
	if total := r.Fast + r.Slow; total > 0 {
		r.FastShare = float64(r.Fast) / float64(total)
	}
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func (r *demoReport) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%d requests over %s to http://%s/, all answered 200\n\n",
		r.Requests, oneOr(r.Connections, "kept-alive connection"), r.Service)
	var rows [][]string
	for _, e := range r.Endpoints {
		rows = append(rows, []string{"  " + e.Name, e.Address.String(), fmt.Sprint(e.Requests)})
	}
	if err := writeTable(w, []string{"  ENDPOINT", "ADDRESS", "REQUESTS"}, rows); err != nil {
		return err
	}

	fmt.Fprintf(w, "\nserved by the kernel: %.1f %% (%d fast, %d slow)\n\n", 100*r.FastShare, r.Fast, r.Slow)
	rows = nil
	for _, l := range r.Latencies {
		rows = append(rows, []string{
			"  " + l.Peer, fmt.Sprintf("%.1f us", l.P50us), fmt.Sprintf("%.1f us", l.P99us), fmt.Sprintf("%.2f x", l.ToDirect),
		})
	}
	if err := writeTable(w, []string{"  LATENCY", "P50", "P99", "P50 TO DIRECT"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nEverything the demo started is stopped and removed.")
	return nil
}

// oneOr writes one in letters.
func oneOr(n int, thing string) string {
	if n == 1 {
		return "one " + thing
	}
	return plural.Of(n, thing)
}
