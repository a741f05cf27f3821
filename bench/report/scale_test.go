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
)

func TestRatiosAreToThePeersOwnLeastStep(t *testing.T) {
	at := func(connections, round int, peer string, rate, p99 float64) figures.Measurement {
		return figures.Measurement{Topology: lab.SameHost, Load: cases.Load{Case: cases.Connections, Connections: connections}, Peer: peer, Round: round, Rate: rate, P99: p99}
	}
	rows := figures.Summarise([]figures.Measurement{
		at(4, 1, peers.XLB, 400, 20), at(1, 1, peers.XLB, 100, 10), at(1, 1, peers.Envoy, 50, 40), at(4, 1, peers.Envoy, 60, 80),
		at(4, 2, peers.XLB, 800, 20), at(1, 2, peers.XLB, 100, 10),
	})
	first := rows[0]
	if first.Scale.RateToLeast.Median != 6 || first.Scale.P99ToLeast.Max != 2 || first.Scale.P99ToEnvoy.Median != 0.25 {
		t.Errorf("rate to least %v, p99 to least %v, p99 to Envoy %v", first.Scale.RateToLeast, first.Scale.P99ToLeast, first.Scale.P99ToEnvoy)
	}
	r := Report{Summary: rows}
	if n := len(r.tables()); n != 1 {
		t.Errorf("%d tables, want one of all steps", n)
	}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "x envoy") {
		t.Errorf("text %q, %v", text.String(), err)
	}
}

func TestDensityIsSummedUp(t *testing.T) {
	at := func(round int, d figures.Density) figures.Measurement {
		return figures.Measurement{Topology: lab.SameHost, Load: cases.Load{Case: cases.Density, Connections: 3, Scaled: cases.Scaled{Services: 3}}, Peer: peers.XLB, Round: round, Density: &d}
	}
	rows := figures.Summarise([]figures.Measurement{
		at(1, figures.Density{Reached: 3, ReadySeconds: 1, Balancer: lab.Memory{PSS: 10e6, Maps: 2e6}}),
		at(2, figures.Density{Reached: 3, ReadySeconds: 3, Balancer: lab.Memory{PSS: 20e6, Maps: 2e6}}),
	})
	d := rows[0].Scale.Density
	if d.PSS.Median != 15 || d.Ready.Max != 3 || d.Maps.Min != 2 {
		t.Errorf("PSS %v, ready %v, maps %v", d.PSS, d.Ready, d.Maps)
	}
	if cells, names := scaleCells(rows[0]), scaleHeader(rows[0]); len(cells) != len(names) {
		t.Errorf("%d cells below %d names", len(cells), len(names))
	}
}
