// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/xlb-project/xlb/bench/bed"
	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/figures"
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/machine"
	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/report"
	"github.com/xlb-project/xlb/bench/tools"
)

// bench is a run in progress.
type bench struct {
	options  cases.Options
	tools    tools.Tools
	peers    []peers.Peer
	progress io.Writer
	report   report.Report
}

// run measures everything the options ask for. What was measured before an
// error or the end of ctx is in the report.
func run(ctx context.Context, o cases.Options, progress io.Writer) (report.Report, error) {
	b := &bench{options: o, tools: tools.Tools{XLB: o.XLB}, progress: progress}
	b.report = report.Report{Started: time.Now(), Options: o}
	chosen, skipped, err := peers.Choose(b.tools, o.Peers)
	if err != nil {
		return b.report, err
	}
	if err := b.needed(); err != nil {
		return b.report, err
	}
	b.peers, b.report.Skipped = chosen, skipped
	for name, reason := range skipped {
		fmt.Fprintf(progress, "peer %s is left out: %s\n", name, reason)
	}
	for _, topology := range o.Topologies() {
		if err = b.topology(ctx, topology); err != nil {
			break
		}
	}
	b.report.Conclude()
	return b.report, err
}

// needed names the missing tools that every run needs.
func (b *bench) needed() error {
	var missing error
	for _, tool := range []string{"nginx", "wrk", "ip"} {
		_, err := b.tools.Find(tool)
		missing = errors.Join(missing, err)
	}
	return missing
}

// topology measures the loads that share endpoints, and then the others.
func (b *bench) topology(ctx context.Context, topology lab.Topology) error {
	byEndpoint := map[cases.Kind][]cases.Load{}
	for _, l := range b.options.Loads() {
		if !l.RunsIn(topology) {
			continue
		}
		byEndpoint[l.Endpoints()] = append(byEndpoint[l.Endpoints()], l)
	}
	for _, endpoints := range slices.Sorted(maps.Keys(byEndpoint)) {
		if err := b.loads(ctx, topology, byEndpoint[endpoints], endpoints); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) loads(ctx context.Context, topology lab.Topology, loads []cases.Load, endpoints cases.Kind) (err error) {
	on, err := bed.New(ctx, topology, b.tools, b.options.Body, endpoints)
	if err != nil {
		return fmt.Errorf("topology %s: %w", topology, err)
	}
	defer func() { err = errors.Join(err, on.Close()) }()
	b.report.Machine = machine.Describe(on.Lab.Sysctl, b.tools)
	if slices.ContainsFunc(loads, cases.Load.IsApp) {
		b.report.Machine.AddApps()
	}
	for _, group := range cases.Compared(loads) {
		if err := b.rounds(ctx, on, topology, group); err != nil {
			return err
		}
	}
	return nil
}

// rounds lets the peers take turns under loads that are compared with each other.
func (b *bench) rounds(ctx context.Context, on *bed.Bed, topology lab.Topology, loads []cases.Load) error {
	for round := range b.options.Rounds {
		for _, l := range loads {
			if err := b.round(ctx, on, topology, l, round+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// round gives each peer its turn.
func (b *bench) round(ctx context.Context, on *bed.Bed, topology lab.Topology, l cases.Load, round int) error {
	for _, p := range b.peers {
		if !p.TakesPart(l) {
			continue
		}
		m := on.Turn(ctx, p, l, b.options)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.Topology, m.Round = topology, round
		b.report.Measurements = append(b.report.Measurements, m)
		b.tell(m)
	}
	return nil
}

// tell writes a line of progress.
func (b *bench) tell(m figures.Measurement) {
	fmt.Fprintf(b.progress, "%s host, %s, round %d/%d, %-8s", m.Topology, m.Load, m.Round, b.options.Rounds, m.Peer)
	if m.Failure != "" {
		fmt.Fprintf(b.progress, " failed: %s\n", m.Failure)
		return
	}
	fmt.Fprintf(b.progress, " %8.0f req/s  p50 %6.0f us  p99 %7.0f us  %d errors%s%s\n", m.Rate, m.P50, m.P99, m.Errors, firstError(m), refusedChange(m))
}

// firstError quotes one for the line of progress; empty: there was none, or nobody knows.
func firstError(m figures.Measurement) string {
	if m.FirstError == "" {
		return ""
	}
	return ", the first: " + m.FirstError
}

// refusedChange quotes a refusal for the line of progress; empty: there was none.
func refusedChange(m figures.Measurement) string {
	if m.Changes == nil || m.Changes.Refused == "" {
		return ""
	}
	return "; refused: " + strings.TrimSpace(m.Changes.Refused)
}
