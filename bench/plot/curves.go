// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// Curve is how one thing grows with another. It is drawn dashed unless it is whole.
type Curve struct {
	Name, Colour string
	Whole        bool
	Points       []Place
}

// Place is a point of a curve; both figures are above zero.
type Place struct{ X, Y float64 }

// Measures of the plot of curves in pixels: both axes are logarithmic, and a decade has the same length on all plots.
const (
	curveDecade = 120
	curveLeft   = 70
	curveTop    = 50
	curveRight  = 180
)

// axes turn figures into pixels.
type axes struct{ lowX, highX, lowY, highY float64 }

func axesOf(curves []Curve) axes {
	a := axes{lowX: math.Inf(1), highX: math.Inf(-1), lowY: math.Inf(1), highY: math.Inf(-1)}
	for _, c := range curves {
		for _, p := range c.Points {
			x, y := math.Log10(p.X), math.Log10(p.Y)
			a.lowX, a.highX = min(a.lowX, math.Floor(x)), max(a.highX, math.Ceil(x))
			a.lowY, a.highY = min(a.lowY, math.Floor(y)), max(a.highY, math.Ceil(y))
		}
	}
	return a
}

func (a axes) x(x float64) float64 { return curveLeft + curveDecade*(math.Log10(x)-a.lowX) }

func (a axes) y(y float64) float64 { return curveTop + curveDecade*(a.highY-math.Log10(y)) }

// Curves writes curves as SVG.
func Curves(w io.Writer, title string, curves []Curve) error {
	var b strings.Builder
	a := axesOf(curves)
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"20\" font-weight=\"bold\">%s</text>\n", plotPadding, title)
	a.grid(&b)
	for i, c := range curves {
		a.draw(&b, c, i)
	}
	width := curveLeft + curveDecade*(a.highX-a.lowX) + curveRight
	height := curveTop + curveDecade*(a.highY-a.lowY) + 40
	height = max(height, float64(curveTop+20*len(curves)))
	_, err := fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" font-size=\"12\">\n"+
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n%s</svg>\n", width, height, b.String())
	return err
}

func (a axes) grid(b *strings.Builder) {
	line := func(x1, y1, x2, y2 float64) {
		fmt.Fprintf(b, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#d0d7de\"/>\n", x1, y1, x2, y2)
	}
	left, right := a.x(math.Pow10(int(a.lowX))), a.x(math.Pow10(int(a.highX)))
	top, bottom := a.y(math.Pow10(int(a.highY))), a.y(math.Pow10(int(a.lowY)))
	for d := a.lowX; d <= a.highX; d++ {
		x := a.x(math.Pow10(int(d)))
		line(x, top, x, bottom)
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.0f</text>\n", x, bottom+18, math.Pow10(int(d)))
	}
	for d := a.lowY; d <= a.highY; d++ {
		y := a.y(math.Pow10(int(d)))
		line(left, y, right, y)
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.0f</text>\n", left-6, y+4, math.Pow10(int(d)))
	}
}

// draw writes a line and its entry in the legend.
func (a axes) draw(b *strings.Builder, c Curve, place int) {
	var points []string
	for _, p := range c.Points {
		points = append(points, fmt.Sprintf("%.1f,%.1f", a.x(p.X), a.y(p.Y)))
	}
	style := stroke(c.Colour, c.Whole)
	fmt.Fprintf(b, "<polyline points=\"%s\" %s/>\n", strings.Join(points, " "), style)
	x, y := a.x(math.Pow10(int(a.highX)))+20, float64(curveTop+20*place)
	fmt.Fprintf(b, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x, y, x+30, y, style)
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", x+38, y+4, c.Name)
}

// stroke is the style of a line.
func stroke(colour string, whole bool) string {
	dash := ` stroke-dasharray="5 4"`
	if whole {
		dash = ""
	}
	return fmt.Sprintf("fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s", colour, dash)
}
