// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/figures"
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/plot"
)

// asked makes a measurement of a table of routes.
func asked(peer string, routes, round int, p50, cpu float64) figures.Measurement {
	return figures.Measurement{
		Topology: lab.SameHost, Load: cases.ThroughRoutes(8, cases.ByPath, routes), Peer: peer, Round: round, Rate: 1, P50: p50, CPU: figures.PerRequest{Clients: cpu},
	}
}

func TestRatiosAreToTheSmallestTable(t *testing.T) {
	rows := figures.Summarise([]figures.Measurement{
		asked(peers.XLB, 1, 1, 10, 5), asked(peers.XLB, 100, 1, 11, 10), asked(peers.Envoy, 1, 1, 50, 20), asked(peers.Envoy, 100, 1, 100, 80),
		asked(peers.XLB, 1, 2, 20, 5), asked(peers.XLB, 100, 2, 22, 10), asked(peers.Envoy, 1, 2, 50, 20), asked(peers.Envoy, 100, 2, 100, 80),
	})
	for _, tt := range []struct {
		peer     string
		routes   int
		p50, cpu float64
	}{{peers.XLB, 1, 1, 1}, {peers.XLB, 100, 1.1, 2}, {peers.Envoy, 1, 1, 1}, {peers.Envoy, 100, 2, 4}} {
		for _, r := range rows {
			if r.Peer == tt.peer && r.Routes == tt.routes && (r.P50ToFewest.Median != tt.p50 || r.CPUToFewest.Median != tt.cpu) {
				t.Errorf("%s, %d routes: got %v and %v, want %v and %v", tt.peer, tt.routes, r.P50ToFewest.Median, r.CPUToFewest.Median, tt.p50, tt.cpu)
			}
		}
	}
	var svg bytes.Buffer
	if err := plot.Curves(&svg, "title", curvesOf(rows, lab.SameHost)); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(svg.String(), "<polyline"); got != 2 {
		t.Errorf("curves: got %d, want 2", got)
	}
}
