// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/bench/heels"
	"github.com/xlb-project/xlb/test/heels/traffic"
)

// newHEELSCommand measures HEELS; it has a network, loads and paths of its own.
func newHEELSCommand() *cobra.Command {
	var o heels.Options
	var xlb, out string
	cmd := &cobra.Command{
		Use:   "heels",
		Short: "Compare HEELS with direct connections and with the balancer's own path",
		Long: "Compare HEELS with direct connections and with the balancer's own path, taking turns.\n" +
			"Needs root, iproute2 and nftables. bench/METHOD.md says what is measured and how.",
		Example: "  go run ./bench heels --rounds 10 --out bench/results/mine",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.XLB, err = (tools{xlb: xlb}).find("xlb"); err != nil {
				return err
			}
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
			return nil
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&o.Rounds, "rounds", 10, "turns of each path under each load")
	flags.DurationVar(&o.Duration, "duration", 3*time.Second, "length of a measurement")
	flags.DurationVar(&o.Warmup, "warmup", time.Second, "load before each measurement, or 0")
	flags.StringVar(&o.Only, "only", "", "measure one kind of load: RR, CRR or set-up")
	flags.StringVar(&xlb, "xlb", "bin/xlb", "path of the xlb binary")
	flags.StringVar(&out, "out", "bench/results/tmp/heels", "directory for results.json, results.md and the plot")
	return cmd
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
