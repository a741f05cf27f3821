// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Measures of a plot of lines in pixels. The upright axis is logarithmic; steps stand side by side at equal distances, zero among them.
const (
	lineStep   = 70
	lineDecade = 110
	lineLeft   = 80
	lineTop    = 50
	lineRight  = 170
)

// Point is a figure, above zero, at a step.
type Point struct {
	Step  int
	Value float64
}

// Line is the points of one name, in the order of their steps. It is drawn dashed unless it is whole.
type Line struct {
	Name, Colour string
	Whole        bool
	Points       []Point
}

// grid places points.
type grid struct {
	steps     []int
	low, high float64
}

func gridOf(lines []Line) grid {
	g := grid{low: math.Inf(1), high: math.Inf(-1)}
	for _, l := range lines {
		for _, p := range l.Points {
			g.steps = append(g.steps, p.Step)
			g.low = min(g.low, math.Floor(math.Log10(p.Value)))
			g.high = max(g.high, math.Ceil(math.Log10(p.Value)))
		}
	}
	slices.Sort(g.steps)
	g.steps = slices.Compact(g.steps)
	if g.high == g.low {
		g.high++
	}
	return g
}

func (g grid) x(step int) float64 { return lineLeft + lineStep*float64(slices.Index(g.steps, step)) }

func (g grid) y(value float64) float64 { return lineTop + lineDecade*(g.high-math.Log10(value)) }

// Lines writes lines as SVG; steps names what the steps count.
func Lines(w io.Writer, title, steps string, lines []Line) error {
	var b strings.Builder
	g := gridOf(lines)
	right, bottom := g.x(g.steps[len(g.steps)-1]), lineTop+lineDecade*(g.high-g.low)
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"20\" font-weight=\"bold\">%s</text>\n", plotPadding, title)
	for _, step := range g.steps {
		fmt.Fprintf(&b, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#d0d7de\"/>\n", g.x(step), lineTop, g.x(step), bottom)
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%d</text>\n", g.x(step), bottom+18, step)
	}
	fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", right+20, bottom+18, steps)
	for decade := g.low; decade <= g.high; decade++ {
		y := g.y(math.Pow(10, decade))
		fmt.Fprintf(&b, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#d0d7de\"/>\n", lineLeft, y, right, y)
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", lineLeft-6, y+4, math.Pow(10, decade))
	}
	for i, l := range lines {
		g.draw(&b, l, right+20, float64(lineTop+20*i))
	}
	height := max(bottom+40, float64(lineTop+20*len(lines)))
	_, err := fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" font-size=\"12\">\n"+
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n%s</svg>\n", right+lineRight, height, b.String())
	return err
}

// draw writes a line, and its entry in the legend at x and y.
func (g grid) draw(b *strings.Builder, l Line, x, y float64) {
	style := stroke(l.Colour, l.Whole)
	var points []string
	for _, p := range l.Points {
		points = append(points, fmt.Sprintf("%.1f,%.1f", g.x(p.Step), g.y(p.Value)))
		fmt.Fprintf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", g.x(p.Step), g.y(p.Value), l.Colour)
	}
	fmt.Fprintf(b, "<polyline points=\"%s\" %s/>\n", strings.Join(points, " "), style)
	fmt.Fprintf(b, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x, y, x+30, y, style)
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", x+38, y+4, l.Name)
}
