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

// measured is a figure over the rounds, or nil where one of them has none.
func measured(trials []*Trial, of func(*Trial) (float64, bool)) *record.Spread {
	var values []float64
	for _, t := range trials {
		value, ok := of(t)
		if !ok {
			return nil
		}
		values = append(values, value)
	}
	s, ok := record.SpreadOf(values)
	if !ok {
		return nil
	}
	return &s
}

// measuredText is the median, or "-".
func measuredText(trials []*Trial, unit float64, of func(*Trial) (float64, bool)) string {
	s := measured(trials, of)
	if s == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", s.Median/unit)
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

func served(t *Trial) float64             { return float64(t.Reached) }
func idleTaken(t *Trial) (float64, bool)  { return t.Idle.taken() }
func askedTaken(t *Trial) (float64, bool) { return t.Asked.taken() }

func idleCharged(t *Trial) (float64, bool) {
	if t.Idle.Charged == nil {
		return 0, false
	}
	return float64(*t.Idle.Charged), true
}

// taken is what a balancer's processes own and are charged with, where the machine says that.
func (s Stock) taken() (float64, bool) {
	if s.Charged == nil {
		return 0, false
	}
	return float64(s.Anonymous + *s.Charged), true
}

// forEach divides by the services that are served.
func forEach(of func(*Trial) (float64, bool)) func(*Trial) (float64, bool) {
	return func(t *Trial) (float64, bool) {
		value, ok := of(t)
		return value / max(served(t), 1), ok
	}
}

// share is the least that the kernel moved of XLB's requests; others have none.
func share(t *Trial) (float64, bool) {
	return min(t.Fast.Share, t.Paced.Share), t.Peer == peers.XLB
}

func takes(trials []*Trial) []string {
	size := func(of func(*Trial) float64) string { return fmt.Sprintf("%.1f", median(trials, of)/mega) }
	return []string{
		fmt.Sprintf("%.0f", median(trials, served)),
		spread(trials, "%.2f", func(t *Trial) float64 { return t.ReadySeconds }),
		spread(trials, "%.2f", func(t *Trial) float64 { return 100 * t.IdleShare }),
		size(func(t *Trial) float64 { return float64(t.Idle.Anonymous) }),
		measuredText(trials, mega, idleCharged),
		measuredText(trials, mega, idleTaken),
		size(func(t *Trial) float64 { return float64(t.Idle.PSS) }),
		size(func(t *Trial) float64 { return float64(t.Idle.Kernel) }),
		size(func(t *Trial) float64 { return float64(t.Idle.Machine) }),
		measuredText(trials, mega, askedTaken),
		size(func(t *Trial) float64 { return float64(t.Asked.Machine) }),
	}
}

// each divides by the services that are served.
func each(trials []*Trial) []string {
	machine := func(t *Trial) (float64, bool) { return float64(t.Idle.Machine), true }
	return []string{measuredText(trials, kilo, forEach(idleTaken)), measuredText(trials, kilo, forEach(askedTaken)), measuredText(trials, kilo, forEach(machine))}
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
	errors := int64(0)
	for _, t := range trials {
		errors += t.errors()
	}
	shareText := "-"
	if least := measured(trials, share); least != nil {
		shareText = fmt.Sprintf("%.3f", least.Min)
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
// of those services that have one. It also names what could not be compared, so that no check is passed by what was not measured.
func (r Report) Missed() (missed []string) {
	compared := false
	for _, n := range r.Options.Counts {
		missed = append(missed, r.unserved(n)...)
		if n < comparedFrom {
			continue
		}
		compared = true
		if text := r.missedMemory(n); text != "" {
			missed = append(missed, text)
		}
	}
	if !compared {
		missed = append(missed, fmt.Sprintf("memory: not compared, which is from %d services on: measure so many (--count)", comparedFrom))
	}
	return missed
}

// unserved names the trials in which a service or a request behind XLB was not served.
func (r *Report) unserved(n int) (missed []string) {
	trials := r.trials(peers.XLB, n)
	if len(trials) == 0 {
		return []string{fmt.Sprintf("%d services: XLB was not measured", n)}
	}
	for _, t := range trials {
		if t.errors() > 0 || t.Reached < n {
			missed = append(missed, fmt.Sprintf("%d services, round %d: XLB serves %d, with %d errors", n, t.Cycle, t.Reached, t.errors()))
			continue
		}
		if t.Fast.Requests == 0 || t.Paced.Requests == 0 {
			missed = append(missed, fmt.Sprintf("%d services, round %d: a load behind XLB had no answer", n, t.Cycle))
		}
	}
	return missed
}

// missedMemory says that XLB takes more than the sidecars, or why that is not known.
func (r *Report) missedMemory(n int) string {
	trials, sidecars := r.trials(peers.XLB, n), r.trials(peers.Redirected, n)
	if len(trials) == 0 || len(sidecars) == 0 {
		return fmt.Sprintf("%d services: memory not compared: measure both %s and %s (--peers)", n, peers.XLB, peers.Redirected)
	}
	has, may := measured(trials, idleTaken), measured(sidecars, idleTaken)
	if has == nil || may == nil {
		return fmt.Sprintf("%d services: memory not compared: no memory cgroup says what the kernel charges; mount v1's memory controller, or have the root of v2 pass on its own (+memory in cgroup.subtree_control)", n)
	}
	if has.Median > may.Median {
		return fmt.Sprintf("%d services: XLB takes %.1f MB, the sidecars %.1f MB", n, has.Median/mega, may.Median/mega)
	}
	return ""
}
