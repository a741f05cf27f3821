// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"fmt"
	"io"
	"strings"

	"github.com/xlb-project/xlb/bench/record"
)

// Measures of a plot in pixels.
const (
	barHeight, barGap, groupGap = 14, 4, 24
	padding, labels, barMax     = 10, 190, 420
	plotWidth                   = padding + labels + barMax + 100
)

// colours by path; the product stands out.
var colours = map[Path]string{Direct: "#57606a", Balancer: "#afb8c1", SYN: "#8cb4f0", SYNACK: "#5a95f0", HEELS: "#1f6feb"}

// cases are the groups by the name of their load.
func (r Report) cases() map[string][]group {
	all := map[string][]group{}
	for _, g := range r.groups() {
		all[g.load.Name] = append(all[g.load.Name], g)
	}
	return all
}

// shown is the figure of a load that a plot compares.
func (l load) shown() (figure, string) {
	switch {
	case l.Name == setup:
		return connect, "time to connect"
	case l.isLatency():
		return p50, "p50"
	}
	return goodput, "goodput"
}

// bar is one of a plot.
type bar struct {
	path Path
	record.Spread
}

func (g group) bars() (bars []bar) {
	f, _ := g.load.shown()
	for _, path := range g.load.allPaths() {
		if s, ok := g.ratio(path, Direct, f); ok {
			bars = append(bars, bar{path, s})
		}
	}
	return bars
}

// plot draws what each path's figure is to that of direct connections: a bar to the median, a line from the least to the greatest.
func plot(w io.Writer, groups []group) error {
	most := 1.0
	for _, g := range groups {
		for _, bar := range g.bars() {
			most = max(most, bar.Max)
		}
	}
	var b strings.Builder
	y, scale := padding, barMax/most
	for _, g := range groups {
		y += groupGap
		_, what := g.load.shown()
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s: %s, x direct</text>\n", padding, y, g, what)
		y += 2 * barGap
		for _, bar := range g.bars() {
			bar.write(&b, y, scale)
			y += barHeight + barGap
		}
	}
	_, err := fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"12\">\n"+
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n%s</svg>\n", plotWidth, y+2*padding, b.String())
	return err
}

func (r bar) write(b *strings.Builder, y int, scale float64) {
	const x = padding + labels
	middle, text := y+barHeight/2, y+barHeight-2
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\">%s</text>\n", padding, text, r.path)
	fmt.Fprintf(b, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n", x, y, r.Median*scale, barHeight, colours[r.path])
	fmt.Fprintf(b, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"black\"/>\n", x+r.Min*scale, x+r.Max*scale, middle, middle)
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\">%.3f</text>\n", x+r.Max*scale+6, text, r.Median)
}
