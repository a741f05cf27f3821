// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/bench/machine"
	"github.com/xlb-project/xlb/bench/pods"
	"github.com/xlb-project/xlb/bench/tools"
)

// newPodsCommand measures one daemon that serves many network namespaces; no other peer does.
func newPodsCommand() *cobra.Command {
	var o pods.Options
	var t tools.Tools
	var out string
	var check bool
	cmd := &cobra.Command{
		Use:   "pods",
		Short: "Measure one XLB that serves the pods of a host, which come and go, and what memory they take",
		Long: "Measure one XLB that serves the pods of a host, which come and go, and what memory they take.\n" +
			"Needs root, iproute2 and the machine's own PID namespace. bench/METHOD.md says what is measured and how.\n" +
			"Exit code 0: done; 1: --check found a request that failed, or something left; 2: the run failed.",
		Example: "  go run ./bench pods --out bench/results/mine --check\n\n" +
			"  # The memory alone:\n" +
			"  go run ./bench pods --rate 0 --count 1,100",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.XLB, err = t.Find("xlb"); err != nil {
				return err
			}
			if slices.Equal(o.Counts, []int{0}) {
				o.Counts = nil
			}
			o.Describe = func(sysctl func(string) (string, error)) fmt.Stringer { return machine.Describe(sysctl, t) }
			report, err := pods.Run(cmd.Context(), o, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := report.Save(out); err != nil {
				return fmt.Errorf("save results: %w", err)
			}
			if err := report.Write(cmd.OutOrStdout()); err != nil {
				return err
			}
			if check && report.Lost() {
				return errMissed
			}
			return nil
		},
	}
	addChurnFlags(cmd, &o)
	flags := cmd.Flags()
	flags.IntSliceVar(&o.Counts, "count", []int{1, 250, 1000}, "pods that stay, of which the memory is measured, fewer first; 0: none")
	flags.StringVar(&t.XLB, "xlb", "bin/xlb", "path of the xlb binary")
	flags.StringVar(&out, "out", "bench/results/tmp/pods", "directory for results.json and results.md")
	flags.BoolVar(&check, "check", false, "exit with code 1 when a request failed or something of a pod was left")
	cmd.AddCommand(newPodsChurnCommand(), newPodsCrowdCommand())
	return cmd
}

func addChurnFlags(cmd *cobra.Command, o *pods.Options) {
	flags := cmd.Flags()
	flags.Float64Var(&o.Rate, "rate", 100, "pods that begin a second; 0: none")
	flags.DurationVar(&o.Duration, "duration", time.Minute, "how long pods begin")
	flags.DurationVar(&o.Life, "life", time.Second, "how long a pod lives once it is served")
	flags.IntVar(&o.Processes, "processes", 4, "every so many-th pod has a process, the others a thread alone; 0: none has")
}

func newPodsChurnCommand() *cobra.Command {
	var o pods.Options
	cmd := &cobra.Command{
		Use:     "churn",
		Short:   "Be pods that come and go; the benchmark runs this inside its namespaces",
		Example: "  go run ./bench pods churn --rate 10 --duration 3s",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return pods.Come(cmd.Context(), o, cmd.OutOrStdout()) },
	}
	addChurnFlags(cmd, &o)
	return cmd
}

func newPodsCrowdCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "crowd COUNT",
		Short:   "Be pods that stay, and ask when a line of input says so; the benchmark runs this inside its namespaces",
		Example: "  go run ./bench pods crowd 10",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := strconv.Atoi(args[0])
			if err != nil {
				return fmt.Errorf("COUNT: %w", err)
			}
			return pods.Crowd(n, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}
