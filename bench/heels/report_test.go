// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"bytes"
	"strings"
	"testing"
)

func sample() Report {
	l := load{Name: rr, Connections: 100, Answer: 1000}
	var r Report
	for round, direct := range []float64{100, 200, 400} {
		for path, share := range map[Path]float64{Direct: 1, Balancer: 0.5, HEELS: 0.98} {
			r.Turns = append(r.Turns, turn{Balancer: "IPIP", load: l, Path: path, Round: round + 1, Goodput: direct * share})
		}
	}
	r.Turns = append(r.Turns, turn{Balancer: "IPIP", load: l, Path: HEELS, Round: 4, Failure: "no answer"})
	return r
}

func TestRatiosAreOfNeighboursInARound(t *testing.T) {
	groups := sample().groups()
	if len(groups) != 1 {
		t.Fatalf("%d groups, want 1", len(groups))
	}
	if have, ok := groups[0].ratio(HEELS, Direct, goodput); !ok || have < 0.979 || have > 0.981 {
		t.Errorf("ratio %v, %t, want 0.98", have, ok)
	}
	if _, ok := groups[0].ratio(SYN, Direct, goodput); ok {
		t.Error("a path that was not measured has a ratio")
	}
}

func TestTargetsAreJudgedByTheirLoad(t *testing.T) {
	g := sample().groups()[0]
	if lines := g.judge(); len(lines) != 1 || !strings.HasPrefix(lines[0], "met: goodput") {
		t.Errorf("targets %q, want that of the goodput, met", lines)
	}
	g.load.OneCPU = true
	g.load.Connections = 1
	if lines := g.judge(); len(lines) != 0 {
		t.Errorf("targets %q of a load that has none", lines)
	}
}

func TestReportIsWritten(t *testing.T) {
	r := sample()
	if r.Failures() != 1 {
		t.Errorf("%d failures, want 1", r.Failures())
	}
	var table, plot bytes.Buffer
	if err := r.Write(&table); err != nil || !strings.Contains(table.String(), "| heels |") {
		t.Errorf("%v:\n%s", err, table.String())
	}
	if err := r.plot(&plot); err != nil || !strings.HasSuffix(plot.String(), "</svg>\n") {
		t.Errorf("%v:\n%s", err, plot.String())
	}
}
