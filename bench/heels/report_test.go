// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func sample() Report {
	l := load{Name: rr, Connections: 100, Answer: 1000, Processors: All}
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
	if have, ok := groups[0].ratio(HEELS, Direct, goodput); !ok || have.Median < 0.979 || have.Median > 0.981 {
		t.Errorf("ratio %v, %t, want 0.98", have, ok)
	}
	if _, ok := groups[0].ratio(SYN, Direct, goodput); ok {
		t.Error("a path that was not measured has a ratio")
	}
}

func TestTargetsAreJudgedByTheirLoad(t *testing.T) {
	r := sample()
	r.Turns = r.Turns[:len(r.Turns)-1]
	if v := r.judge(); len(v) != 1 || !v[0].Met || !strings.Contains(v[0].String(), "met: IPIP: RR") {
		t.Errorf("targets %v, want that of the goodput, met", v)
	}
	for i := range r.Turns {
		r.Turns[i].Connections = 1
	}
	if v := r.judge(); len(v) != 0 {
		t.Errorf("targets %v of a load that has none", v)
	}
}

func TestTurnsWithErrorsMeetNoTarget(t *testing.T) {
	r := sample()
	if v := r.judge(); len(v) != 1 || v[0].Met || !strings.HasPrefix(v[0].String(), "missed") {
		t.Errorf("targets %v with a failed turn, want one that is missed", v)
	}
	r.Turns = r.Turns[len(r.Turns)-1:]
	if v := r.judge(); len(v) != 1 || v[0].Met || !strings.HasPrefix(v[0].String(), "open") {
		t.Errorf("targets %v without figures, want one that is open", v)
	}
}

func TestEveryTargetHasALoad(t *testing.T) {
	for _, target := range targets {
		if !slices.ContainsFunc(loads(), target.isOf) {
			t.Errorf("nothing is measured for %+v", target)
		}
	}
	for _, name := range Cases() {
		if len(chosen([]string{strings.ToLower(name)})) == 0 {
			t.Errorf("the case %s has no load", name)
		}
	}
}

func TestUnknownNamesAreRefused(t *testing.T) {
	for _, o := range []Options{{}, {Rounds: 1, Duration: 1, Cases: []string{"RRR"}}, {Rounds: 1, Duration: 1, Balancers: []string{"nginx"}}} {
		if o.validate() == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

func TestAPathThatWasNotTakenIsAFailure(t *testing.T) {
	for _, tt := range []struct {
		path     Path
		balanced float64
		ok       bool
	}{{Direct, 0, true}, {Direct, 1, false}, {Balancer, 6, true}, {Balancer, 1, false}, {HEELS, 1, true}, {HEELS, 6, false}, {SYN, 6, true}} {
		m := turn{Path: tt.path, Balanced: tt.balanced, Rate: 1}
		if err := m.check(); (err == nil) != tt.ok {
			t.Errorf("%s with %v packets at the balancer: %v", tt.path, tt.balanced, err)
		}
	}
}

func TestReportIsWritten(t *testing.T) {
	r := sample()
	if r.Failures() != 1 {
		t.Errorf("%d failures, want 1", r.Failures())
	}
	dir := t.TempDir()
	if err := r.Save(dir); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"results.md": "| heels |", "results.json": `"balancer": "IPIP"`, "heels-rr.svg": ">0.980</text>",
	} {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v: no %q in\n%s", file, err, want, text)
		}
	}
}
