// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/bench/chain"
	"github.com/xlb-project/xlb/bench/control"
	loadgen "github.com/xlb-project/xlb/bench/load"
	"github.com/xlb-project/xlb/bench/queue"
	"github.com/xlb-project/xlb/bench/websocket"
)

// The benchmark runs these commands of its own inside its namespaces.

func newLoadCommand() *cobra.Command {
	var o loadgen.Options
	var targets []string
	cmd := &cobra.Command{
		Use:     "load",
		Short:   "Make load with one connection per request; the benchmark runs this inside its namespaces",
		Example: "  go run ./bench load --target 127.0.0.1:8080 --connections 8 --duration 3s",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Targets, err = parseTargets(targets); err != nil {
				return err
			}
			report, err := loadgen.Run(cmd.Context(), o)
			return writeReport(cmd.OutOrStdout(), report, err)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&targets, "target", nil, "ADDRESS:PORT to connect to; repeat for several")
	flags.StringVar(&o.Path, "path", "/", "request target")
	flags.IntVar(&o.Connections, "connections", 1, "clients, each with one open connection")
	flags.BoolVar(&o.SetupOnly, "setup-only", false, "connect and reset, and send nothing")
	flags.DurationVar(&o.Duration, "duration", time.Second, "length of the load")
	return cmd
}

func newWebSocketCommand() *cobra.Command {
	var o websocket.Options
	var targets []string
	cmd := &cobra.Command{
		Use:     "websocket",
		Short:   "Send messages and wait for their echoes; the benchmark runs this inside its namespaces",
		Example: "  go run ./bench websocket --target 127.0.0.1:8080 --connections 100 --message 1024 --duration 3s",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Targets, err = parseTargets(targets); err != nil {
				return err
			}
			report, err := websocket.Run(cmd.Context(), o)
			return writeReport(cmd.OutOrStdout(), report, err)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&targets, "target", nil, "ADDRESS:PORT to connect to; repeat for several")
	flags.IntVar(&o.Message, "message", 16, "size of a message in bytes")
	flags.IntVar(&o.Connections, "connections", 1, "open connections")
	flags.DurationVar(&o.Duration, "duration", time.Second, "length of the load")
	return cmd
}

func newEchoCommand() *cobra.Command {
	var listen string
	cmd := &cobra.Command{
		Use:     "echo",
		Short:   "Return WebSocket messages; the benchmark runs this as an endpoint",
		Example: "  go run ./bench echo --listen 127.0.0.1:8080",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			address, err := netip.ParseAddrPort(listen)
			if err != nil {
				return fmt.Errorf("--listen: %w", err)
			}
			return websocket.Serve(cmd.Context(), address)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8080", "ADDRESS:PORT to serve")
	return cmd
}

func newClientsCommand() *cobra.Command {
	var o queue.Options
	var targets []string
	count := 1
	cmd := &cobra.Command{
		Use:     "clients",
		Short:   "Send requests at random moments at a rate; the benchmark runs this inside its namespaces",
		Example: "  go run ./bench clients --target 127.0.0.1:8080 --rate 300 --connections 8 --duration 3s",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.Targets, err = parseTargets(targets); err != nil {
				return err
			}
			if count > 1 {
				o.Targets = chain.Addresses(o.Targets[0], count)
			}
			report, err := queue.Run(cmd.Context(), o)
			return writeReport(cmd.OutOrStdout(), report, err)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&targets, "target", []string{"127.0.0.1:8080"}, "ADDRESS:PORT to connect to; repeat for several")
	flags.IntVar(&count, "count", 1, "how many addresses in a row to connect to, from the first target on")
	flags.IntVar(&o.Hosts, "hosts", 0, "how many hosts to ask for at random, s0, s1, ...; 0: the target")
	flags.Float64Var(&o.Rate, "rate", 100, "requests a second; 0: each connection asks again when it has its answer")
	flags.IntVar(&o.Connections, "connections", 8, "open connections")
	flags.DurationVar(&o.Duration, "duration", time.Second, "length of the load")
	flags.Uint64Var(&o.Seed, "seed", 0, "the same seed gives the same moments")
	return cmd
}

func newStationCommand() *cobra.Command {
	var o queue.StationOptions
	var listen string
	cmd := &cobra.Command{
		Use:     "station",
		Short:   "Answer each request after a time, a few at once; the benchmark runs this as an endpoint",
		Example: "  go run ./bench station --listen 127.0.0.1:8080 --service 20ms --workers 4",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Listen, err = netip.ParseAddrPort(listen); err != nil {
				return fmt.Errorf("--listen: %w", err)
			}
			return queue.Serve(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&listen, "listen", "127.0.0.1:8080", "ADDRESS:PORT to serve")
	flags.DurationVar(&o.Service, "service", time.Millisecond, "how long a request takes")
	flags.IntVar(&o.Workers, "workers", 4, "how many are served at once")
	return cmd
}

func newServiceCommand() *cobra.Command {
	o := chain.Options{}
	var listen, next string
	cmd := &cobra.Command{
		Use:     "service",
		Short:   "Read whole requests and answer them, or ask the next service first; the benchmark runs this as an endpoint",
		Example: "  go run ./bench service --listen 127.0.0.1:8080 --next 127.0.0.1:8081",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Listen, err = netip.ParseAddrPort(listen); err != nil {
				return fmt.Errorf("--listen: %w", err)
			}
			if next != "" {
				if o.Next, err = netip.ParseAddrPort(next); err != nil {
					return fmt.Errorf("--next: %w", err)
				}
			}
			return chain.Serve(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&listen, "listen", "127.0.0.1:8080", "ADDRESS:PORT to serve")
	flags.IntVar(&o.Count, "count", 1, "how many addresses in a row to serve")
	flags.StringVar(&next, "next", "", "ADDRESS:PORT to ask for every answer")
	flags.IntVar(&o.Body, "body", 0, "size of the answer's body in bytes, where nobody is asked")
	return cmd
}

func newAwaitCommand() *cobra.Command {
	var target string
	var count int
	var patience time.Duration
	cmd := &cobra.Command{
		Use:     "await",
		Short:   "Wait until services in a row have answered, and print how many have and when the last one had; the benchmark runs this as a client",
		Example: "  go run ./bench await --target 127.80.0.1:8080 --count 100",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			first, err := netip.ParseAddrPort(target)
			if err != nil {
				return fmt.Errorf("--target: %w", err)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), patience)
			defer cancel()
			have, err := chain.Await(ctx, chain.Addresses(first, count))
			// Printed with an error, too: it says how many have answered then.
			return errors.Join(err, json.NewEncoder(cmd.OutOrStdout()).Encode(have))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&target, "target", "127.0.0.1:8080", "ADDRESS:PORT of the first")
	flags.IntVar(&count, "count", 1, "how many addresses in a row")
	flags.DurationVar(&patience, "patience", time.Minute, "how long to wait for all")
	return cmd
}

func newControlCommand() *cobra.Command {
	var o control.Options
	cmd := &cobra.Command{
		Use:     "control",
		Short:   "Be a control plane that changes endpoints all the time; the benchmark runs this beside balancers",
		Example: "  go run ./bench control --services 1000 --endpoints 10 --rate 100",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return control.Serve(cmd.Context(), o) },
	}
	flags := cmd.Flags()
	for name, at := range map[string]struct {
		into        *netip.AddrPort
		value, what string
	}{
		"listen": {&o.Listen, "127.0.0.1:18000", "where balancers ask"},
		"report": {&o.Report, "127.0.0.1:18001", "where reports are fetched"},
		"front":  {&o.Front, "127.80.0.1:8080", "of the listener that all services share"},
		"first":  {&o.First, "127.90.0.1:9060", "of the first endpoint; the next ones follow"},
		"other":  {&o.Other, "127.95.0.1:9061", "of the probed service's other server"},
	} {
		*at.into = netip.MustParseAddrPort(at.value)
		flags.TextVar(at.into, name, *at.into, "ADDRESS:PORT "+at.what)
	}
	flags.IntVar(&o.Services, "services", 1000, "how many there are")
	flags.IntVar(&o.Endpoints, "endpoints", 10, "of each service")
	flags.IntVar(&o.Rate, "rate", 100, "changes a second")
	return cmd
}

func newProbeCommand() *cobra.Command {
	var target netip.AddrPort
	var d time.Duration
	cmd := &cobra.Command{
		Use:     "probe",
		Short:   "Ask a service again and again, and print when its server changed; the benchmark runs this as a client",
		Example: "  go run ./bench probe --target 127.80.0.1:8080 --duration 3s",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sights, err := control.Probe(cmd.Context(), target, d)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(sights)
		},
	}
	flags := cmd.Flags()
	flags.TextVar(&target, "target", netip.MustParseAddrPort("127.80.0.1:8080"), "ADDRESS:PORT to connect to")
	flags.DurationVar(&d, "duration", time.Second, "how long")
	return cmd
}

func parseTargets(texts []string) ([]netip.AddrPort, error) {
	var targets []netip.AddrPort
	for _, text := range texts {
		target, err := netip.ParseAddrPort(text)
		if err != nil {
			return nil, fmt.Errorf("--target: %w", err)
		}
		targets = append(targets, target)
	}
	return targets, nil
}

func writeReport(w io.Writer, report loadgen.Report, err error) error {
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(report)
}
