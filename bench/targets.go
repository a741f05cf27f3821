// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/bench/lab"
)

// target is a bound on a ratio of XLB's figures.
type target struct {
	topology lab.Topology
	load     load
	what     string
	ratio    func(row) *spread
	// bound is the least allowed ratio, or the most when atMost is set.
	bound  float64
	atMost bool
}

func rateToDirect(r row) *spread { return r.RateToDirect }
func rateToEnvoy(r row) *spread  { return r.RateToEnvoy }
func p50ToDirect(r row) *spread  { return r.P50ToDirect }

func p99ToEnvoy(r row) *spread    { return r.Least.P99ToEnvoy }
func p99ToSidecars(r row) *spread { return r.Least.P99ToSidecars }

// projectTargets are what XLB promises; README.md repeats them.
var projectTargets = []target{
	{lab.SameHost, keepalive(32), "requests/s, xlb / direct", rateToDirect, 1.2, false},
	{lab.SameHost, keepalive(32), "p50, xlb / direct", p50ToDirect, 0.9, true},
	{lab.SameHost, keepalive(32), "requests/s, xlb / envoy", rateToEnvoy, 4, false},
	{lab.CrossHost, keepalive(32), "requests/s, xlb / direct", rateToDirect, 0.5, false},
	{lab.CrossHost, keepalive(32), "requests/s, xlb / envoy", rateToEnvoy, 2, false},
	{lab.SameHost, short(1), "connections/s, xlb / direct", rateToDirect, 0.8, false},
	{lab.SameHost, short(32), "connections/s, xlb / direct", rateToDirect, 0.8, false},
	{lab.SameHost, leastLoaded(choiceOfTwo, leastRate), "p99, xlb / envoy", p99ToEnvoy, 1, true},
	{lab.SameHost, leastLoaded(choiceOfTwo, leastRate), "p99, xlb / envoy-sidecars", p99ToSidecars, 1, true},
	{lab.SameHost, leastLoaded(choiceOfAll, leastRate), "p99, xlb / envoy", p99ToEnvoy, 1, true},
	{lab.SameHost, leastLoaded(choiceOfAll, leastRate), "p99, xlb / envoy-sidecars", p99ToSidecars, 1, true},
}

// verdict is a target with what was measured.
type verdict struct {
	Target string `json:"target"`
	// Measured is the median ratio; nil when the run did not measure it.
	Measured *float64 `json:"measured"`
	Met      bool     `json:"met"`
}

func (v verdict) String() string {
	word, measured := "missed", "not measured"
	switch {
	case v.Met:
		word = "met"
	case v.Measured == nil:
		word = "open"
	}
	if v.Measured != nil {
		measured = fmt.Sprintf("%.2f", *v.Measured)
	}
	return fmt.Sprintf("%-6s  %s: measured %s", word, v.Target, measured)
}

// judge compares the rows with the targets. A figure taken while XLB lost
// requests proves nothing, so those rows meet no target.
func judge(rows []row, targets []target) []verdict {
	verdicts := make([]verdict, 0, len(targets))
	for _, t := range targets {
		v := verdict{Target: t.String()}
		i := slices.IndexFunc(rows, func(r row) bool {
			return r.Peer == peerXLB && r.Topology == t.topology && r.load == t.load
		})
		if i >= 0 {
			if ratio := t.ratio(rows[i]); ratio != nil {
				v.Measured = &ratio.Median
				v.Met = t.holds(ratio.Median) && rows[i].Errors == 0 && rows[i].Failures == 0
			}
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}

func (t target) holds(ratio float64) bool {
	if t.atMost {
		return ratio <= t.bound
	}
	return ratio >= t.bound
}

func (t target) String() string {
	word := "at least"
	if t.atMost {
		word = "at most"
	}
	return fmt.Sprintf("%s host, %s: %s %s %g", t.topology, t.load, t.what, word, t.bound)
}
