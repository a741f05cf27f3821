// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/bench/heels"
	"github.com/xlb-project/xlb/bench/machine"
	"github.com/xlb-project/xlb/bench/tools"
	"github.com/xlb-project/xlb/test/heels/traffic"
)

// newHEELSCommand measures HEELS; it has a network, loads and paths of its own.
func newHEELSCommand() *cobra.Command {
	var o heels.Options
	var t tools.Tools
	var out string
	var check bool
	cmd := &cobra.Command{
		Use:   "heels",
		Short: "Compare HEELS with direct connections and with the balancer's own path",
		Long: "Compare HEELS with direct connections and with the balancer's own path, taking turns.\n" +
			"Needs root, iproute2 and nftables, and nginx and wrk for the case wrk. bench/METHOD.md says what is measured and how.\n" +
			"Exit code 0: done; 1: --check found a target missed; 2: the run failed.",
		Example: "  go run ./bench heels --rounds 10 --out bench/results/mine --check\n\n" +
			"  # Ten minutes:\n" +
			"  go run ./bench heels --rounds 5 --duration 1s --warmup 200ms\n\n" +
			"  # A part of it:\n" +
			"  go run ./bench heels --case rr,crr --balancer IPIP",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := findPrograms(&o, t); err != nil {
				return err
			}
			o.Describe = func(sysctl func(string) (string, error)) fmt.Stringer { return machine.Describe(sysctl, t) }
			report, err := heels.Run(cmd.Context(), o, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := report.Save(out); err != nil {
				return fmt.Errorf("save results: %w", err)
			}
			if err := report.Write(cmd.OutOrStdout()); err != nil {
				return err
			}
			if failed := report.Failures(); failed > 0 {
				return fmt.Errorf("%d turns failed and have no figures; the lines of progress say why", failed)
			}
			if check && !report.Met() {
				return errMissed
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Rounds, "rounds", 10, "turns of each path under each load")
	flags.DurationVar(&o.Duration, "duration", 3*time.Second, "length of a measurement; wrk takes the next whole second")
	flags.DurationVar(&o.Warmup, "warmup", time.Second, "load before each measurement, or 0")
	flags.StringSliceVar(&o.Cases, "case", nil, "what is measured: "+strings.Join(heels.Cases(), ", ")+"; default: all")
	flags.StringSliceVar(&o.Balancers, "balancer", nil, "with which balancers: "+strings.Join(heels.Balancers(), ", ")+"; default: all")
	flags.StringVar(&t.XLB, "xlb", "bin/xlb", "path of the xlb binary")
	flags.StringVar(&out, "out", "bench/results/tmp/heels", "directory for results.json, results.md and plots")
	flags.BoolVar(&check, "check", false, "exit with code 1 when a target of what was measured is missed")
	return cmd
}

// findPrograms finds what a run needs.
func findPrograms(o *heels.Options, t tools.Tools) (err error) {
	if o.XLB, err = t.Find("xlb"); err != nil {
		return err
	}
	if !o.NeedsHTTP() {
		return nil
	}
	if o.NGINX, err = t.Find("nginx"); err != nil {
		return err
	}
	o.Wrk, err = t.Find("wrk")
	return err
}

// newTrafficCommand is client and server of that.
func newTrafficCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "traffic ROLE OPTIONS",
		Short:   "Be client or server of connections whose every byte is compared; the benchmark runs this inside its namespaces",
		Example: `  go run ./bench traffic server '{"name":"s1","listen":["127.0.0.1:8080"]}'`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return traffic.Main(cmd.Context(), args[0], args[1], cmd.OutOrStdout())
		},
	}
}
