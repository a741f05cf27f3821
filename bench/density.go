// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/bench/density"
	"github.com/xlb-project/xlb/bench/machine"
	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/podnet"
	"github.com/xlb-project/xlb/bench/tools"
)

// newDensityCommand measures services that are pods; the case of that name has all services in one network namespace.
func newDensityCommand() *cobra.Command {
	var o density.Options
	var t tools.Tools
	var out string
	var check bool
	cmd := &cobra.Command{
		Use:   "density",
		Short: "Measure what serving 1 to 1,000 pods takes: one XLB, or an Envoy in each",
		Long: "Measure what serving 1 to 1,000 pods takes: one XLB for the host, or an Envoy in each pod until memory ends.\n" +
			"Each service is a network namespace with a process of its own. Needs root, iproute2 and nginx, and Envoy and nftables for that peer.\n" +
			"bench/METHOD.md says what is measured and how.\n" +
			"Exit code 0: done; 1: --check found a request that failed, a service that XLB did not serve, more memory than sidecars take, or that this was not compared; 2: the run failed.",
		Example: "  go run ./bench density --out bench/results/mine --check\n\n" +
			"  # A glance of a minute:\n" +
			"  go run ./bench density --count 1,20 --rounds 1 --duration 1s --idle 2s",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Tools, err = podTools(t, slices.Contains(o.Peers, peers.Redirected)); err != nil {
				return err
			}
			o.Describe = func(sysctl func(string) (string, error)) fmt.Stringer { return machine.Describe(sysctl, t) }
			report, err := density.Run(cmd.Context(), o, cmd.ErrOrStderr())
			return finish(cmd, finished{report: report, has: len(report.Trials) > 0, failures: report.Failures(), missed: report.Missed(), out: out, check: check}, err)
		},
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&o.Counts, "count", []int{1, 100, 1000}, "services, fewer first")
	flags.StringSliceVar(&o.Peers, "peers", density.Peers(), "who serves them: "+strings.Join(density.Peers(), ", "))
	flags.IntVar(&o.Rounds, "rounds", 3, "measurements of each peer before each number of services")
	flags.DurationVar(&o.Duration, "duration", 5*time.Second, "length of each load")
	flags.DurationVar(&o.Warmup, "warmup", time.Second, "load before the first, or 0")
	flags.DurationVar(&o.Idle, "idle", 10*time.Second, "how long no client asks, and again while the processor time at rest is measured")
	flags.Float64Var(&o.Rate, "rate", 1000, "requests a second of the second load")
	flags.IntVar(&o.Connections, "connections", 8, "the least; there is one for each service that is served")
	flags.IntVar(&o.MemoryPercent, "memory", 85, "how much of the available memory Envoys may take, in percent")
	addPodFlags(cmd, &t, &out, &check, "density")
	return cmd
}

// podTools finds the programs of pods.
func podTools(t tools.Tools, sidecars bool) (p podnet.Tools, err error) {
	find := func(tool string, into *string) {
		path, findErr := t.Find(tool)
		*into, err = path, errors.Join(err, findErr)
	}
	find("xlb", &p.XLB)
	find("nginx", &p.NGINX)
	if sidecars {
		find("envoy", &p.Envoy)
		find("nft", &p.NFT)
	}
	return p, err
}

func addPodFlags(cmd *cobra.Command, t *tools.Tools, out *string, check *bool, name string) {
	flags := cmd.Flags()
	flags.StringVar(&t.XLB, "xlb", "bin/xlb", "path of the xlb binary")
	flags.StringVar(out, "out", "bench/results/tmp/"+name, "directory for results.json and results.md")
	flags.BoolVar(check, "check", false, "exit with code 1 when a bound is missed")
}
