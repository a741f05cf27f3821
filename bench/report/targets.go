// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/figures"
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
)

// target is a bound on a ratio of XLB's figures.
type target struct {
	topology lab.Topology
	load     cases.Load
	what     string
	ratio    func(figures.Row) *figures.Spread
	// bound is the least allowed ratio, or the most when atMost is set.
	bound  float64
	atMost bool
}

func rateToDirect(r figures.Row) *figures.Spread { return r.RateToDirect }

func rateToEnvoy(r figures.Row) *figures.Spread { return r.RateToEnvoy }

func rateToEnvoy2(r figures.Row) *figures.Spread { return r.RateToEnvoy2 }

func p50ToDirect(r figures.Row) *figures.Spread { return r.P50ToDirect }

func p99ToDirect(r figures.Row) *figures.Spread { return r.P99ToDirect }

func meanToDirect(r figures.Row) *figures.Spread { return r.MeanToDirect }

func meanToEnvoy2(r figures.Row) *figures.Spread { return r.MeanToEnvoy2 }

func p99ToEnvoy(r figures.Row) *figures.Spread { return r.Least.P99ToEnvoy }

func p99ToSidecars(r figures.Row) *figures.Spread { return r.Least.P99ToSidecars }

func costToEnvoy(r figures.Row) *figures.Spread { return r.Scale.OverDirectToEnvoy }

// projectTargets are what XLB is out for, beside nobody in the way (direct), a sidecar (Envoy) and two (Envoy, two hops). The figures of the applications
// are the XLB paper's gains, section 6.
var projectTargets = slices.Concat(
	keptTargets(),
	[]target{
		{lab.SameHost, cases.ShortLived(1), "connections/s, xlb / direct", rateToDirect, 0.8, false},
		{lab.SameHost, cases.ShortLived(32), "connections/s, xlb / direct", rateToDirect, 0.8, false},
		{lab.SameHost, cases.ShortLived(1), "connections/s, xlb / envoy", rateToEnvoy, 3, false},
		{lab.SameHost, cases.ShortLived(32), "connections/s, xlb / envoy", rateToEnvoy, 3, false},
	},
	sizeTargets(),
	[]target{
		{lab.SameHost, cases.Chained(50, 9), "mean latency, xlb / direct", meanToDirect, 0.9, true},
		{lab.SameHost, cases.Chained(50, 9), "requests/s, xlb / envoy2", rateToEnvoy2, 15, false},
		{lab.SameHost, cases.AtShare(32, 10), "processor time over direct, xlb / envoy", costToEnvoy, 0.1, true},
		{lab.SameHost, cases.AtShare(32, 30), "processor time over direct, xlb / envoy", costToEnvoy, 0.1, true},
		{lab.SameHost, cases.Beside(5, 1000, 8), "p99, xlb / direct", p99ToDirect, 1.1, true},
		{lab.SameHost, cases.Beside(5, 1000, 64), "p99, xlb / direct", p99ToDirect, 1.1, true},
		{lab.SameHost, cases.Load{Case: cases.Bookstore, Connections: 8}, "pages/s, xlb / envoy2", rateToEnvoy2, 1.43, false},
		{lab.SameHost, cases.Load{Case: cases.Bookstore, Connections: 8}, "mean latency, xlb / envoy2", meanToEnvoy2, 0.67, true},
		{lab.SameHost, cases.Load{Case: cases.Bank, Connections: 8}, "pages/s, xlb / envoy2", rateToEnvoy2, 1.1, false},
		{lab.SameHost, cases.Load{Case: cases.Bank, Connections: 8}, "mean latency, xlb / envoy2", meanToEnvoy2, 0.89, true},
		{lab.SameHost, cases.LeastLoaded(cases.OfTwo, cases.LeastRate), "p99, xlb / envoy", p99ToEnvoy, 1, true},
		{lab.SameHost, cases.LeastLoaded(cases.OfTwo, cases.LeastRate), "p99, xlb / envoy-sidecars", p99ToSidecars, 1, true},
		{lab.SameHost, cases.LeastLoaded(cases.OfAll, cases.LeastRate), "p99, xlb / envoy", p99ToEnvoy, 1, true},
		{lab.SameHost, cases.LeastLoaded(cases.OfAll, cases.LeastRate), "p99, xlb / envoy-sidecars", p99ToSidecars, 1, true},
	},
)

// keptTargets are those of kept-alive connections.
func keptTargets() []target {
	var targets []target
	for _, n := range []int{1, 8, 32, 128} {
		targets = append(targets,
			target{lab.SameHost, cases.KeptAlive(n), "p50, xlb / direct", p50ToDirect, 0.8, true},
			target{lab.SameHost, cases.KeptAlive(n), "p99, xlb / direct", p99ToDirect, 1, true})
	}
	for _, n := range []int{32, 128} {
		targets = append(targets,
			target{lab.SameHost, cases.KeptAlive(n), "requests/s, xlb / direct", rateToDirect, 1.3, false},
			target{lab.SameHost, cases.KeptAlive(n), "requests/s, xlb / envoy", rateToEnvoy, 5, false},
			target{lab.SameHost, cases.KeptAlive(n), "requests/s, xlb / envoy2", rateToEnvoy2, 10, false},
			target{lab.CrossHost, cases.KeptAlive(n), "requests/s, xlb / direct", rateToDirect, 0.7, false})
	}
	return targets
}

// sizeTargets are those of bodies.
func sizeTargets() []target {
	var targets []target
	for _, topology := range []lab.Topology{lab.SameHost, lab.CrossHost} {
		for _, way := range []string{cases.WayResponse, cases.WayRequest} {
			for _, size := range []int{1 << 10, 16 << 10, 64 << 10} {
				targets = append(targets, target{topology, cases.Sized(32, way, size), "requests/s, xlb / direct", rateToDirect, 1, false})
			}
			targets = append(targets, target{topology, cases.Sized(32, way, 1<<20), "requests/s, xlb / direct", rateToDirect, 0.95, false})
		}
	}
	return targets
}

// Verdict is a target with what was measured.
type Verdict struct {
	Target string `json:"target"`
	// Measured is the median ratio; nil when the run did not measure it.
	Measured *float64 `json:"measured"`
	Met      bool     `json:"met"`
}

func (v Verdict) String() string {
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

// judge compares the rows with the targets of their cases. A figure taken while XLB lost
// requests proves nothing, so those rows meet no target.
func judge(rows []figures.Row, targets []target) []Verdict {
	verdicts := make([]Verdict, 0, len(targets))
	for _, t := range targets {
		if !slices.ContainsFunc(rows, func(r figures.Row) bool { return r.Case == t.load.Case }) {
			continue
		}
		v := Verdict{Target: t.String()}
		i := slices.IndexFunc(rows, func(r figures.Row) bool {
			return r.Peer == peers.XLB && r.Topology == t.topology && r.Load == t.load
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
