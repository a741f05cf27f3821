// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"fmt"

	"github.com/xlb-project/xlb/bench/record"
)

// target is what a ratio should be, from the HEELS paper.
type target struct {
	load        string
	connections int
	answer      uint32 // 0: any
	processors  Processors
	to          Path
	what        string
	figure      figure
	bound       float64
	// atMost: the bound is the greatest allowed ratio, not the least.
	atMost bool
}

var targets = []target{
	{rr, 100, 0, All, Direct, "goodput", goodput, 0.97, false},
	{rr, 100, 0, One, Direct, "goodput", goodput, 0.95, false},
	{rr, 1, 0, Apart, Direct, "p50", p50, 1.05, true},
	{crr, 1, 1000, Apart, Balancer, "p50", p50, 1.05, true},
	{crr, 1, 100_000, Apart, Direct, "p50", p50, 1.10, true},
}

func (t target) isOf(l load) bool {
	return t.load == l.Name && t.connections == l.Connections && t.processors == l.Processors && (t.answer == 0 || t.answer == l.Answer)
}

func (t target) holds(ratio float64) bool {
	if t.atMost {
		return ratio <= t.bound
	}
	return ratio >= t.bound
}

// verdict is a target of one group with what was measured.
type verdict struct {
	Target string `json:"target"`
	// Measured is the ratio; nil when no round has both figures.
	Measured *record.Spread `json:"measured"`
	// Lossy: a turn of one of the two has lost requests, or has no figures.
	Lossy bool `json:"lossy,omitempty"`
	Met   bool `json:"met"`
}

func (v verdict) String() string {
	if v.Measured == nil {
		return fmt.Sprintf("open: %s: not measured", v.Target)
	}
	outcome, why := "met", ""
	if !v.Met {
		outcome = "missed"
	}
	if v.Lossy {
		why = "; a turn lost requests"
	}
	return fmt.Sprintf("%s: %s: measured %.3f (%.3f-%.3f)%s", outcome, v.Target, v.Measured.Median, v.Measured.Min, v.Measured.Max, why)
}

// judge compares each group with its targets. A figure taken while requests were lost proves nothing, and meets none.
func (r Report) judge() (verdicts []verdict) {
	for _, g := range r.groups() {
		for _, t := range targets {
			if t.isOf(g.load) {
				verdicts = append(verdicts, g.judge(t))
			}
		}
	}
	return verdicts
}

func (g group) judge(t target) verdict {
	word := "at least"
	if t.atMost {
		word = "at most"
	}
	v := verdict{Target: fmt.Sprintf("%s: %s, heels / %s %s %.2f", g, t.what, t.to, word, t.bound)}
	have, ok := g.ratio(HEELS, t.to, t.figure)
	if !ok {
		return v
	}
	v.Measured = &have
	v.Lossy = g.failed[HEELS] || g.failed[t.to]
	v.Met = t.holds(have.Median) && !v.Lossy
	return v
}

// Met reports whether all targets of what was measured are.
func (r Report) Met() bool {
	for _, v := range r.Targets {
		if !v.Met {
			return false
		}
	}
	return true
}
