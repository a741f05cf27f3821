// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"

	"github.com/xlb-project/xlb/bench/figures"
)

// leastHeader names the columns of the least case's tables; leastCells fills them. Requests under way are mean ± deviation (maximum).
var leastHeader = []string{
	"peer", "req/s", "p50 us (min-max)", "p99 us (min-max)", "p99.9 us (min-max)", "p99 x envoy", "p99 x sidecars",
	"under way at the slow endpoint", "at the busiest other", "to the slow endpoint, %", "CPU us/req of lab", "fast", "errors",
}

func leastCells(r figures.Row) []string {
	l := r.Least
	underWay := func(mean, deviation, most *figures.Spread) string {
		return fmt.Sprintf("%s ± %s (%s)", median(mean, "%.2f"), median(deviation, "%.2f"), median(most, "%.0f"))
	}
	return []string{
		r.Peer, median(r.Rate, "%.0f"), withRange(r.P50), withRange(r.P99), withRange(l.P999),
		median(l.P99ToEnvoy, "%.2f"), median(l.P99ToSidecars, "%.2f"),
		underWay(l.SlowMean, l.SlowDeviation, l.SlowMax), underWay(l.FastMean, l.FastDeviation, l.FastMax),
		median(l.SlowShare, "%.1f"), median(r.CPU.Lab, "%.1f"), median(r.FastShare, "%.3f"), errorsOf(r),
	}
}
