// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"fmt"
	"io"
	"strings"
)

// Measures of a bar chart in pixels; plotPadding is that of all plots.
const (
	barHeight   = 16
	groupGap    = 30
	labelWidth  = 80
	barMax      = 520
	plotWidth   = labelWidth + barMax + 220
	plotPadding = 14
)

// Bars is a group of bars under each other for each thing that is compared.
type Bars struct {
	Title  string
	Groups []Group
}

// Group stands under its label.
type Group struct {
	Label string
	Bars  []Bar
}

// Bar is as long as its median, with a line from its minimum to its maximum.
type Bar struct {
	Name, Colour     string
	Median, Min, Max float64
}

func (p Bars) scale() float64 {
	most := 1.0
	for _, group := range p.Groups {
		for _, one := range group.Bars {
			most = max(most, one.Max)
		}
	}
	return barMax / most
}

// Write writes the chart as SVG.
func (p Bars) Write(w io.Writer) error {
	var b strings.Builder
	scale, y := p.scale(), 2*plotPadding
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s</text>\n", plotPadding, y, p.Title)
	for _, group := range p.Groups {
		y += groupGap
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\">%s</text>\n", plotPadding, y, group.Label)
		for _, one := range group.Bars {
			y += barHeight + 4
			one.write(&b, y, scale)
		}
	}
	_, err := fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "+
		"font-family=\"sans-serif\" font-size=\"12\">\n"+
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n%s</svg>\n", plotWidth, y+2*plotPadding, b.String())
	return err
}

func (r Bar) write(b *strings.Builder, y int, scale float64) {
	x := plotPadding + labelWidth
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\">%s</text>\n", plotPadding, y+barHeight-4, r.Name)
	fmt.Fprintf(b, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n",
		x, y, r.Median*scale, barHeight, r.Colour)
	fmt.Fprintf(b, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" stroke=\"black\"/>\n",
		float64(x)+r.Min*scale, float64(x)+r.Max*scale, y+barHeight/2, y+barHeight/2)
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\">%.0f</text>\n", float64(x)+r.Max*scale+6, y+barHeight-4, r.Median)
}
