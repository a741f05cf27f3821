// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/figures"
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/plot"
	"github.com/xlb-project/xlb/bench/record"
)

// barColours by peer; the product stands out, the others recede.
var barColours = map[string]string{peers.XLB: "#1f6feb", peers.Direct: "#57606a", peers.Spread: "#8c959f"}

// otherColour is that of peers without one of their own.
const otherColour = "#afb8c1"

// lineColours by peer.
var lineColours = map[string]string{
	peers.XLB: "#1f6feb", peers.Direct: "#57606a", peers.Spread: "#8c959f", peers.Envoy: "#cf222e", peers.Envoy2: "#8250df", peers.Sidecars: "#8250df", "nginx": "#2da44e", "haproxy": "#bf8700",
}

// curveColours by kind.
var curveColours = map[string]string{
	cases.ByPath: "#1f6feb", cases.ByPrefix: "#2da44e", cases.ByRegex: "#cf222e", cases.ByHeader: "#8250df", cases.OfAnyKind: "#57606a",
}

func colourOf(colours map[string]string, peer string) string {
	if colour, ok := colours[peer]; ok {
		return colour
	}
	return otherColour
}

// barsOf takes the kept-alive rows of a topology: a group for each number of connections.
func barsOf(rows []figures.Row, topology lab.Topology) plot.Bars {
	kept := slices.DeleteFunc(slices.Clone(rows), func(r figures.Row) bool {
		return r.Topology != topology || r.Case != cases.Keepalive || r.Generator != "" || r.Rate == nil
	})
	chart := plot.Bars{Title: fmt.Sprintf("Requests per second, %s host, kept-alive connections", topology)}
	for _, t := range (Report{Summary: kept}).tables() {
		group := plot.Group{Label: fmt.Sprintf("%d connections", t.rows[0].Connections)}
		for _, r := range t.rows {
			group.Bars = append(group.Bars, plot.Bar{
				Name: r.Peer, Colour: colourOf(barColours, r.Peer), Median: r.Rate.Median, Min: r.Rate.Min, Max: r.Rate.Max,
			})
		}
		chart.Groups = append(chart.Groups, group)
	}
	return chart
}

// figureOf is one figure of these cases that is drawn.
type figureOf struct {
	name, title string
	of          func(r figures.Row) *figures.Spread
}

// drawnOf are the figures of a case with a plot each.
func drawnOf(l cases.Load) []figureOf {
	rate := figureOf{"rate", "requests per second", func(r figures.Row) *figures.Spread { return r.Rate }}
	p50 := figureOf{"p50", "median latency in us", func(r figures.Row) *figures.Spread { return r.P50 }}
	p99 := figureOf{"p99", "99th percentile of latency in us", func(r figures.Row) *figures.Spread { return r.P99 }}
	mean := figureOf{"mean", "mean latency in us", func(r figures.Row) *figures.Spread { return r.Scale.Mean }}
	switch l.Case {
	case cases.Sizes:
		return []figureOf{rate, p50, p99}
	case cases.Interference:
		return []figureOf{mean, p99}
	case cases.Rules:
		return []figureOf{rate, p50, p99}
	case cases.Density:
		return []figureOf{
			rate, p99,
			{"memory", "memory of the balancer (PSS) in MB", func(r figures.Row) *figures.Spread { return r.Scale.Density.PSS }},
			{"ready", "seconds until the last service answers", func(r figures.Row) *figures.Spread { return r.Scale.Density.Ready }},
		}
	case cases.Changes:
		return []figureOf{p99, {"cpu", "processor time of the balancer in percent", func(r figures.Row) *figures.Spread { return r.Scale.Changes.Share }}}
	case cases.Rate:
		return []figureOf{p50, p99, {"cpu", "processor time of clients, endpoints and balancer in us per request", func(r figures.Row) *figures.Spread { return r.CPU.Lab }}}
	}
	return []figureOf{rate, mean, p99}
}

// saveScalePlots writes a plot for each figure of these cases into dir.
func (r Report) saveScalePlots(dir string, topology lab.Topology) (errs []error) {
	var titles []string
	for _, like := range r.Summary {
		title := like.Title()
		if !like.IsScaled() || like.Topology != topology || slices.Contains(titles, title) {
			continue
		}
		titles = append(titles, title)
		for _, figure := range drawnOf(like.Load) {
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
			errs = append(errs, record.WriteFile(path, func(w io.Writer) error { return plot.Lines(w, heading, like.StepName(), lines) }))
		}
	}
	return errs
}

// linesOf makes a line for each peer of the rows that are compared with like.
func linesOf(rows []figures.Row, like figures.Row, figure func(r figures.Row) *figures.Spread) []plot.Line {
	var lines []plot.Line
	for _, r := range rows {
		if r.Topology != like.Topology || !r.ComparedWith(like.Load) {
			continue
		}
		value := figure(r)
		if value == nil || value.Median <= 0 {
			continue
		}
		i := slices.IndexFunc(lines, func(l plot.Line) bool { return l.Name == r.Peer })
		if i < 0 {
			i = len(lines)
			lines = append(lines, plot.Line{Name: r.Peer, Colour: colourOf(lineColours, r.Peer), Whole: r.Peer == peers.XLB})
		}
		lines[i].Points = append(lines[i].Points, plot.Point{Step: r.Step(), Value: value.Median})
	}
	return lines
}
