// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/xlb-project/xlb/bench/cases"
)

// Part is one run of a merged report.
type Part struct {
	Started  time.Time     `json:"started"`
	Case     string        `json:"case"`
	Topology string        `json:"topology"`
	Rounds   int           `json:"rounds"`
	Duration time.Duration `json:"duration_ns"`
	Warmup   time.Duration `json:"warmup_ns"`
	XLB      string        `json:"xlb"`
}

func (p Part) String() string {
	return fmt.Sprintf("%s, %s host: begun %s, %d rounds of %s each after %s of warm-up, %s", p.Case, p.Topology,
		p.Started.UTC().Format("2006-01-02 15:04"), p.Rounds, p.Duration, p.Warmup, p.XLB)
}

// Read reads the results.json of a directory.
func Read(dir string) (Report, error) {
	path := filepath.Join(dir, "results.json")
	content, err := os.ReadFile(path)
	if err != nil {
		return Report{}, err
	}
	var r Report
	if err := json.Unmarshal(content, &r); err != nil {
		return Report{}, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// Merge refuses reports of several machines, and two of the same load, whose rounds would be mixed.
func Merge(reports []Report) (Report, error) {
	merged := Report{Started: reports[0].Started, Machine: reports[0].Machine, Options: reports[0].Options, Skipped: map[string]string{}}
	merged.Options.Topology = cases.All
	type turn struct {
		topology string
		load     cases.Load
		peer     string
		round    int
	}
	seen := map[turn]bool{}
	for _, r := range reports {
		if r.Machine.Kernel != merged.Machine.Kernel || r.Machine.CPUModel != merged.Machine.CPUModel || r.Machine.CPUs != merged.Machine.CPUs {
			return Report{}, errors.New("the reports are of several machines: merge those of one")
		}
		for _, m := range r.Measurements {
			t := turn{string(m.Topology), m.Load, m.Peer, m.Round}
			if seen[t] {
				return Report{}, fmt.Errorf("%s host, %s, of %s is in two reports: merge other cases", m.Topology, m.Load, m.Peer)
			}
			seen[t] = true
		}
		merged.Measurements = append(merged.Measurements, r.Measurements...)
		merged.Parts = append(merged.Parts, Part{
			Started: r.Started, Case: r.Options.Case, Topology: r.Options.Topology, Rounds: r.Options.Rounds,
			Duration: r.Options.Duration, Warmup: r.Options.Warmup, XLB: r.Machine.Versions["xlb"],
		})
	}
	merged.Conclude()
	return merged, nil
}
