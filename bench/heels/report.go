// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Report is all that a run has to say; its JSON is results.json.
type Report struct {
	Started time.Time `json:"started"`
	Options Options   `json:"options"`
	Turns   []turn    `json:"turns"`
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
}

func (r Report) groups() []group {
	var all []group
	for _, t := range r.Turns {
		n := len(all)
		if n == 0 || all[n-1].balancer != t.Balancer || all[n-1].load.String() != t.String() {
			all = append(all, group{balancer: t.Balancer, load: t.load})
			n++
		}
		if t.Failure == "" {
			all[n-1].turns = append(all[n-1].turns, t)
		}
	}
	return all
}

// figure is one of a turn's.
type figure func(turn) float64

func rate(t turn) float64     { return t.Rate }
func goodput(t turn) float64  { return t.Goodput }
func p50(t turn) float64      { return t.P50 }
func p99(t turn) float64      { return t.P99 }
func connect(t turn) float64  { return t.Setup }
func balanced(t turn) float64 { return t.Balanced }
func cpu(t turn) float64      { return t.ClientCPU + t.ServerCPU }

// median of a path's figure over the rounds; false when there is none.
func (g group) median(path Path, f figure) (float64, bool) {
	var values []float64
	for _, t := range g.turns {
		if t.Path == path {
			values = append(values, f(t))
		}
	}
	return medianOf(values)
}

// ratio is the median of the ratios of two paths' figures, each within one round.
func (g group) ratio(path, to Path, f figure) (float64, bool) {
	var values []float64
	for _, t := range g.turns {
		other := slices.IndexFunc(g.turns, func(o turn) bool { return o.Path == to && o.Round == t.Round })
		if t.Path == path && other >= 0 && f(g.turns[other]) > 0 {
			values = append(values, f(t)/f(g.turns[other]))
		}
	}
	return medianOf(values)
}

func medianOf(values []float64) (float64, bool) {
	if len(values) == 0 {
		return 0, false
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[middle-1] + sorted[middle]) / 2, true
	}
	return sorted[middle], true
}

// target is what a ratio should be, from the HEELS paper.
type target struct {
	load        string
	connections int
	answer      uint32 // 0: any
	oneCPU      bool
	to          Path
	what        string
	figure      figure
	least       bool
	limit       float64
}

var targets = []target{
	{rr, 100, 0, false, Direct, "goodput", goodput, true, 0.97},
	{rr, 100, 0, true, Direct, "goodput", goodput, true, 0.95},
	{rr, 1, 0, false, Direct, "p50", p50, false, 1.05},
	{crr, 1, 1000, false, Balancer, "p50", p50, false, 1.05},
	{crr, 1, 100_000, false, Direct, "p50", p50, false, 1.10},
}

func (t target) isOf(l load) bool {
	return t.load == l.Name && t.connections == l.Connections && t.oneCPU == l.OneCPU && (t.answer == 0 || t.answer == l.Answer)
}

// judge returns a line for each target of a group that could be measured.
func (g group) judge() (lines []string) {
	for _, t := range targets {
		have, ok := g.ratio(HEELS, t.to, t.figure)
		if !t.isOf(g.load) || !ok {
			continue
		}
		verdict, bound := "missed", "at most"
		if t.least {
			bound = "at least"
		}
		if t.least && have >= t.limit || !t.least && have <= t.limit {
			verdict = "met"
		}
		lines = append(lines, fmt.Sprintf("%s: %s of HEELS is %.3f x %s, wanted is %s %.2f", verdict, t.what, have, t.to, bound, t.limit))
	}
	return lines
}

// Write writes tables in Markdown.
func (r Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results of %s\n\n%d rounds of %s each after %s of warm-up. Medians over the rounds; ratios are medians of the ratios of each round.\n",
		r.Started.UTC().Format("2006-01-02 15:04 MST"), r.Options.Rounds, r.Options.Duration, r.Options.Warmup)
	b.WriteString("What the columns mean and how the figures came about: [METHOD.md](../../METHOD.md).\n")
	for _, g := range r.groups() {
		fmt.Fprintf(&b, "\n## %s: %s\n\n", g.balancer, g.load)
		b.WriteString("| path | req/s | MB/s | p50 us | p99 us | connect us | CPU us/req | goodput x direct | p50 x direct | p50 x balancer | connect x balancer | packets at the balancer per connection |\n")
		b.WriteString(strings.Repeat("| --- ", 12) + "|\n")
		for _, path := range g.load.allPaths() {
			g.writeRow(&b, path)
		}
		for _, line := range g.judge() {
			fmt.Fprintf(&b, "\n- %s\n", line)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (g group) writeRow(b *strings.Builder, path Path) {
	cell := func(format string, value float64, ok bool) string {
		if !ok {
			return "-"
		}
		return fmt.Sprintf(format, value)
	}
	one := func(format string, f figure, scale float64) string {
		value, ok := g.median(path, f)
		return cell(format, value*scale, ok)
	}
	to := func(other Path, f figure) string {
		value, ok := g.ratio(path, other, f)
		return cell("%.3f", value, ok)
	}
	fmt.Fprintf(b, "| %s |\n", strings.Join([]string{
		string(path), one("%.0f", rate, 1), one("%.1f", goodput, 1e-6), one("%.1f", p50, 1), one("%.1f", p99, 1), one("%.1f", connect, 1), one("%.1f", cpu, 1),
		to(Direct, goodput), to(Direct, p50), to(Balancer, p50), to(Balancer, connect), one("%.2f", balanced, 1),
	}, " | "))
}

// Save writes results.json, results.md and a plot into dir.
func (r Report) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	writeJSON := func(w io.Writer) error {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	return errors.Join(
		writeFile(filepath.Join(dir, "results.json"), writeJSON),
		writeFile(filepath.Join(dir, "results.md"), r.Write),
		writeFile(filepath.Join(dir, "heels.svg"), r.plot))
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// Measures of the plot in pixels.
const (
	barHeight, barGap, labels, unit, plotWidth = 14, 4, 200, 180, 720
)

// plot draws for each load what the paths take to direct connections: goodput of many connections, latency of one.
func (r Report) plot(w io.Writer) error {
	var b strings.Builder
	y := 20
	for _, g := range r.groups() {
		f, what := figure(p50), "p50"
		switch {
		case g.load.Connections > 1:
			f, what = goodput, "goodput"
		case g.load.Name == setup:
			f, what = connect, "connect"
		}
		fmt.Fprintf(&b, "<text x=\"10\" y=\"%d\" font-weight=\"bold\">%s: %s, %s x direct</text>\n", y, g.balancer, g.load, what)
		y += barGap
		for _, path := range g.load.allPaths() {
			value, _ := g.ratio(path, Direct, f)
			fmt.Fprintf(&b, "<text x=\"10\" y=\"%d\">%s</text><rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/><text x=\"%.1f\" y=\"%d\">%.2f</text>\n",
				y+barHeight-2, path, labels, y, value*unit, barHeight, colours[path], labels+value*unit+6, y+barHeight-2, value)
			y += barHeight + barGap
		}
		y += 24
	}
	_, err := fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n"+
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n%s</svg>\n", plotWidth, y, b.String())
	return err
}

// colours by path; the product stands out.
var colours = map[Path]string{Direct: "#57606a", Balancer: "#afb8c1", SYN: "#8cb4f0", SYNACK: "#5a95f0", HEELS: "#1f6feb"}
