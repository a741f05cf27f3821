// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/peers"
)

// Exit codes: a missed target is an answer, an error is none.
const (
	exitMissed = 1
	exitError  = 2
)

var errMissed = errors.New("targets missed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	switch {
	case err == nil:
	case errors.Is(err, errMissed):
		os.Exit(exitMissed)
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(exitError)
	}
}

func newCommand() *cobra.Command {
	var o cases.Options
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Compare XLB with a direct connection and with other balancers",
		Long: "Compare XLB with a direct connection and with other balancers, taking turns.\n" +
			"Needs root, nginx, wrk and iproute2; haproxy and envoy where they are to be compared.\n" +
			"bench/METHOD.md says what is measured and how. Peers: " + strings.Join(peers.Names(), ", ") + ".\n" +
			"Exit code 0: done; 1: --check found a target missed; 2: the run failed.",
		Example: "  # Everything; a working day:\n" +
			"  go run ./bench --out bench/results/mine --check\n\n" +
			"  # A glance of half a minute:\n" +
			"  go run ./bench --topology same --case keepalive --connections 32 --rounds 2 --duration 1s --peers direct,xlb,envoy",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return compare(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	cmd.AddCommand(newLoadCommand(), newWebSocketCommand(), newEchoCommand(), newClientsCommand(), newStationCommand(), newServiceCommand(), newAwaitCommand(), newControlCommand(), newProbeCommand(), newHEELSCommand(), newTrafficCommand(), newPodsCommand(), newNeighboursCommand(), newDensityCommand(), newInterferenceCommand(), newNamespacesCommand(), newMergeCommand(), newQuotesCommand())
	return cmd
}

// compare runs the benchmark, saves and prints its results.
func compare(ctx context.Context, o cases.Options, stdout, progress io.Writer) error {
	if err := o.Validate(peers.Names()); err != nil {
		return err
	}
	r, err := run(ctx, o, progress)
	if err != nil {
		return err
	}
	if err := r.Save(o.Out); err != nil {
		return fmt.Errorf("save results: %w", err)
	}
	write := r.WriteText
	if o.Output == cases.OutputJSON {
		write = r.WriteJSON
	}
	if err := write(stdout); err != nil {
		return err
	}
	if failed := r.Failures(); failed > 0 {
		return fmt.Errorf("%d turns failed and have no figures; the lines of progress say why", failed)
	}
	if o.Check && !r.Met() {
		return errMissed
	}
	return nil
}
