// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/bench/machine"
	"github.com/xlb-project/xlb/bench/namespaces"
	"github.com/xlb-project/xlb/bench/tools"
)

// newNamespacesCommand compares XLB between network namespaces with XLB within one.
func newNamespacesCommand() *cobra.Command {
	var o namespaces.Options
	var t tools.Tools
	var out string
	var check bool
	cmd := &cobra.Command{
		Use:   "namespaces",
		Short: "Compare XLB's throughput between pods with that within one network namespace",
		Long: "Compare XLB's throughput between pods with that within one network namespace, on one host and on two, taking turns.\n" +
			"Needs root, iproute2, nginx and wrk. bench/METHOD.md says what is measured and how.\n" +
			"Exit code 0: done; 1: --check found less than 0.97 times the requests, or one that failed; 2: the run failed.",
		Example: "  go run ./bench namespaces --out bench/results/mine --check\n\n" +
			"  # A glance of a minute:\n" +
			"  go run ./bench namespaces --rounds 2 --duration 1s --connections 32",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Tools, err = podTools(t, false); err != nil {
				return err
			}
			if o.Wrk, err = t.Find("wrk"); err != nil {
				return err
			}
			o.Describe = func(sysctl func(string) (string, error)) fmt.Stringer { return machine.Describe(sysctl, t) }
			report, err := namespaces.Run(cmd.Context(), o, cmd.ErrOrStderr())
			return finish(cmd, finished{report: report, has: len(report.Loads) > 0, failures: report.Failures(), missed: report.Missed(), out: out, check: check}, err)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.Topologies, "topology", namespaces.Topologies(), "where the server is: "+strings.Join(namespaces.Topologies(), ", "))
	flags.IntSliceVar(&o.Connections, "connections", []int{1, 32, 128}, "kept-alive connections")
	flags.IntVar(&o.Rounds, "rounds", 11, "of each; in each round both places are measured twice")
	flags.DurationVar(&o.Duration, "duration", 2*time.Second, "length of a load, in whole seconds")
	flags.DurationVar(&o.Warmup, "warmup", time.Second, "load before each, in whole seconds, or 0")
	addPodFlags(cmd, &t, &out, &check, "namespaces")
	return cmd
}
