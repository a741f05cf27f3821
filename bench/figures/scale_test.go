// SPDX-License-Identifier: Apache-2.0

package figures

import (
	"testing"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
)

func TestPriceIsTheDifferenceWithinARound(t *testing.T) {
	at := func(round int, peer string, cpu float64) Measurement {
		m := Measurement{Topology: lab.SameHost, Load: cases.Load{Case: cases.Rate, Connections: 8, Scaled: cases.Scaled{Share: 10}}, Peer: peer, Round: round}
		m.CPU = PerRequest{Machine: cpu + 5, Clients: cpu}
		m.Programs = []ProgramCost{{Name: "send", NSPerRun: cpu}}
		return m
	}
	rows := Summarise([]Measurement{at(1, peers.Direct, 10), at(1, peers.XLB, 12), at(2, peers.Direct, 30), at(2, peers.XLB, 36), at(3, peers.XLB, 99)})
	s := rows[1].Scale
	if s.OverDirect.Min != 2 || s.OverDirect.Max != 6 || s.Kernel.Median != 5 || s.Programs[0].NSPerRun.Median != 36 {
		t.Errorf("over direct %v, beside %v, programs %v", s.OverDirect, s.Kernel, s.Programs)
	}
}
