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
	"github.com/xlb-project/xlb/bench/queue"
)

// stationed is a turn in which the slow station got so many of a hundred requests.
func stationed(peer string, round int, p99 float64, slow int64) figures.Measurement {
	m := figures.Measurement{Topology: lab.SameHost, Load: cases.LeastLoaded(cases.OfTwo, cases.LeastRate), Peer: peer, Round: round, Rate: cases.LeastRate, P50: 1000, P99: p99, P999: 2 * p99}
	for range cases.Stations - 1 {
		m.Stations = append(m.Stations, queue.Account{Requests: (100 - slow) / (cases.Stations - 1), Mean: 0.5, Deviation: 0.25, Max: 3})
	}
	m.Stations = append(m.Stations, queue.Account{Requests: slow, Mean: 4, Deviation: 2, Max: 9})
	return m
}

func TestLeastTableShowsWhatIsUnderWay(t *testing.T) {
	measurements := []figures.Measurement{
		stationed(peers.XLB, 1, 20_000, 10), stationed(peers.Envoy, 1, 25_000, 10), stationed(peers.Sidecars, 1, 80_000, 25),
		stationed(peers.XLB, 2, 22_000, 10), stationed(peers.Envoy, 2, 22_000, 10), stationed(peers.Sidecars, 2, 44_000, 25),
	}
	r := Report{Options: exampleOptions(), Summary: figures.Summarise(measurements)}
	r.Targets = judge(r.Summary, projectTargets)
	var text, markdown bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if err := r.writeMarkdown(&markdown); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{text.String(), markdown.String()} {
		for _, want := range []string{"21000 (20000-22000)", "42000 (40000-44000)", "0.90", "0.38", "4.00 ± 2.00 (9)", "0.50 ± 0.25 (3)", "10.0", "25.0", "under way at the slow endpoint"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is missing in:\n%s", want, out)
			}
		}
	}
	met := 0
	for _, v := range r.Targets {
		if v.Met {
			met++
		}
	}
	if met != 2 {
		t.Errorf("%d targets met, want those of the one load: %v", met, r.Targets)
	}
}
