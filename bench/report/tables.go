// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/xlb-project/xlb/bench/figures"
)

// header names the columns of a table; cells fills them.
var header = []string{
	"peer", "req/s (min-max)", "p50 us (min-max)", "p99 us (min-max)",
	"x direct", "p50 x direct", "p99 x direct", "x spread", "x envoy", "x envoy2", "CPU us/req", "of lab", "of balancer", "fast", "errors",
}

func cells(r figures.Row) []string {
	return []string{
		r.Peer, withRange(r.Rate), withRange(r.P50), withRange(r.P99),
		median(r.RateToDirect, "%.2f"), median(r.P50ToDirect, "%.2f"), median(r.P99ToDirect, "%.2f"),
		median(r.RateToSpread, "%.2f"), median(r.RateToEnvoy, "%.2f"), median(r.RateToEnvoy2, "%.2f"),
		median(r.CPU.Machine, "%.1f"), median(r.CPU.Lab, "%.1f"), median(r.CPU.Balancer, "%.1f"), median(r.FastShare, "%.3f"), errorsOf(r),
	}
}

func errorsOf(r figures.Row) string {
	if r.Failures > 0 {
		return fmt.Sprintf("%d, %d failed turns", r.Errors, r.Failures)
	}
	return fmt.Sprint(r.Errors)
}

func median(s *figures.Spread, format string) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf(format, s.Median)
}

func withRange(s *figures.Spread) string {
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f (%.0f-%.0f)", s.Median, s.Min, s.Max)
}

// table is the rows that stand together: one topology and load.
type table struct {
	title string
	rows  []figures.Row
}

// header and cells are those of its case.
func (t table) header() []string {
	if t.rows[0].Least != nil {
		return leastHeader
	}
	if t.rows[0].Scale != nil {
		return scaleHeader(t.rows[0])
	}
	return header
}

func (t table) cells(r figures.Row) []string {
	if r.Least != nil {
		return leastCells(r)
	}
	if r.Scale != nil {
		return scaleCells(r)
	}
	return cells(r)
}

func (r Report) tables() []table {
	var tables []table
	for _, row := range r.Summary {
		title := fmt.Sprintf("%s host, %s", row.Topology, row.Title())
		if n := len(tables); n == 0 || tables[n-1].title != title {
			tables = append(tables, table{title: title})
		}
		last := &tables[len(tables)-1]
		last.rows = append(last.rows, row)
	}
	return tables
}

// WriteText writes the tables for a terminal.
func (r Report) WriteText(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, t := range r.tables() {
		fmt.Fprintf(out, "%s\n%s\n", t.title, strings.Join(t.header(), "\t"))
		for _, row := range t.rows {
			fmt.Fprintln(out, strings.Join(t.cells(row), "\t"))
		}
		fmt.Fprintln(out)
	}
	for _, v := range r.Targets {
		fmt.Fprintln(out, v)
	}
	return out.Flush()
}

// writeMarkdown writes the tables and the machine's description.
func (r Report) writeMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results of %s\n\n", r.Started.UTC().Format("2006-01-02 15:04 MST"))
	b.WriteString("Medians over the rounds, minimum and maximum in brackets; ratios are medians of the ratios of each round.\n")
	b.WriteString("What the columns mean and how the figures came about: [METHOD.md](../../METHOD.md).\n")
	for _, t := range r.tables() {
		fmt.Fprintf(&b, "\n## %s\n\n", capitalised(t.title))
		markdownRow(&b, t.header())
		markdownRow(&b, slices.Repeat([]string{"---"}, len(t.header())))
		for _, row := range t.rows {
			markdownRow(&b, t.cells(row))
		}
	}
	r.writeRoutes(&b)
	r.writePrograms(&b)
	b.WriteString("\n## Targets\n\n")
	for _, v := range r.Targets {
		fmt.Fprintf(&b, "- %s\n", v)
	}
	r.describe(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func markdownRow(b *strings.Builder, cells []string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

func capitalised(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// describe lists the machine and the settings of the run.
func (r Report) describe(b *strings.Builder) {
	b.WriteString("\n## Machine and settings\n\n")
	if len(r.Parts) == 0 {
		fmt.Fprintf(b, "- %d rounds of %s each after %s of warm-up, bodies of %d bytes\n",
			r.Options.Rounds, r.Options.Duration, r.Options.Warmup, r.Options.Body)
	}
	for _, p := range r.Parts {
		fmt.Fprintf(b, "- %s\n", p)
	}
	b.WriteString(r.Machine.String())
	for _, name := range slices.Sorted(maps.Keys(r.Skipped)) {
		fmt.Fprintf(b, "- not measured: %s: %s\n", name, r.Skipped[name])
	}
}
