// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/xlb-project/xlb/bench/record"
)

// Report is all that a run has to say; its JSON is results.json.
type Report struct {
	Started time.Time    `json:"started"`
	Machine fmt.Stringer `json:"machine,omitempty"`
	Options Options      `json:"options"`
	Targets []verdict    `json:"targets"`
	Turns   []turn       `json:"turns"`
}

// Failures counts turns without figures.
func (r Report) Failures() (n int) {
	for _, t := range r.Turns {
		if t.Failure != "" {
			n++
		}
	}
	return n
}

// group is the turns that are compared: one balancer and one load.
type group struct {
	balancer string
	load     load
	turns    []turn
	// failed are paths with turns that have no figures, or errors.
	failed map[Path]bool
}

func (r Report) groups() []group {
	var all []group
	for _, t := range r.Turns {
		n := len(all)
		if n == 0 || all[n-1].balancer != t.Balancer || all[n-1].load.String() != t.String() {
			all = append(all, group{balancer: t.Balancer, load: t.load, failed: map[Path]bool{}})
			n++
		}
		if t.Failure != "" || t.Errors > 0 {
			all[n-1].failed[t.Path] = true
		}
		if t.Failure == "" {
			all[n-1].turns = append(all[n-1].turns, t)
		}
	}
	return all
}

func (g group) String() string { return fmt.Sprintf("%s: %s", g.balancer, g.load) }

// figure is one of a turn's.
type figure func(turn) float64

func rate(t turn) float64     { return t.Rate }
func goodput(t turn) float64  { return t.Goodput }
func p50(t turn) float64      { return t.P50 }
func p99(t turn) float64      { return t.P99 }
func connect(t turn) float64  { return t.Setup }
func balanced(t turn) float64 { return t.Balanced }
func cpu(t turn) float64      { return t.ClientCPU + t.ServerCPU }
func errorsOf(t turn) float64 { return float64(t.Errors) }

// of is a path's figure over the rounds; false when there is none.
func (g group) of(path Path, f figure) (record.Spread, bool) {
	var values []float64
	for _, t := range g.turns {
		if t.Path == path {
			values = append(values, f(t))
		}
	}
	return record.SpreadOf(values)
}

// pairs are what both makes of two paths' figures, each of one round.
func (g group) pairs(path, to Path, f figure, both func(a, b float64) float64) (record.Spread, bool) {
	var values []float64
	for _, t := range g.turns {
		other := slices.IndexFunc(g.turns, func(o turn) bool { return o.Path == to && o.Round == t.Round })
		if t.Path == path && other >= 0 && f(g.turns[other]) > 0 {
			values = append(values, both(f(t), f(g.turns[other])))
		}
	}
	return record.SpreadOf(values)
}

// ratio is the spread of the ratios of two paths' figures, each within one round.
func (g group) ratio(path, to Path, f figure) (record.Spread, bool) {
	return g.pairs(path, to, f, func(a, b float64) float64 { return a / b })
}

// more is how much more a path's figure is, in the same way.
func (g group) more(path, than Path, f figure) (record.Spread, bool) {
	return g.pairs(path, than, f, func(a, b float64) float64 { return a - b })
}

// column of a table.
type column struct {
	name string
	cell func(group, Path) (text string, ok bool)
}

func plain(name, format string, f figure, scale float64) column {
	return column{name, func(g group, p Path) (string, bool) {
		s, ok := g.of(p, f)
		return fmt.Sprintf(format, s.Median*scale), ok
	}}
}

func ratioTo(to Path, name string, f figure) column {
	return column{name + " x " + string(to), func(g group, p Path) (string, bool) {
		s, ok := g.ratio(p, to, f)
		return fmt.Sprintf("%.3f (%.3f-%.3f)", s.Median, s.Min, s.Max), ok
	}}
}

// columns are those that say something about a load.
func (l load) columns() []column {
	ends := []column{plain("CPU us/req", "%.1f", cpu, 1), plain("packets at the balancer per connection", "%.2f", balanced, 1), plain("errors", "%.0f", errorsOf, 1)}
	if l.Name == setup {
		over := column{"us over balancer", func(g group, p Path) (string, bool) {
			s, ok := g.more(p, Balancer, connect)
			return fmt.Sprintf("%+.1f (%+.1f to %+.1f)", s.Median, s.Min, s.Max), ok
		}}
		return append([]column{plain("connect us", "%.1f", connect, 1), ratioTo(Direct, "connect", connect), ratioTo(Balancer, "connect", connect), over}, ends...)
	}
	start := []column{plain("req/s", "%.1f", rate, 1), plain("MB/s", "%.1f", goodput, 1e-6), plain("p50 us", "%.1f", p50, 1), plain("p99 us", "%.1f", p99, 1)}
	if l.isLatency() {
		start = append(start, ratioTo(Direct, "p50", p50), ratioTo(Balancer, "p50", p50))
	} else {
		start = append(start, ratioTo(Direct, "goodput", goodput), ratioTo(Balancer, "goodput", goodput), ratioTo(Direct, "p50", p50))
	}
	return append(start, ends...)
}

// Write writes tables in Markdown.
func (r Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results of %s\n\n", r.Started.UTC().Format("2006-01-02 15:04 MST"))
	b.WriteString("Medians over the rounds; ratios are medians of the ratios of each round, the least and the greatest in brackets.\n")
	b.WriteString("What the columns mean and how the figures came about: [METHOD.md](../../METHOD.md).\n")
	for _, g := range r.groups() {
		fmt.Fprintf(&b, "\n## %s\n\n", g)
		g.writeTable(&b)
	}
	b.WriteString("\n## Targets\n\n")
	for _, v := range r.Targets {
		fmt.Fprintf(&b, "- %s\n", v)
	}
	fmt.Fprintf(&b, "\n## Machine and settings\n\n- %d rounds of %s each after %s of warm-up\n", r.Options.Rounds, r.Options.Duration, r.Options.Warmup)
	if r.Machine != nil {
		b.WriteString(r.Machine.String())
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (g group) writeTable(b *strings.Builder) {
	columns := g.load.columns()
	b.WriteString("| path |")
	for _, c := range columns {
		fmt.Fprintf(b, " %s |", c.name)
	}
	b.WriteString("\n" + strings.Repeat("| --- ", len(columns)+1) + "|\n")
	for _, path := range g.load.allPaths() {
		fmt.Fprintf(b, "| %s |", path)
		for _, c := range columns {
			text, ok := c.cell(g, path)
			if !ok {
				text = "-"
			}
			fmt.Fprintf(b, " %s |", text)
		}
		b.WriteString("\n")
	}
}

// Save writes results.json, results.md and a plot of each case into dir.
func (r Report) Save(dir string) error {
	errs := []error{record.Save(dir, r, r.Write)}
	for name, groups := range r.cases() {
		errs = append(errs, record.WriteFile(filepath.Join(dir, "heels-"+strings.ToLower(name)+".svg"), func(w io.Writer) error { return plot(w, groups) }))
	}
	return errors.Join(errs...)
}
