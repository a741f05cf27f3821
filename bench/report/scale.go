// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/figures"
)

// changesColumns stand before those of all cases.
func changesColumns() []column {
	of := func(name, format string, figure func(c *figures.ChangesRow) *figures.Spread) column {
		return column{name, func(r figures.Row) string { return median(figure(r.Scale.Changes), format) }}
	}
	return []column{
		of("changes made", "%.0f", func(c *figures.ChangesRow) *figures.Spread { return c.Made }),
		of("taken after ms", "%.1f", func(c *figures.ChangesRow) *figures.Spread { return c.AckP50 }),
		of("p99", "%.1f", func(c *figures.ChangesRow) *figures.Spread { return c.AckP99 }),
		of("first request after ms", "%.1f", func(c *figures.ChangesRow) *figures.Spread { return c.SeenP50 }),
		of("at most", "%.1f", func(c *figures.ChangesRow) *figures.Spread { return c.SeenMost }),
		of("missed", "%.0f", func(c *figures.ChangesRow) *figures.Spread { return c.Missed }),
		of("ready after s", "%.2f", func(c *figures.ChangesRow) *figures.Spread { return c.Ready }),
		of("% of a processor", "%.1f", func(c *figures.ChangesRow) *figures.Spread { return c.Share }),
		of("x envoy's", "%.2f", func(c *figures.ChangesRow) *figures.Spread { return c.ShareToEnvoy }),
		of("PSS MB", "%.1f", func(c *figures.ChangesRow) *figures.Spread { return c.PSS }),
		of("x envoy's", "%.2f", func(c *figures.ChangesRow) *figures.Spread { return c.PSSToEnvoy }),
	}
}

// densityColumns stand before those of all cases.
func densityColumns() []column {
	of := func(name, format string, figure func(d *figures.DensityRow) *figures.Spread) column {
		return column{name, func(r figures.Row) string { return median(figure(r.Scale.Density), format) }}
	}
	return []column{
		of("reached", "%.0f", func(d *figures.DensityRow) *figures.Spread { return d.Reached }),
		of("all answer after s", "%.2f", func(d *figures.DensityRow) *figures.Spread { return d.Ready }),
		of("PSS MB", "%.1f", func(d *figures.DensityRow) *figures.Spread { return d.PSS }),
		of("of it its own", "%.1f", func(d *figures.DensityRow) *figures.Spread { return d.Own }),
		of("BPF maps MB", "%.1f", func(d *figures.DensityRow) *figures.Spread { return d.Maps }),
		of("kernel + MB", "%.1f", func(d *figures.DensityRow) *figures.Spread { return d.Kernel }),
		of("machine + MB", "%.1f", func(d *figures.DensityRow) *figures.Spread { return d.Machine }),
	}
}

// writePrograms writes what the kernel programs cost, a table for each rate.
func (r Report) writePrograms(b *strings.Builder) {
	for _, row := range r.Summary {
		if row.Scale == nil || len(row.Scale.Programs) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n## Kernel programs of %s, %s host, %s\n\n", row.Peer, row.Topology, row.Load)
		columns := []string{"program", "runs per request", "ns per run", "ns per request", "instructions", "bytes of machine code"}
		markdownRow(b, columns)
		markdownRow(b, slices.Repeat([]string{"---"}, len(columns)))
		for _, p := range row.Scale.Programs {
			markdownRow(b, []string{p.Name, median(p.Runs, "%.2f"), median(p.NSPerRun, "%.0f"), median(p.NSPerRequest, "%.0f"), median(p.Instructions, "%.0f"), median(p.Bytes, "%.0f")})
		}
	}
}

// column of the tables of these cases.
type column struct {
	name string
	cell func(r figures.Row) string
}

// columnsOf a case.
func columnsOf(l cases.Load) []column {
	columns := []column{
		{l.StepName(), func(r figures.Row) string { return fmt.Sprint(r.Step()) }},
		{"peer", func(r figures.Row) string { return r.Peer }},
		{"req/s (min-max)", func(r figures.Row) string { return withRange(r.Rate) }},
	}
	if l.Case == cases.Sizes {
		columns = append(columns, column{"MB/s", func(r figures.Row) string { return median(r.Scale.Bytes, "%.1f") }})
	}
	if l.Case == cases.Rate {
		columns = append(columns,
			column{"asked for", func(r figures.Row) string { return median(r.Scale.Offered, "%.0f") }},
			column{"CPU us/req over direct", func(r figures.Row) string { return median(r.Scale.OverDirect, "%.1f") }},
			column{"of clients", func(r figures.Row) string { return median(r.CPU.Clients, "%.1f") }},
			column{"of endpoints", func(r figures.Row) string { return median(r.CPU.Endpoints, "%.1f") }},
			column{"beside them", func(r figures.Row) string { return median(r.Scale.Kernel, "%.1f") }})
	}
	if l.Case == cases.Interference {
		columns = append(columns, column{"neighbour's req/s", func(r figures.Row) string { return median(r.Scale.Noise, "%.0f") }})
	}
	if l.Case == cases.Density {
		columns = append(columns, densityColumns()...)
	}
	if l.Case == cases.Changes {
		columns = append(columns, changesColumns()...)
	}
	return append(columns,
		column{"mean us", func(r figures.Row) string { return median(r.Scale.Mean, "%.0f") }},
		column{"p50 us (min-max)", func(r figures.Row) string { return withRange(r.P50) }},
		column{"p99 us (min-max)", func(r figures.Row) string { return withRange(r.P99) }},
		column{"p99.9 us", func(r figures.Row) string { return median(r.Scale.P999, "%.0f") }},
		column{"x direct", func(r figures.Row) string { return median(r.RateToDirect, "%.2f") }},
		column{"p99 x direct", func(r figures.Row) string { return median(r.P99ToDirect, "%.2f") }},
		column{"x envoy", func(r figures.Row) string { return median(r.RateToEnvoy, "%.2f") }},
		column{"x least", func(r figures.Row) string { return median(r.Scale.RateToLeast, "%.2f") }},
		column{"p99 x least", func(r figures.Row) string { return median(r.Scale.P99ToLeast, "%.2f") }},
		column{"p50 x least", func(r figures.Row) string { return median(r.Scale.P50ToLeast, "%.2f") }},
		column{"p99 x envoy", func(r figures.Row) string { return median(r.Scale.P99ToEnvoy, "%.2f") }},
		column{"CPU us/req of lab", func(r figures.Row) string { return median(r.CPU.Lab, "%.1f") }},
		column{"of balancer", func(r figures.Row) string { return median(r.CPU.Balancer, "%.1f") }},
		column{"fast", func(r figures.Row) string { return median(r.FastShare, "%.3f") }},
		column{"errors", errorsOf},
	)
}

// scaleHeader names the columns of a table, scaleCells fills them.
func scaleHeader(like figures.Row) []string {
	var names []string
	for _, c := range columnsOf(like.Load) {
		names = append(names, c.name)
	}
	return names
}

func scaleCells(r figures.Row) []string {
	var cells []string
	for _, c := range columnsOf(r.Load) {
		cells = append(cells, c.cell(r))
	}
	return cells
}
