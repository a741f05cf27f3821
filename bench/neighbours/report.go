// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/xlb-project/xlb/bench/record"
)

// most is how many times the latency of the watched client alone its p99 may be beside another pod.
const most = 1.2

// Report is all that a run has to say; its JSON is results.json.
type Report struct {
	Started time.Time    `json:"started"`
	Machine fmt.Stringer `json:"machine,omitempty"`
	Options Options      `json:"options"`
	// Limit says what limits the hostile pod's processor time; empty: nothing does.
	Limit  string  `json:"limit,omitempty"`
	Trials []Trial `json:"trials"`
}

// ratioText is of ratios over the rounds.
func ratioText(s record.Spread) string { return s.Text(2, true) }

// spreadOf is zero where there are no values.
func spreadOf(values []float64) record.Spread {
	s, _ := record.SpreadOf(values)
	return s
}

func p50(t *Trial) float64 { return float64(t.P50) }
func p99(t *Trial) float64 { return float64(t.P99) }

// series are trials of which each round has one.
type series struct {
	path, kind string
	direct     bool
}

// trials that have figures.
func (r *Report) trials(s series) (some []*Trial) {
	for i := range r.Trials {
		if t := &r.Trials[i]; t.Path == s.path && t.Kind == s.kind && t.Direct == s.direct && t.Failure == "" {
			some = append(some, t)
		}
	}
	return some
}

// figure over the rounds.
func (r *Report) figure(s series, of func(*Trial) float64) record.Spread {
	var values []float64
	for _, t := range r.trials(s) {
		values = append(values, of(t))
	}
	return spreadOf(values)
}

// ratio to the same round's trial of another series, over the rounds that have both.
func (r *Report) ratio(s, to series, of func(*Trial) float64) record.Spread {
	var values []float64
	for _, t := range r.trials(s) {
		for _, base := range r.trials(to) {
			if base.Cycle == t.Cycle && of(base) > 0 {
				values = append(values, of(t)/of(base))
			}
		}
	}
	return spreadOf(values)
}

// errors are the requests of the watched client that failed.
func (r *Report) errors(s series) (n int64) {
	for _, t := range r.trials(s) {
		n += t.Errors
	}
	return n
}

// Write writes tables in Markdown.
func (r Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results of %s\n\n", r.Started.UTC().Format("2006-01-02 15:04 MST"))
	b.WriteString("What the columns mean and how the figures came about: [METHOD.md](../../METHOD.md).\n\n")
	fmt.Fprintf(&b, "%d rounds of %s; %g requests a second over %d connections. ", r.Options.Rounds, r.Options.Duration, r.Options.Rate, r.Options.Clients)
	if r.Limit == "" {
		b.WriteString("Nothing limits the hostile pod's processor time.\n")
	} else {
		fmt.Fprintf(&b, "The hostile pod, its server included, has %d %% of a processor (%s).\n", r.Options.Limit, r.Limit)
	}
	for _, path := range r.Options.paths() {
		r.writePath(&b, path)
	}
	if r.Machine != nil {
		fmt.Fprintf(&b, "\n## Machine\n\n%s", r.Machine)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) writePath(b *strings.Builder, path string) {
	fmt.Fprintf(b, "\n## Path: %s\n\n", pathNames[path])
	b.WriteString("| beside | p50 us | p99 us | p99 of all | p50 x alone | p99 x alone | p99 x direct | failed | % of a processor: XLB | hostile | others | TCP MB | its connections | refused | answers | crashes |\n" +
		strings.Repeat("| --- ", 16) + "|\n")
	for _, trial := range r.Options.cycle() {
		r.writeRow(b, series{path, trial.Kind, trial.Direct})
	}
}

func (r *Report) writeRow(b *strings.Builder, s series) {
	trials := r.trials(s)
	if len(trials) == 0 {
		return
	}
	name, direct, alone := s.kind, "-", series{path: s.path, kind: Alone}
	if s.direct {
		name += ", direct"
	} else if past := (series{s.path, s.kind, true}); len(r.trials(past)) > 0 {
		direct = ratioText(r.ratio(s, past, p99))
	}
	abuse := trials[len(trials)-1].Abuse
	fmt.Fprintf(b, "| %s | %.0f | %.0f | %.0f | %s | %s | %s | %d | %.0f | %.0f | %.0f | %.0f | %d | %d | %d | %d |\n", name, r.figure(s, p50).Median, r.figure(s, p99).Median,
		r.figure(s, func(t *Trial) float64 { return float64(t.All99) }).Median, ratioText(r.ratio(s, alone, p50)), ratioText(r.ratio(s, alone, p99)), direct, r.errors(s),
		100*r.figure(s, func(t *Trial) float64 { return t.Balancer }).Median, 100*r.figure(s, func(t *Trial) float64 { return t.Hostile }).Median,
		100*r.figure(s, func(t *Trial) float64 { return t.Others }).Median,
		r.figure(s, func(t *Trial) float64 { return float64(t.TCPMemory) / 1e6 }).Median, abuse.Open, abuse.Refused, abuse.Answers, abuse.Crashes)
}

// Save writes results.json and results.md into dir.
func (r Report) Save(dir string) error { return record.Save(dir, r, r.Write) }

// Failures are the trials without figures.
func (r Report) Failures() (n int) {
	for i := range r.Trials {
		if r.Trials[i].Failure != "" {
			n++
		}
	}
	return n
}

// Missed names what the watched client suffers from: requests that fail, or a p99 of more than 1.2 times what it is alone. Burn, and what is direct, is
// the machine's own.
func (r Report) Missed() (missed []string) {
	for _, path := range r.Options.paths() {
		for _, kind := range r.Options.kinds() {
			missed = append(missed, r.missed(series{path: path, kind: kind})...)
		}
	}
	return missed
}

func (r *Report) missed(s series) (missed []string) {
	name := pathNames[s.path] + ", " + s.kind
	if n := r.errors(s); n > 0 {
		missed = append(missed, fmt.Sprintf("%s: %d requests of the watched client failed", name, n))
	}
	alone := series{path: s.path, kind: Alone}
	to := r.ratio(s, alone, p99)
	if s.kind == Burn || to.Median <= most {
		return missed
	}
	return append(missed, fmt.Sprintf("%s: p99 is %s times that of the watched client alone, which may be %g; beside burn %s, direct %s",
		name, ratioText(to), most, ratioText(r.ratio(series{path: s.path, kind: Burn}, alone, p99)), ratioText(r.ratio(series{s.path, s.kind, true}, alone, p99))))
}
