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
	"time"

	"github.com/spf13/cobra"
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
	var o options
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Compare XLB with a direct connection and with other balancers",
		Long: "Compare XLB with a direct connection and with other balancers, taking turns.\n" +
			"Needs root, nginx, wrk and iproute2; haproxy and envoy where they are to be compared.\n" +
			"bench/METHOD.md says what is measured and how. Peers: " + strings.Join(peerNames(), ", ") + ".\n" +
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
	flags := cmd.Flags()
	flags.StringVar(&o.Topology, "topology", all, "where the endpoints are: same (host), cross (host) or all")
	flags.StringVar(&o.Case, "case", all, "what is measured: keepalive, short (one connection per request), setup (connections without requests), routes (tables of many), websocket (messages), least (one endpoint is slow), "+strings.Join(scaleCases, ", ")+", all, or an application of examples/: bookstore, bank")
	flags.IntSliceVar(&o.Connections, "connections", []int{1, 8, 32, 128}, "numbers of kept-alive connections")
	flags.StringSliceVar(&o.Generators, "load", []string{generatorWrk}, "generators of the case keepalive: wrk, fortio")
	flags.IntSliceVar(&o.ShortConnections, "short-connections", []int{1, 32}, "numbers of clients that connect again and again, in the cases short and setup")
	flags.StringSliceVar(&o.RouteKinds, "route-kinds", routeKinds, "kinds of routes")
	flags.IntSliceVar(&o.Routes, "routes", []int{1, 10, 100, 1000, 10000}, "numbers of routes in a table")
	flags.IntVar(&o.RouteConnections, "route-connections", 8, "number of kept-alive connections that ask for routes")
	flags.IntSliceVar(&o.WebSocketConnections, "websocket-connections", []int{1, 100}, "numbers of WebSocket connections")
	flags.IntSliceVar(&o.Messages, "messages", []int{16, 1024}, "sizes of WebSocket messages in bytes")
	flags.IntVar(&o.LeastRate, "least-rate", leastRate, "requests a second in all to endpoints of which one is slow")
	o.Scale.addFlags(flags)
	flags.IntSliceVar(&o.AppUsers, "app-users", []int{8}, "numbers of users of an application")
	flags.IntVar(&o.Rounds, "rounds", 5, "turns of each peer under each load")
	flags.DurationVar(&o.Duration, "duration", 3*time.Second, "length of a measurement, whole seconds")
	flags.DurationVar(&o.Warmup, "warmup", time.Second, "load before each measurement, whole seconds or 0")
	flags.StringSliceVar(&o.Peers, "peers", []string{all}, "peers to compare; \"all\" leaves out those not installed")
	flags.IntVar(&o.Body, "body", 0, "size of response bodies in bytes")
	flags.StringVar(&o.XLB, "xlb", "bin/xlb", "path of the xlb binary")
	flags.StringVar(&o.Out, "out", "bench/results/tmp", "directory for results.json, results.md and plots")
	flags.StringVar(&o.Output, "output", outputText, "format of standard output: text or json")
	flags.BoolVar(&o.Check, "check", false, "exit with code 1 when a target of the project is missed")
	cmd.AddCommand(newLoadCommand(), newWebSocketCommand(), newEchoCommand(), newClientsCommand(), newStationCommand(), newServiceCommand(), newAwaitCommand(), newControlCommand(), newProbeCommand(), newHEELSCommand(), newTrafficCommand(), newMergeCommand())
	return cmd
}

// compare runs the benchmark, saves and prints its results.
func compare(ctx context.Context, o options, stdout, progress io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	r, err := run(ctx, o, progress)
	if err != nil {
		return err
	}
	if err := r.save(o.Out); err != nil {
		return fmt.Errorf("save results: %w", err)
	}
	write := r.writeText
	if o.Output == outputJSON {
		write = r.writeJSON
	}
	if err := write(stdout); err != nil {
		return err
	}
	if failed := r.failures(); failed > 0 {
		return fmt.Errorf("%d turns failed and have no figures; the lines of progress say why", failed)
	}
	if o.Check && !r.met() {
		return errMissed
	}
	return nil
}
