// SPDX-License-Identifier: Apache-2.0

package interference

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/record"
)

const (
	// mostToDirect is how many times the p99 beside direct connections that behind XLB may be, beside a neighbour with one of the checked numbers of
	// connections; the case of that name has the same target.
	mostToDirect = 1.1
	// mostToSidecars is the same, to that behind sidecars.
	mostToSidecars = 1
)

// checked are the neighbours that the targets are about.
var checked = []int{8, 64}

// Report is all that a run has to say; its JSON is results.json.
type Report struct {
	Started time.Time    `json:"started"`
	Machine fmt.Stringer `json:"machine,omitempty"`
	Options Options      `json:"options"`
	Loads   []Load       `json:"loads"`
	// Summary is made when the report is saved.
	Summary []Row `json:"summary"`
}

// series are loads of which each round has one.
type series struct {
	peer      string
	neighbour int
}

// loads that have figures.
func (r *Report) loads(s series) (some []*Load) {
	for i := range r.Loads {
		if l := &r.Loads[i]; (series{l.Peer, l.Neighbour}) == s && l.Failure == "" {
			some = append(some, l)
		}
	}
	return some
}

// figure over the rounds.
func (r *Report) figure(s series, of func(*Load) float64) record.Spread {
	var values []float64
	for _, l := range r.loads(s) {
		values = append(values, of(l))
	}
	spread, _ := record.SpreadOf(values)
	return spread
}

// ratio to another series within each round.
func (r *Report) ratio(s, to series, of func(*Load) float64) (record.Spread, bool) {
	var values []float64
	for _, l := range r.loads(s) {
		for _, base := range r.loads(to) {
			if base.Cycle == l.Cycle && of(base) > 0 {
				values = append(values, of(l)/of(base))
			}
		}
	}
	return record.SpreadOf(values)
}

func p50(l *Load) float64 { return float64(l.P50) }
func p99(l *Load) float64 { return float64(l.P99) }
func got(l *Load) float64 { return l.Got }

// Write writes tables in Markdown.
func (r Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results of %s\n\n", r.Started.UTC().Format("2006-01-02 15:04 MST"))
	b.WriteString("What the columns mean and how the figures came about: [METHOD.md](../../METHOD.md).\n\n")
	fmt.Fprintf(&b, "%d rounds of %s; the watched clients send %g requests a second over %d connections. Medians over the rounds, ratios within each, with the least and the most.\n\n",
		r.Options.Rounds, r.Options.Duration, r.Options.Rate, r.Options.Connections)
	b.WriteString("| neighbour's connections | peer | p50 us | p99 us | p50 x direct | p99 x direct | p99 x without neighbour | errors | the neighbour got: req/s | x direct | errors |\n" + strings.Repeat("| --- ", 11) + "|\n")
	for _, n := range r.Options.Neighbours {
		for _, peer := range Peers() {
			r.writeRow(&b, series{peer, n})
		}
	}
	for _, l := range r.Loads {
		if l.Failure != "" {
			fmt.Fprintf(&b, "\n- %s", l)
		}
	}
	if r.Machine != nil {
		fmt.Fprintf(&b, "\n## Machine\n\n%s", r.Machine)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func ratioText(s record.Spread, ok bool) string { return s.Text(2, ok) }

func (r *Report) writeRow(b *strings.Builder, s series) {
	if len(r.loads(s)) == 0 {
		return
	}
	direct, alone := series{peers.Direct, s.neighbour}, series{s.peer, 0}
	errors, besideErrors := int64(0), int64(0)
	for _, l := range r.loads(s) {
		errors += l.Errors
		besideErrors += l.GotErrors
	}
	fmt.Fprintf(b, "| %d | %s | %.0f | %.0f | %s | %s | %s | %d | %.0f | %s | %d |\n", s.neighbour, s.peer, r.figure(s, p50).Median, r.figure(s, p99).Median,
		ratioText(r.ratio(s, direct, p50)), ratioText(r.ratio(s, direct, p99)), ratioText(r.ratio(s, alone, p99)), errors,
		r.figure(s, got).Median, ratioText(r.ratio(s, direct, got)), besideErrors)
}

// Save writes results.json and results.md into dir.
func (r Report) Save(dir string) error {
	r.Summary = r.summary()
	return record.Save(dir, r, r.Write)
}

// Failures are the loads without figures.
func (r Report) Failures() (n int) {
	for i := range r.Loads {
		if r.Loads[i].Failure != "" {
			n++
		}
	}
	return n
}

// Missed names where a request behind XLB failed, or its p99 is above what it may be to that of direct connections or of sidecars. It also names what
// could not be compared, so that no check is passed by what was not measured.
func (r Report) Missed() (missed []string) {
	for _, n := range r.Options.Neighbours {
		for _, l := range r.loads(series{peers.XLB, n}) {
			if l.Errors > 0 || l.GotErrors > 0 {
				missed = append(missed, fmt.Sprintf("%s: %d errors behind XLB, and %d of the neighbour", nameOf(l), l.Errors, l.GotErrors))
			}
			if n > 0 && l.Got == 0 {
				missed = append(missed, nameOf(l)+": the neighbour behind XLB had no answer")
			}
		}
		// Behind the other peers only what is compared counts.
		for _, peer := range Peers() {
			for _, l := range r.loads(series{peer, n}) {
				if l.Requests == 0 && (peer == peers.XLB || slices.Contains(checked, n)) {
					missed = append(missed, fmt.Sprintf("%s: the watched clients of %s had no answer", nameOf(l), peer))
				}
			}
		}
	}
	for _, n := range checked {
		missed = append(missed, r.missedBeside(n)...)
	}
	return missed
}

func nameOf(l *Load) string {
	return fmt.Sprintf("neighbour of %d connections, round %d", l.Neighbour, l.Cycle)
}

// missedBeside compares beside a neighbour.
func (r *Report) missedBeside(n int) (missed []string) {
	for _, to := range []struct {
		peer string
		most float64
	}{{peers.Direct, mostToDirect}, {peers.Redirected, mostToSidecars}} {
		ratio, ok := r.ratio(series{peers.XLB, n}, series{to.peer, n}, p99)
		if !ok {
			missed = append(missed, fmt.Sprintf("neighbour of %d connections: p99 not compared to that of %s: measure both %s and it beside that neighbour (--peers, --neighbours)", n, to.peer, peers.XLB))
			continue
		}
		if ratio.Median > to.most {
			missed = append(missed, fmt.Sprintf("neighbour of %d connections: p99 is %s times that of %s, which may be %g", n, ratioText(ratio, true), to.peer, to.most))
		}
	}
	return missed
}
