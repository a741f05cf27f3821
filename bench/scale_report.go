// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/bench/lab"
)

// scaleRow is what these cases add to a row.
type scaleRow struct {
	Mean *spread `json:"mean_us"`
	P999 *spread `json:"p99.9_us"`
	// Bytes is what bodies carry, in MB (10^6 bytes) a second; of the sizes case.
	Bytes *spread `json:"megabytes_per_second,omitempty"`
	// Offered is how many requests a second clients were to send. Kernel is what the machine used beside clients, endpoints and balancer:
	// interrupts, kernel threads, and others. OverDirect is what clients, endpoints and balancer used more than with direct connections in
	// the same round. Both are in microseconds per request; of the rate case.
	Offered    *spread `json:"offered,omitempty"`
	Kernel     *spread `json:"cpu_us_per_request_beside,omitempty"`
	OverDirect *spread `json:"cpu_us_per_request_over_direct,omitempty"`
	// OverDirectToEnvoy is that as a part of Envoy's.
	OverDirectToEnvoy *spread `json:"cpu_over_direct_to_envoy,omitempty"`
	// Noise is what the neighbour got, in requests a second; of the interference case.
	Noise *spread `json:"noise_requests_per_second,omitempty"`
	// Density is of that case.
	Density *densityRow `json:"density,omitempty"`
	// Changes is of that case.
	Changes *changesRow `json:"changes,omitempty"`
	// Programs of the kernel, in the case rate.
	Programs []programRow `json:"programs,omitempty"`
	// Ratios to the peer's own figures at the least step, built within each round.
	RateToLeast *spread `json:"rate_to_least_step"`
	P50ToLeast  *spread `json:"p50_to_least_step"`
	P99ToLeast  *spread `json:"p99_to_least_step"`
	// Ratios to Envoy.
	P50ToEnvoy *spread `json:"p50_to_envoy"`
	P99ToEnvoy *spread `json:"p99_to_envoy"`
}

func scaleRowOf(measurements []measurement, like measurement) *scaleRow {
	own := selectPeer(measurements, like, like.Peer)
	least := like
	least.load = leastStep(measurements, like)
	base := selectPeer(measurements, least, like.Peer)
	envoy := selectPeer(measurements, like, peerEnvoy)
	of := func(figure func(m measurement) float64) *spread { return spreadOf(figures(own, figure)) }
	to := func(base []measurement, figure func(m measurement) float64) *spread {
		return spreadOf(ratios(own, base, figure))
	}
	rate := func(m measurement) float64 { return m.Rate }
	p50 := func(m measurement) float64 { return m.P50 }
	p99 := func(m measurement) float64 { return m.P99 }
	r := &scaleRow{
		Mean:        of(func(m measurement) float64 { return m.Mean }),
		P999:        of(func(m measurement) float64 { return m.P999 }),
		RateToLeast: to(base, rate),
		P50ToLeast:  to(base, p50),
		P99ToLeast:  to(base, p99),
		P50ToEnvoy:  to(envoy, p50),
		P99ToEnvoy:  to(envoy, p99),
	}
	if like.Case == caseSizes {
		r.Bytes = of(measurement.megabytes)
	}
	if like.Case == caseRate {
		r.Offered = of(func(m measurement) float64 { return float64(m.Offered) })
		r.Kernel = of(func(m measurement) float64 { return m.CPU.Machine - m.CPU.lab() })
		direct := selectPeer(measurements, like, peerDirect)
		r.OverDirect = spreadOf(differences(own, direct, func(m measurement) float64 { return m.CPU.lab() }))
		r.OverDirectToEnvoy = spreadOf(priceRatios(own, envoy, direct))
		r.Programs = programRows(own)
	}
	if like.Case == caseInterference {
		r.Noise = of(func(m measurement) float64 { return m.NoiseRate })
	}
	if like.Case == caseDensity {
		r.Density = densityRowOf(own)
	}
	if like.Case == caseChanges {
		r.Changes = changesRowOf(own, envoy)
	}
	return r
}

// densityRow has sizes in MB of 10^6 bytes.
type densityRow struct {
	Reached *spread `json:"reached"`
	Ready   *spread `json:"ready_seconds"`
	PSS     *spread `json:"pss_mb"`
	Own     *spread `json:"anonymous_mb"`
	Maps    *spread `json:"bpf_maps_mb"`
	Kernel  *spread `json:"kernel_mb"`
	Machine *spread `json:"machine_mb"`
}

func densityRowOf(own []measurement) *densityRow {
	of := func(figure func(d *density) float64) *spread {
		return spreadOf(figures(own, func(m measurement) float64 { return figure(m.Density) }))
	}
	mb := func(bytes int64) float64 { return float64(bytes) / 1e6 }
	return &densityRow{
		Reached: of(func(d *density) float64 { return float64(d.Reached) }),
		Ready:   of(func(d *density) float64 { return d.ReadySeconds }),
		PSS:     of(func(d *density) float64 { return mb(d.Balancer.PSS) }),
		Own:     of(func(d *density) float64 { return mb(d.Balancer.Anonymous) }),
		Maps:    of(func(d *density) float64 { return mb(d.Balancer.Maps) }),
		Kernel:  of(func(d *density) float64 { return mb(d.Kernel) }),
		Machine: of(func(d *density) float64 { return mb(d.Machine) }),
	}
}

// densityColumns stand before those of all cases.
func densityColumns() []column {
	of := func(name, format string, figure func(d *densityRow) *spread) column {
		return column{name, func(r row) string { return median(figure(r.Scale.Density), format) }}
	}
	return []column{
		of("reached", "%.0f", func(d *densityRow) *spread { return d.Reached }),
		of("all answer after s", "%.2f", func(d *densityRow) *spread { return d.Ready }),
		of("PSS MB", "%.1f", func(d *densityRow) *spread { return d.PSS }),
		of("of it its own", "%.1f", func(d *densityRow) *spread { return d.Own }),
		of("BPF maps MB", "%.1f", func(d *densityRow) *spread { return d.Maps }),
		of("kernel + MB", "%.1f", func(d *densityRow) *spread { return d.Kernel }),
		of("machine + MB", "%.1f", func(d *densityRow) *spread { return d.Machine }),
	}
}

// priceRatios divides what own used more than direct by what other did; rounds in which other used no more have none.
func priceRatios(own, other, direct []measurement) []float64 {
	var values []float64
	cost := func(m measurement) float64 { return m.CPU.lab() }
	for _, m := range own {
		round := []measurement{m}
		price, others := differences(round, direct, cost), differences(round, other, cost)
		if len(price) == 0 || len(others) == 0 {
			continue
		}
		if of := price[0] - others[0]; of > 0 {
			values = append(values, price[0]/of)
		}
	}
	return values
}

// differences takes away the figures of the same round; rounds that lack either have none.
func differences(own, base []measurement, figure func(measurement) float64) []float64 {
	var values []float64
	for _, m := range own {
		i := slices.IndexFunc(base, func(b measurement) bool { return b.Round == m.Round })
		if i < 0 || m.Failure != "" || base[i].Failure != "" {
			continue
		}
		values = append(values, figure(m)-figure(base[i]))
	}
	return values
}

// programRow is what one kernel program did, over the rounds.
type programRow struct {
	Name         string  `json:"name"`
	Runs         *spread `json:"runs_per_request"`
	NSPerRun     *spread `json:"ns_per_run"`
	NSPerRequest *spread `json:"ns_per_request"`
	Instructions *spread `json:"instructions"`
	Bytes        *spread `json:"jited_bytes"`
}

// programRows has the programs in the order of the first round that saw them.
func programRows(own []measurement) []programRow {
	var names []string
	byName := map[string][]programCost{}
	for _, m := range own {
		for _, c := range m.Programs {
			if byName[c.Name] == nil {
				names = append(names, c.Name)
			}
			byName[c.Name] = append(byName[c.Name], c)
		}
	}
	var rows []programRow
	for _, name := range names {
		of := func(figure func(c programCost) float64) *spread {
			var values []float64
			for _, c := range byName[name] {
				values = append(values, figure(c))
			}
			return spreadOf(values)
		}
		rows = append(rows, programRow{
			Name:         name,
			Runs:         of(func(c programCost) float64 { return c.Runs }),
			NSPerRun:     of(func(c programCost) float64 { return c.NSPerRun }),
			NSPerRequest: of(func(c programCost) float64 { return c.NSPerRequest }),
			Instructions: of(func(c programCost) float64 { return float64(c.Instructions) }),
			Bytes:        of(func(c programCost) float64 { return float64(c.Bytes) }),
		})
	}
	return rows
}

// writePrograms writes what the kernel programs cost, a table for each rate.
func (r report) writePrograms(b *strings.Builder) {
	for _, row := range r.Summary {
		if row.Scale == nil || len(row.Scale.Programs) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n## Kernel programs of %s, %s host, %s\n\n", row.Peer, row.Topology, row.load)
		columns := []string{"program", "runs per request", "ns per run", "ns per request", "instructions", "bytes of machine code"}
		markdownRow(b, columns)
		markdownRow(b, slices.Repeat([]string{"---"}, len(columns)))
		for _, p := range row.Scale.Programs {
			markdownRow(b, []string{p.Name, median(p.Runs, "%.2f"), median(p.NSPerRun, "%.0f"), median(p.NSPerRequest, "%.0f"), median(p.Instructions, "%.0f"), median(p.Bytes, "%.0f")})
		}
	}
}

// megabytes of bodies a second.
func (m measurement) megabytes() float64 { return m.Rate * float64(m.Size) / 1e6 }

// leastStep is the load that varies the same and has the least step.
func leastStep(measurements []measurement, like measurement) load {
	least := like.load
	for _, m := range measurements {
		if m.comparedWith(like.load) && m.step() < least.step() {
			least = m.load
		}
	}
	return least
}

// column of the tables of these cases.
type column struct {
	name string
	cell func(r row) string
}

// columns of a case.
func (l load) columns() []column {
	columns := []column{
		{l.stepName(), func(r row) string { return fmt.Sprint(r.step()) }},
		{"peer", func(r row) string { return r.Peer }},
		{"req/s (min-max)", func(r row) string { return withRange(r.Rate) }},
	}
	if l.Case == caseSizes {
		columns = append(columns, column{"MB/s", func(r row) string { return median(r.Scale.Bytes, "%.1f") }})
	}
	if l.Case == caseRate {
		columns = append(columns,
			column{"asked for", func(r row) string { return median(r.Scale.Offered, "%.0f") }},
			column{"CPU us/req over direct", func(r row) string { return median(r.Scale.OverDirect, "%.1f") }},
			column{"of clients", func(r row) string { return median(r.CPU.Clients, "%.1f") }},
			column{"of endpoints", func(r row) string { return median(r.CPU.Endpoints, "%.1f") }},
			column{"beside them", func(r row) string { return median(r.Scale.Kernel, "%.1f") }})
	}
	if l.Case == caseInterference {
		columns = append(columns, column{"neighbour's req/s", func(r row) string { return median(r.Scale.Noise, "%.0f") }})
	}
	if l.Case == caseDensity {
		columns = append(columns, densityColumns()...)
	}
	if l.Case == caseChanges {
		columns = append(columns, changesColumns()...)
	}
	return append(columns,
		column{"mean us", func(r row) string { return median(r.Scale.Mean, "%.0f") }},
		column{"p50 us (min-max)", func(r row) string { return withRange(r.P50) }},
		column{"p99 us (min-max)", func(r row) string { return withRange(r.P99) }},
		column{"p99.9 us", func(r row) string { return median(r.Scale.P999, "%.0f") }},
		column{"x direct", func(r row) string { return median(r.RateToDirect, "%.2f") }},
		column{"p99 x direct", func(r row) string { return median(r.P99ToDirect, "%.2f") }},
		column{"x envoy", func(r row) string { return median(r.RateToEnvoy, "%.2f") }},
		column{"x least", func(r row) string { return median(r.Scale.RateToLeast, "%.2f") }},
		column{"p99 x least", func(r row) string { return median(r.Scale.P99ToLeast, "%.2f") }},
		column{"p50 x least", func(r row) string { return median(r.Scale.P50ToLeast, "%.2f") }},
		column{"p99 x envoy", func(r row) string { return median(r.Scale.P99ToEnvoy, "%.2f") }},
		column{"CPU us/req of lab", func(r row) string { return median(r.CPU.Lab, "%.1f") }},
		column{"of balancer", func(r row) string { return median(r.CPU.Balancer, "%.1f") }},
		column{"fast", func(r row) string { return median(r.FastShare, "%.3f") }},
		column{"errors", errorsOf},
	)
}

// scaleHeader names the columns of a table, scaleCells fills them.
func scaleHeader(like row) []string {
	var names []string
	for _, c := range like.columns() {
		names = append(names, c.name)
	}
	return names
}

func scaleCells(r row) []string {
	var cells []string
	for _, c := range r.columns() {
		cells = append(cells, c.cell(r))
	}
	return cells
}

// figureOf is one figure of these cases that is drawn.
type figureOf struct {
	name, title string
	of          func(r row) *spread
}

// drawn are the figures of a case with a plot each.
func (l load) drawn() []figureOf {
	rate := figureOf{"rate", "requests per second", func(r row) *spread { return r.Rate }}
	p50 := figureOf{"p50", "median latency in us", func(r row) *spread { return r.P50 }}
	p99 := figureOf{"p99", "99th percentile of latency in us", func(r row) *spread { return r.P99 }}
	mean := figureOf{"mean", "mean latency in us", func(r row) *spread { return r.Scale.Mean }}
	switch l.Case {
	case caseSizes:
		return []figureOf{rate, p50, p99}
	case caseInterference:
		return []figureOf{mean, p99}
	case caseRules:
		return []figureOf{rate, p50, p99}
	case caseDensity:
		return []figureOf{
			rate, p99,
			{"memory", "memory of the balancer (PSS) in MB", func(r row) *spread { return r.Scale.Density.PSS }},
			{"ready", "seconds until the last service answers", func(r row) *spread { return r.Scale.Density.Ready }},
		}
	case caseChanges:
		return []figureOf{p99, {"cpu", "processor time of the balancer in percent", func(r row) *spread { return r.Scale.Changes.Share }}}
	case caseRate:
		return []figureOf{p50, p99, {"cpu", "processor time of clients, endpoints and balancer in us per request", func(r row) *spread { return r.CPU.Lab }}}
	}
	return []figureOf{rate, mean, p99}
}

// saveScalePlots writes a plot for each figure of these cases into dir.
func (r report) saveScalePlots(dir string, topology lab.Topology) (errs []error) {
	var titles []string
	for _, like := range r.Summary {
		title := like.title()
		if !like.isScaled() || like.Topology != topology || slices.Contains(titles, title) {
			continue
		}
		titles = append(titles, title)
		for _, figure := range like.drawn() {
			name := like.Case
			if like.Way != "" {
				name += "-" + like.Way
			}
			path := filepath.Join(dir, fmt.Sprintf("%s-%s-%s.svg", name, figure.name, topology))
			lines := linesOf(r.Summary, like, figure.of)
			if len(lines) == 0 {
				continue
			}
			heading := fmt.Sprintf("%s: %s, %s host", capitalised(title), figure.title, topology)
			errs = append(errs, writeFile(path, func(w io.Writer) error { return plotLines(w, heading, like.stepName(), lines) }))
		}
	}
	return errs
}

// linesOf makes a line for each peer of the rows that are compared with like.
func linesOf(rows []row, like row, figure func(r row) *spread) []line {
	var lines []line
	for _, r := range rows {
		if r.Topology != like.Topology || !r.comparedWith(like.load) {
			continue
		}
		value := figure(r)
		if value == nil || value.Median <= 0 {
			continue
		}
		i := slices.IndexFunc(lines, func(l line) bool { return l.name == r.Peer })
		if i < 0 {
			i = len(lines)
			lines = append(lines, line{name: r.Peer})
		}
		lines[i].points = append(lines[i].points, point{r.step(), value.Median})
	}
	return lines
}
