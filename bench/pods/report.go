// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/xlb-project/xlb/bench/record"
)

// Report is all that a run has to say; its JSON is results.json.
type Report struct {
	Started time.Time    `json:"started"`
	Machine fmt.Stringer `json:"machine,omitempty"`
	Options Options      `json:"options"`
	Churn   *Churn       `json:"churn,omitempty"`
	Memory  []Memory     `json:"memory,omitempty"`
}

// Write writes tables in Markdown.
func (r Report) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Results of %s\n\n", r.Started.UTC().Format("2006-01-02 15:04 MST"))
	b.WriteString("What the columns mean and how the figures came about: [METHOD.md](../../METHOD.md).\n")
	if r.Churn != nil {
		r.Churn.write(&b, r.Options)
	}
	if len(r.Memory) > 0 {
		r.writeMemory(&b)
		r.writeEach(&b)
	}
	if r.Machine != nil {
		fmt.Fprintf(&b, "\n## Machine\n\n%s", r.Machine)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (c Churn) write(b *strings.Builder, o Options) {
	fmt.Fprintf(b, "\n## Pods that come and go: %g a second for %s, each served for %s\n\n", o.Rate, o.Duration, o.Life)
	b.WriteString("| served | failed | requests | after, p50 ms | p99 | max | workloads at most | the last left after s | namespaces left | % of a processor |\n" + strings.Repeat("| --- ", 10) + "|\n")
	fmt.Fprintf(b, "| %d | %d | %d | %.2f | %.2f | %.1f | %.0f | %.2f | %d | %.1f |\n", c.Pods.Joined, c.Pods.Failed, c.Pods.Requests,
		milliseconds(c.Pods.Median), milliseconds(c.Pods.P99), milliseconds(c.Pods.Slowest), c.Peak, c.LeftSeconds, c.Namespaces, 100*c.Processor)
	for _, failure := range c.Pods.Failures {
		fmt.Fprintf(b, "\n- %s", failure)
	}
	b.WriteString("\n| load in | requests | failed | p50 us | p99 us | alone: p50 us | p99 us |\n" + strings.Repeat("| --- ", 7) + "|\n")
	for _, n := range c.Neighbours {
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %d | %d |\n", n.Where, n.Requests, n.Errors, n.P50, n.P99, n.Alone50, n.Alone99)
	}
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

func (r Report) writeMemory(b *strings.Builder) {
	b.WriteString("\n## Memory of pods that stay, KB\n\n| pods | when | own | charged | own + charged | PSS | the machine's kernel + | descriptors | % of a processor |\n" + strings.Repeat("| --- ", 9) + "|\n")
	for _, m := range r.Memory {
		for _, s := range m.Stages {
			fmt.Fprintf(b, "| %d | %s | %d | %d | %d | %d | %d | %d | %.2f |\n", m.Pods, s.Name, s.Anonymous>>10, s.Charged>>10, (s.Anonymous+s.Charged)>>10, s.PSS>>10, s.Kernel>>10, s.Descriptors, 100*s.Processor)
		}
	}
}

// writeEach writes what a pod more takes: the differences to the fewest pods of the run.
func (r Report) writeEach(b *strings.Builder) {
	if len(r.Memory) < 2 {
		return
	}
	first := r.Memory[0]
	b.WriteString("\n## Memory of each pod, KB\n\n| pods | when | own | charged | own + charged | the machine's kernel | descriptors |\n" + strings.Repeat("| --- ", 7) + "|\n")
	for _, m := range r.Memory[1:] {
		for i, s := range m.Stages {
			from, n := first.Stages[i].Stock, float64(m.Pods-first.Pods)
			each := func(a, b int64) float64 { return float64(a-b) / n / 1024 }
			fmt.Fprintf(b, "| %d | %s | %.1f | %.1f | %.1f | %.1f | %.1f |\n", m.Pods, s.Name, each(s.Anonymous, from.Anonymous), each(s.Charged, from.Charged),
				each(s.Anonymous+s.Charged, from.Anonymous+from.Charged), each(s.Kernel, from.Kernel), float64(s.Descriptors-from.Descriptors)/n)
		}
	}
}

// Save writes results.json and results.md into dir.
func (r Report) Save(dir string) error { return record.Save(dir, r, r.Write) }

// Lost reports whether a request failed, a pod was not served, or something of one that has gone was left.
func (r Report) Lost() bool {
	if r.Churn == nil {
		return false
	}
	lost := r.Churn.Pods.Failed > 0 || r.Churn.Namespaces > 0 || r.Churn.FailedJoins > 0
	for _, n := range r.Churn.Neighbours {
		lost = lost || n.Errors > 0
	}
	return lost
}
