// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
)

// part is one run of a merged report.
type part struct {
	Started  time.Time     `json:"started"`
	Case     string        `json:"case"`
	Topology string        `json:"topology"`
	Rounds   int           `json:"rounds"`
	Duration time.Duration `json:"duration_ns"`
	Warmup   time.Duration `json:"warmup_ns"`
	XLB      string        `json:"xlb"`
}

func (p part) String() string {
	return fmt.Sprintf("%s, %s host: begun %s, %d rounds of %s each after %s of warm-up, %s", p.Case, p.Topology,
		p.Started.UTC().Format("2006-01-02 15:04"), p.Rounds, p.Duration, p.Warmup, p.XLB)
}

func newMergeCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "merge DIR...",
		Short: "Make one report of several runs on one machine",
		Long: "Make one report of several runs on one machine, each of other cases.\n" +
			"All cases at once take a working day. Figures are compared within a round of one run only, as always.",
		Example: "  go run ./bench merge --out bench/results/mine /tmp/keepalive /tmp/short",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, dirs []string) error {
			reports := make([]report, len(dirs))
			for i, dir := range dirs {
				var err error
				if reports[i], err = readReport(dir); err != nil {
					return err
				}
			}
			merged, err := mergeReports(reports)
			if err != nil {
				return err
			}
			return merged.save(out)
		},
	}
	cmd.Flags().StringVar(&out, "out", "bench/results/tmp", "directory for results.json, results.md and plots")
	return cmd
}

func readReport(dir string) (report, error) {
	path := filepath.Join(dir, "results.json")
	content, err := os.ReadFile(path)
	if err != nil {
		return report{}, err
	}
	var r report
	if err := json.Unmarshal(content, &r); err != nil {
		return report{}, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// mergeReports refuses reports of several machines, and two of the same load, whose rounds would be mixed.
func mergeReports(reports []report) (report, error) {
	merged := report{Started: reports[0].Started, Machine: reports[0].Machine, Options: reports[0].Options, Skipped: map[string]string{}}
	merged.Options.Topology = all
	type turn struct {
		topology string
		load     load
		peer     string
		round    int
	}
	seen := map[turn]bool{}
	for _, r := range reports {
		if r.Machine.Kernel != merged.Machine.Kernel || r.Machine.CPUModel != merged.Machine.CPUModel || r.Machine.CPUs != merged.Machine.CPUs {
			return report{}, errors.New("the reports are of several machines: merge those of one")
		}
		for _, m := range r.Measurements {
			t := turn{string(m.Topology), m.load, m.Peer, m.Round}
			if seen[t] {
				return report{}, fmt.Errorf("%s host, %s, of %s is in two reports: merge other cases", m.Topology, m.load, m.Peer)
			}
			seen[t] = true
		}
		merged.Measurements = append(merged.Measurements, r.Measurements...)
		merged.Parts = append(merged.Parts, part{
			Started: r.Started, Case: r.Options.Case, Topology: r.Options.Topology, Rounds: r.Options.Rounds,
			Duration: r.Options.Duration, Warmup: r.Options.Warmup, XLB: r.Machine.Versions["xlb"],
		})
	}
	merged.Summary = summarise(merged.Measurements)
	merged.Targets = judge(merged.Summary, projectTargets)
	return merged, nil
}
