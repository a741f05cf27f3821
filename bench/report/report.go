// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"time"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/figures"
	"github.com/xlb-project/xlb/bench/machine"
)

// Report is all that a run has to say; its JSON is results.json.
type Report struct {
	Started time.Time       `json:"started"`
	Machine machine.Machine `json:"machine"`
	Options cases.Options   `json:"options"`
	// Skipped are peers left out, with the reason.
	Skipped map[string]string `json:"skipped,omitempty"`
	// Parts are the runs that a merged report is of.
	Parts        []Part                `json:"parts,omitempty"`
	Summary      []figures.Row         `json:"summary"`
	Targets      []Verdict             `json:"targets"`
	Measurements []figures.Measurement `json:"measurements"`
}

// Conclude sums the measurements up and judges them by the project's targets.
func (r *Report) Conclude() {
	r.Summary = figures.Summarise(r.Measurements)
	r.Targets = judge(r.Summary, projectTargets)
}

// Met says whether all targets are.
func (r Report) Met() bool {
	return !slices.ContainsFunc(r.Targets, func(v Verdict) bool { return !v.Met })
}

// Failures counts the turns without figures.
func (r Report) Failures() int {
	n := 0
	for _, row := range r.Summary {
		n += row.Failures
	}
	return n
}
