// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/bench/machine"
	"github.com/xlb-project/xlb/bench/neighbours"
	"github.com/xlb-project/xlb/bench/tools"
)

// newNeighboursCommand measures what one pod does to another; no other peer serves several.
func newNeighboursCommand() *cobra.Command {
	var o neighbours.Options
	var t tools.Tools
	var out string
	var check bool
	cmd := &cobra.Command{
		Use:   "neighbours",
		Short: "Measure the latencies of one pod beside another that takes all it can",
		Long: "Measure the latencies of one pod beside another that takes all it can.\n" +
			"Needs root and iproute2. bench/METHOD.md says what is measured and how.\n" +
			"Exit code 0: done; 1: --check found a p99 too high, or a request that failed; 2: the run failed.",
		Example: "  go run ./bench neighbours --out bench/results/mine --check\n\n" +
			"  # A part of it:\n" +
			"  go run ./bench neighbours --rounds 3 --duration 1s --beside burn,idle --path on",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.XLB, err = t.Find("xlb"); err != nil {
				return err
			}
			o.Describe = func(sysctl func(string) (string, error)) fmt.Stringer { return machine.Describe(sysctl, t) }
			report, err := neighbours.Run(cmd.Context(), o, cmd.ErrOrStderr())
			if len(report.Trials) > 0 {
				// An interrupted run has figures, too.
				if saveErr := report.Save(out); saveErr != nil {
					err = errors.Join(err, fmt.Errorf("save results: %w", saveErr))
				}
			}
			if err != nil {
				return err
			}
			if err := report.Write(cmd.OutOrStdout()); err != nil {
				return err
			}
			if failed := report.Failures(); failed > 0 {
				return fmt.Errorf("%d measurements failed and have no figures; the lines of progress say why", failed)
			}
			return checkNeighbours(cmd, report, check)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Rounds, "rounds", 5, "measurements of each kind under each path")
	flags.DurationVar(&o.Duration, "duration", 3*time.Second, "length of a measurement")
	flags.DurationVar(&o.Warmup, "warmup", 500*time.Millisecond, "load before each measurement, or 0")
	flags.StringSliceVar(&o.Kinds, "beside", nil, "what the hostile pod does: "+strings.Join(neighbours.Kinds()[1:], ", ")+"; default: all in turn")
	flags.StringSliceVar(&o.Paths, "path", nil, "of the requests, as --fast-path of xlb: "+strings.Join(neighbours.Paths(), ", ")+"; default: both")
	flags.Float64Var(&o.Rate, "rate", 2000, "requests a second of the watched pod")
	flags.IntVar(&o.Clients, "clients", 8, "connections that the watched pod keeps")
	flags.BoolVar(&o.Direct, "direct", true, "each kind a second time, too, while the hostile pod connects past XLB")
	flags.IntVar(&o.Connections, "connections", 50000, "connections that the hostile pod tries to open; it stops at its limit of descriptors")
	flags.IntVar(&o.Limit, "limit", 50, "processor time of the hostile pod and its server in hundredths of a processor, where the machine has cgroups' cpu controller; 0: no limit")
	flags.IntVar(&o.Processors, "processors", 1, "how many processors the hostile pod and its server may run on, the last ones; 0: all")
	flags.StringVar(&t.XLB, "xlb", "bin/xlb", "path of the xlb binary")
	flags.StringVar(&out, "out", "bench/results/tmp/neighbours", "directory for results.json and results.md")
	flags.BoolVar(&check, "check", false, "exit with code 1 when a p99 is more than 1.2 times that of the pod alone, or a request of it failed")
	cmd.AddCommand(newNeighboursHostileCommand())
	return cmd
}

// checkNeighbours says what was missed.
func checkNeighbours(cmd *cobra.Command, report neighbours.Report, check bool) error {
	missed := report.Missed()
	for _, one := range missed {
		fmt.Fprintln(cmd.ErrOrStderr(), "missed:", one)
	}
	if check && len(missed) > 0 {
		return errMissed
	}
	return nil
}

func newNeighboursHostileCommand() *cobra.Command {
	var connections int
	var direct bool
	cmd := &cobra.Command{
		Use:     "hostile KIND",
		Short:   "Be the hostile pod; the benchmark runs this inside its namespaces",
		Example: "  go run ./bench neighbours hostile flood",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return neighbours.Be(cmd.Context(), args[0], connections, direct, cmd.OutOrStdout())
		},
	}
	cmd.Flags().IntVar(&connections, "connections", 50000, "connections to open")
	cmd.Flags().BoolVar(&direct, "direct", false, "connect to the servers' own addresses")
	return cmd
}
