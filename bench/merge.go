// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/bench/report"
)

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
			reports := make([]report.Report, len(dirs))
			for i, dir := range dirs {
				var err error
				if reports[i], err = report.Read(dir); err != nil {
					return err
				}
			}
			merged, err := report.Merge(reports)
			if err != nil {
				return err
			}
			return merged.Save(out)
		},
	}
	cmd.Flags().StringVar(&out, "out", "bench/results/tmp", "directory for results.json, results.md and plots")
	return cmd
}
