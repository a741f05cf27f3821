// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/record"
)

const (
	// least is what XLB's throughput between pods may be at least, as a multiple of that within one namespace.
	least = 0.97
	// leastFast is the share of requests that the kernel must have moved: otherwise it is the proxy that was measured.
	leastFast = 0.95
)

// Report is all that a run has to say; its JSON is results.json.
type Report struct {
	Started time.Time    `json:"started"`
	Machine fmt.Stringer `json:"machine,omitempty"`
	Options Options      `json:"options"`
	Loads   []Load       `json:"loads"`
	// Summary is made when the report is saved.
	Summary []Row `json:"summary"`
}

// series are loads of which each round has one or two.
type series struct {
	topology    string
	connections int
	peer        string
	pods        bool
}

// loads that have figures; round 0: of all rounds.
func (r *Report) loads(s series, round int) (some []*Load) {
	for i := range r.Loads {
		l := &r.Loads[i]
		if (series{l.Topology, l.Connections, l.Peer, l.Pods}) == s && l.Failure == "" && (round == 0 || l.Cycle == round) {
			some = append(some, l)
		}
	}
	return some
}

// mean of a round; 0: it has no figures.
func (r *Report) mean(s series, round int, of func(*Load) float64) float64 {
	loads := r.loads(s, round)
	sum := 0.0
	for _, l := range loads {
		sum += of(l)
	}
	return sum / float64(max(len(loads), 1))
}

// ratio to another series, of the means of each round.
func (r *Report) ratio(s, to series, of func(*Load) float64) (record.Spread, bool) {
	var values []float64
	for round := range r.Options.Rounds {
		if has, base := r.mean(s, round+1, of), r.mean(to, round+1, of); has > 0 && base > 0 {
			values = append(values, has/base)
		}
	}
	return record.SpreadOf(values)
}

// figure over the rounds.
func (r *Report) figure(s series, of func(*Load) float64) record.Spread {
	var values []float64
	for _, l := range r.loads(s, 0) {
		values = append(values, of(l))
	}
	spread, _ := record.SpreadOf(values)
	return spread
}

func rate(l *Load) float64 { return l.Rate }
func p50(l *Load) float64  { return float64(l.P50) }
func p99(l *Load) float64  { return float64(l.P99) }
func fast(l *Load) float64 { return l.Fast }

// Write writes tables in Markdown.
func (r Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results of %s\n\n", r.Started.UTC().Format("2006-01-02 15:04 MST"))
	b.WriteString("What the columns mean and how the figures came about: [METHOD.md](../../METHOD.md).\n\n")
	fmt.Fprintf(&b, "%d rounds; loads of %s behind %s. Medians over the rounds, ratios within each, with the least and the most.\n\n", r.Options.Rounds, r.Options.Duration, r.Options.Warmup)
	b.WriteString("| host | connections | peer | one namespace: req/s | p50 us | p99 us | pods: req/s | p50 us | p99 us | req/s x one namespace | p50 x one namespace | fast | errors |\n" + strings.Repeat("| --- ", 13) + "|\n")
	for _, topology := range r.Options.Topologies {
		for _, connections := range r.Options.Connections {
			for _, peer := range []string{peers.Direct, peers.XLB} {
				r.writeRow(&b, series{topology, connections, peer, true})
			}
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

func ratioText(s record.Spread, ok bool) string { return s.Text(3, ok) }

func (r *Report) writeRow(b *strings.Builder, pods series) {
	one := pods
	one.pods = false
	if len(r.loads(one, 0))+len(r.loads(pods, 0)) == 0 {
		return
	}
	fastText := "-"
	if pods.peer == peers.XLB {
		fastText = fmt.Sprintf("%.3f", min(r.figure(one, fast).Min, r.figure(pods, fast).Min))
	}
	failed := int64(0)
	for _, s := range []series{one, pods} {
		for _, l := range r.loads(s, 0) {
			failed += l.Errors
		}
	}
	fmt.Fprintf(b, "| %s | %d | %s | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %s | %s | %s | %d |\n", pods.topology, pods.connections, pods.peer,
		r.figure(one, rate).Median, r.figure(one, p50).Median, r.figure(one, p99).Median, r.figure(pods, rate).Median, r.figure(pods, p50).Median, r.figure(pods, p99).Median,
		ratioText(r.ratio(pods, one, rate)), ratioText(r.ratio(pods, one, p50)), fastText, failed)
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

// Missed names where XLB's throughput between pods is less than 0.97 times that within one namespace, a request failed, or the kernel moved too few.
func (r Report) Missed() (missed []string) {
	for _, topology := range r.Options.Topologies {
		for _, connections := range r.Options.Connections {
			missed = append(missed, r.missed(series{topology, connections, peers.XLB, true})...)
		}
	}
	return missed
}

func (r *Report) missed(pods series) (missed []string) {
	name := fmt.Sprintf("%s host, %d connections", pods.topology, pods.connections)
	one := pods
	one.pods = false
	for _, s := range []series{one, pods} {
		for _, l := range r.loads(s, 0) {
			if l.Errors > 0 || l.Fast < leastFast {
				missed = append(missed, fmt.Sprintf("%s, %s, round %d: %d errors, and the kernel moved %.3f of the requests, which must be %g", name, placeName(s.pods), l.Cycle, l.Errors, l.Fast, leastFast))
			}
		}
	}
	to, ok := r.ratio(pods, one, rate)
	if !ok {
		return append(missed, name+": requests not compared, because one place has no answer in any round")
	}
	if to.Median < least {
		direct, has := r.ratio(series{pods.topology, pods.connections, peers.Direct, true}, series{pods.topology, pods.connections, peers.Direct, false}, rate)
		missed = append(missed, fmt.Sprintf("%s: between pods %s times the requests of one namespace, which must be %g; direct connections have %s", name, ratioText(to, true), least, ratioText(direct, has)))
	}
	return missed
}
