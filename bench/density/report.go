// SPDX-License-Identifier: Apache-2.0

package density

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/record"
)

// Report is all that a run has to say; its JSON is results.json.
type Report struct {
	Started time.Time    `json:"started"`
	Machine fmt.Stringer `json:"machine,omitempty"`
	Options Options      `json:"options"`
	// Files is how many files XLB may have open.
	Files  uint64  `json:"open_files"`
	Trials []Trial `json:"trials"`
	// Summary is made when the report is saved.
	Summary []Row `json:"summary"`
}

// trials of a peer before so many services that have figures.
func (r *Report) trials(peer string, services int) (some []*Trial) {
	for i := range r.Trials {
		if t := &r.Trials[i]; t.Peer == peer && t.Services == services && t.Failure == "" {
			some = append(some, t)
		}
	}
	return some
}

// spreadOf is a figure over the rounds.
func spreadOf(trials []*Trial, of func(*Trial) float64) record.Spread {
	values := make([]float64, len(trials))
	for i, t := range trials {
		values[i] = of(t)
	}
	s, _ := record.SpreadOf(values)
	return s
}

func median(trials []*Trial, of func(*Trial) float64) float64 { return spreadOf(trials, of).Median }

// spread is a figure with the least and the most, as text.
func spread(trials []*Trial, format string, of func(*Trial) float64) string {
	s := spreadOf(trials, of)
	return fmt.Sprintf(format+" ["+format+".."+format+"]", s.Median, s.Min, s.Max)
}

// Write writes tables in Markdown.
func (r Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results of %s\n\n", r.Started.UTC().Format("2006-01-02 15:04 MST"))
	b.WriteString("What the columns mean and how the figures came about: [METHOD.md](../../METHOD.md).\n\n")
	fmt.Fprintf(&b, "%d rounds; loads of %s; %s at rest; Envoys until %d %% of the memory is taken that the machine can give. Medians over the rounds, of rates and times with the least and the most. Each process may have %d files open.\n",
		r.Options.Rounds, r.Options.Duration, r.Options.Idle, r.Options.MemoryPercent, r.Files)
	r.writeTable(&b, "What serving takes, MB", []string{"served", "all answer after s", "% of a processor at rest", "own", "charged", "own + charged", "PSS", "the machine's kernel +", "the machine +", "after load: own + charged", "the machine +"}, takes)
	r.writeTable(&b, "What each service takes, KB", []string{"own + charged", "after load", "the machine"}, each)
	r.writeTable(&b, "Load over all services that are served", []string{"as fast as it may: req/s", "p50 us", "p99 us", "CPU us/req", fmt.Sprintf("%g req/s: p50 us", r.Options.Rate), "p99 us", "CPU us/req", "fast, least", "errors"}, loads)
	for _, t := range r.Trials {
		if t.Failure != "" {
			fmt.Fprintf(&b, "\n- %s", t)
		}
	}
	if r.Machine != nil {
		fmt.Fprintf(&b, "\n## Machine\n\n%s", r.Machine)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeTable writes a row for each number of services and peer.
func (r *Report) writeTable(b *strings.Builder, title string, columns []string, row func([]*Trial) []string) {
	fmt.Fprintf(b, "\n## %s\n\n| services | peer | %s |\n%s|\n", title, strings.Join(columns, " | "), strings.Repeat("| --- ", 2+len(columns)))
	for _, n := range r.Options.Counts {
		for _, peer := range Peers() {
			if trials := r.trials(peer, n); len(trials) > 0 {
				fmt.Fprintf(b, "| %d | %s | %s |\n", n, peer, strings.Join(row(trials), " | "))
			}
		}
	}
}

const mega, kilo = 1e6, 1e3

func served(t *Trial) float64     { return float64(t.Reached) }
func taken(s Stock) float64       { return float64(s.Anonymous + s.Charged) }
func idleTaken(t *Trial) float64  { return taken(t.Idle) }
func askedTaken(t *Trial) float64 { return taken(t.Asked) }

func takes(trials []*Trial) []string {
	size := func(of func(*Trial) float64) string { return fmt.Sprintf("%.1f", median(trials, of)/mega) }
	return []string{
		fmt.Sprintf("%.0f", median(trials, served)),
		spread(trials, "%.2f", func(t *Trial) float64 { return t.ReadySeconds }),
		spread(trials, "%.2f", func(t *Trial) float64 { return 100 * t.IdleShare }),
		size(func(t *Trial) float64 { return float64(t.Idle.Anonymous) }),
		size(func(t *Trial) float64 { return float64(t.Idle.Charged) }),
		size(idleTaken),
		size(func(t *Trial) float64 { return float64(t.Idle.PSS) }),
		size(func(t *Trial) float64 { return float64(t.Idle.Kernel) }),
		size(func(t *Trial) float64 { return float64(t.Idle.Machine) }),
		size(askedTaken),
		size(func(t *Trial) float64 { return float64(t.Asked.Machine) }),
	}
}

// each divides by the services that are served.
func each(trials []*Trial) []string {
	size := func(of func(*Trial) float64) string {
		return fmt.Sprintf("%.1f", median(trials, func(t *Trial) float64 { return of(t) / max(served(t), 1) })/kilo)
	}
	return []string{size(idleTaken), size(askedTaken), size(func(t *Trial) float64 { return float64(t.Idle.Machine) })}
}

func loads(trials []*Trial) []string {
	load := func(of func(*Trial) Load) []string {
		return []string{
			spread(trials, "%.0f", func(t *Trial) float64 { return float64(of(t).P50) }), spread(trials, "%.0f", func(t *Trial) float64 { return float64(of(t).P99) }),
			fmt.Sprintf("%.1f", median(trials, func(t *Trial) float64 { return of(t).CPU })),
		}
	}
	row := append([]string{spread(trials, "%.0f", func(t *Trial) float64 { return t.Fast.Rate })}, load(func(t *Trial) Load { return t.Fast })...)
	row = append(row, load(func(t *Trial) Load { return t.Paced })...)
	errors, share := int64(0), 1.0
	for _, t := range trials {
		errors += t.errors()
		share = min(share, t.Fast.Share, t.Paced.Share)
	}
	shareText := "-"
	if trials[0].Peer == peers.XLB {
		shareText = fmt.Sprintf("%.3f", share)
	}
	return append(row, shareText, fmt.Sprint(errors))
}

// Save writes results.json and results.md into dir.
func (r Report) Save(dir string) error {
	r.Summary = r.summary()
	return record.Save(dir, r, r.Write)
}

// Failures are the trials without figures.
func (r Report) Failures() (n int) {
	for i := range r.Trials {
		if r.Trials[i].Failure != "" {
			n++
		}
	}
	return n
}

// comparedFrom is the number of services from which on one XLB for all is to take less memory than sidecars.
const comparedFrom = 100

// Missed names what XLB misses: it serves every service, without an error, and from comparedFrom services on with no more memory than the sidecars take
// of those services that have one.
func (r Report) Missed() (missed []string) {
	for _, n := range r.Options.Counts {
		trials := r.trials(peers.XLB, n)
		for _, t := range trials {
			if t.errors() > 0 || t.Reached < n {
				missed = append(missed, fmt.Sprintf("%d services, round %d: XLB serves %d, with %d errors", n, t.Cycle, t.Reached, t.errors()))
			}
		}
		sidecars := r.trials(peers.Redirected, n)
		if n < comparedFrom || len(trials) == 0 || len(sidecars) == 0 {
			continue
		}
		has, may := median(trials, idleTaken), median(sidecars, idleTaken)
		if has > may {
			missed = append(missed, fmt.Sprintf("%d services: XLB takes %.1f MB, the sidecars %.1f MB", n, has/mega, may/mega))
		}
	}
	return missed
}
