// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/bench/interference"
	"github.com/xlb-project/xlb/bench/machine"
	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/tools"
)

// newInterferenceCommand measures clients beside a neighbour, all of them pods; the case of that name has all in one network namespace.
func newInterferenceCommand() *cobra.Command {
	var o interference.Options
	var t tools.Tools
	var out string
	var check bool
	cmd := &cobra.Command{
		Use:   "interference",
		Short: "Measure the latencies of one pod's clients beside a neighbour's load: one XLB, or an Envoy in each pod",
		Long: "Measure the latencies of one pod's clients beside a neighbour's load: one XLB for the host, or an Envoy in each pod, to which rules of the pod redirect.\n" +
			"Needs root, iproute2, nginx and wrk, and Envoy and nftables for that peer. bench/METHOD.md says what is measured and how.\n" +
			"Exit code 0: done; 1: --check found a p99 too high or not compared, or a request that failed; 2: the run failed.",
		Example: "  go run ./bench interference --out bench/results/mine --check\n\n" +
			"  # A glance of a minute:\n" +
			"  go run ./bench interference --rounds 1 --duration 1s --neighbours 0,8",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Tools, err = podTools(t, slices.Contains(o.Peers, peers.Redirected)); err != nil {
				return err
			}
			if o.Wrk, err = t.Find("wrk"); err != nil {
				return err
			}
			o.Describe = func(sysctl func(string) (string, error)) fmt.Stringer { return machine.Describe(sysctl, t) }
			report, err := interference.Run(cmd.Context(), o, cmd.ErrOrStderr())
			return finish(cmd, finished{report: report, has: len(report.Loads) > 0, failures: report.Failures(), missed: report.Missed(), out: out, check: check}, err)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&o.Peers, "peers", interference.Peers(), "who serves the pods: "+strings.Join(interference.Peers(), ", "))
	flags.IntSliceVar(&o.Neighbours, "neighbours", []int{0, 8, 32, 64, 128}, "the neighbour's connections, fewer first; 0: none")
	flags.IntVar(&o.Rounds, "rounds", 5, "measurements of each peer beside each neighbour")
	flags.DurationVar(&o.Duration, "duration", 3*time.Second, "length of a measurement, in whole seconds")
	flags.DurationVar(&o.Warmup, "warmup", time.Second, "the watched clients' load before each, or 0")
	flags.Float64Var(&o.Rate, "rate", 1000, "the watched clients' requests a second")
	flags.IntVar(&o.Connections, "connections", 5, "that the watched clients keep")
	addPodFlags(cmd, &t, &out, &check, "interference")
	return cmd
}
