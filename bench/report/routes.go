// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/figures"
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/plot"
)

// writeRoutes writes what a request costs by the size of the table, a table for each topology.
func (r Report) writeRoutes(b *strings.Builder) {
	for _, topology := range r.Options.Topologies() {
		rows := routeRows(r.Summary, topology)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n## Cost by number of routes, %s host\n\n", topology)
		b.WriteString("The ratios are to the same peer's smallest table in the same round.\n\n")
		columns := []string{"routes", "in the table", "peer", "p50 us (min-max)", "p50 x fewest", "CPU us/req of lab", "CPU x fewest", "fast"}
		markdownRow(b, columns)
		markdownRow(b, slices.Repeat([]string{"---"}, len(columns)))
		for _, row := range rows {
			markdownRow(b, []string{
				row.RouteKind, fmt.Sprint(row.Routes), row.Peer, withRange(row.P50), median(row.P50ToFewest, "%.2f"),
				median(row.CPU.Lab, "%.1f"), median(row.CPUToFewest, "%.2f"), median(row.FastShare, "%.3f"),
			})
		}
	}
}

func routeRows(rows []figures.Row, topology lab.Topology) []figures.Row {
	var own []figures.Row
	for _, r := range rows {
		if r.Case == cases.Routes && r.Topology == topology && r.P50 != nil {
			own = append(own, r)
		}
	}
	return own
}

// curvesOf are how each peer's median latency grows with the tables of each kind.
func curvesOf(rows []figures.Row, topology lab.Topology) []plot.Curve {
	var curves []plot.Curve
	for _, r := range routeRows(rows, topology) {
		name := fmt.Sprintf("%s, %s", r.Peer, r.RouteKind)
		i := slices.IndexFunc(curves, func(c plot.Curve) bool { return c.Name == name })
		if i < 0 {
			i = len(curves)
			curves = append(curves, plot.Curve{Name: name, Colour: curveColours[r.RouteKind], Whole: r.Peer == peers.XLB})
		}
		curves[i].Points = append(curves[i].Points, plot.Place{X: float64(r.Routes), Y: r.P50.Median})
	}
	return curves
}
