// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/bench/lab"
)

// writeRoutes writes what a request costs by the size of the table, a table for each topology.
func (r report) writeRoutes(b *strings.Builder) {
	for _, topology := range r.Options.topologies() {
		rows := routeRows(r.Summary, topology)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(b, "\n## Cost by number of routes, %s host\n\n", topology)
		b.WriteString("The ratios are to the same peer's smallest table in the same round.\n\n")
		columns := []string{"routes", "in the table", "peer", "p50 us (min-max)", "p50 x fewest", "CPU us/req of lab", "CPU x fewest", "fast"}
		markdownRow(b, columns)
		markdownRow(b, slices.Repeat([]string{"---"}, len(columns)))
		for _, row := range rows {
			markdownRow(b, []string{
				row.RouteKind, fmt.Sprint(row.Routes), row.Peer, withRange(row.P50), median(row.P50ToFewest, "%.2f"),
				median(row.CPU.Lab, "%.1f"), median(row.CPUToFewest, "%.2f"), median(row.FastShare, "%.3f"),
			})
		}
	}
}

func routeRows(rows []row, topology lab.Topology) []row {
	var own []row
	for _, r := range rows {
		if r.Case == caseRoutes && r.Topology == topology && r.P50 != nil {
			own = append(own, r)
		}
	}
	return own
}

// curve is how a peer's median latency grows with the tables of one kind.
type curve struct {
	peer, kind string
	points     []row
}

func curvesOf(rows []row, topology lab.Topology) []curve {
	var curves []curve
	for _, r := range routeRows(rows, topology) {
		i := slices.IndexFunc(curves, func(c curve) bool { return c.peer == r.Peer && c.kind == r.RouteKind })
		if i < 0 {
			i = len(curves)
			curves = append(curves, curve{peer: r.Peer, kind: r.RouteKind})
		}
		curves[i].points = append(curves[i].points, r)
	}
	return curves
}

// Measures of the plot of curves in pixels: both axes are logarithmic, and a decade has the same length on all plots.
const (
	curveDecade = 120
	curveLeft   = 70
	curveTop    = 50
	curveRight  = 180
)

// curveColours by kind.
var curveColours = map[string]string{
	routesByPath: "#1f6feb", routesByPrefix: "#2da44e", routesByRegex: "#cf222e", routesByHeader: "#8250df", routesOfAnyKind: "#57606a",
}

// axes turn figures into pixels.
type axes struct{ lowX, highX, lowY, highY float64 }

func axesOf(curves []curve) axes {
	a := axes{lowX: math.Inf(1), highX: math.Inf(-1), lowY: math.Inf(1), highY: math.Inf(-1)}
	for _, c := range curves {
		for _, p := range c.points {
			x, y := math.Log10(float64(p.Routes)), math.Log10(p.P50.Median)
			a.lowX, a.highX = min(a.lowX, math.Floor(x)), max(a.highX, math.Ceil(x))
			a.lowY, a.highY = min(a.lowY, math.Floor(y)), max(a.highY, math.Ceil(y))
		}
	}
	return a
}

func (a axes) x(routes float64) float64 { return curveLeft + curveDecade*(math.Log10(routes)-a.lowX) }
func (a axes) y(us float64) float64     { return curveTop + curveDecade*(a.highY-math.Log10(us)) }

// plotCurves writes the median latency by the number of routes as SVG: XLB's lines are whole, the others' dashed.
func plotCurves(w io.Writer, topology lab.Topology, curves []curve) error {
	var b strings.Builder
	a := axesOf(curves)
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"20\" font-weight=\"bold\">Median latency in us by number of routes, %s host</text>\n", plotPadding, topology)
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
func (a axes) draw(b *strings.Builder, c curve, place int) {
	dash := ""
	if c.peer != peerXLB {
		dash = ` stroke-dasharray="5 4"`
	}
	var points []string
	for _, p := range c.points {
		points = append(points, fmt.Sprintf("%.1f,%.1f", a.x(float64(p.Routes)), a.y(p.P50.Median)))
	}
	style := fmt.Sprintf("fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s", curveColours[c.kind], dash)
	fmt.Fprintf(b, "<polyline points=\"%s\" %s/>\n", strings.Join(points, " "), style)
	x, y := a.x(math.Pow10(int(a.highX)))+20, float64(curveTop+20*place)
	fmt.Fprintf(b, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x, y, x+30, y, style)
	fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%.1f\">%s, %s</text>\n", x+38, y+4, c.peer, c.kind)
}
