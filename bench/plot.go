// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/bench/lab"
)

// Measures of a plot in pixels.
const (
	barHeight   = 16
	groupGap    = 30
	labelWidth  = 80
	barMax      = 520
	plotWidth   = labelWidth + barMax + 220
	plotPadding = 14
)

// barColours by peer; the product stands out, the others recede.
var barColours = map[string]string{peerXLB: "#1f6feb", peerDirect: "#57606a", peerSpread: "#8c959f"}

const otherColour = "#afb8c1"

// plot is a bar chart of requests per second: a group for each number of
// connections, a bar for each peer, a line from minimum to maximum.
type plot struct {
	title  string
	groups []table
}

// plotOf takes the kept-alive rows of a topology.
func plotOf(rows []row, topology lab.Topology) plot {
	kept := slices.DeleteFunc(slices.Clone(rows), func(r row) bool {
		return r.Topology != topology || r.Case != caseKeepalive || r.Generator != "" || r.Rate == nil
	})
	return plot{
		title:  fmt.Sprintf("Requests per second, %s host, kept-alive connections", topology),
		groups: report{Summary: kept}.tables(),
	}
}

func (p plot) scale() float64 {
	most := 1.0
	for _, group := range p.groups {
		for _, r := range group.rows {
			most = max(most, r.Rate.Max)
		}
	}
	return barMax / most
}

// write writes the plot as SVG.
func (p plot) write(w io.Writer) error {
	var b strings.Builder
	scale, y := p.scale(), 2*plotPadding
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s</text>\n", plotPadding, y, p.title)
	for _, group := range p.groups {
		y += groupGap
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\">%d connections</text>\n", plotPadding, y, group.rows[0].Connections)
		for _, r := range group.rows {
			y += barHeight + 4
			writeBar(&b, r, y, scale)
		}
	}
	_, err := fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "+
		"font-family=\"sans-serif\" font-size=\"12\">\n"+
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n%s</svg>\n", plotWidth, y+2*plotPadding, b.String())
	return err
}

func writeBar(b *strings.Builder, r row, y int, scale float64) {
	colour, ok := barColours[r.Peer]
	if !ok {
		colour = otherColour
	}
	x := plotPadding + labelWidth
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\">%s</text>\n", plotPadding, y+barHeight-4, r.Peer)
	fmt.Fprintf(b, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n",
		x, y, r.Rate.Median*scale, barHeight, colour)
	fmt.Fprintf(b, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"black\"/>\n",
		float64(x)+r.Rate.Min*scale, float64(x)+r.Rate.Max*scale, y+barHeight/2, y+barHeight/2)
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\">%.0f</text>\n", float64(x)+r.Rate.Max*scale+6, y+barHeight-4, r.Rate.Median)
}
