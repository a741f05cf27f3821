// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
)

// bench is a run in progress.
type bench struct {
	options  options
	tools    tools
	peers    []peer
	progress io.Writer
	report   report
}

// run measures everything the options ask for. What was measured before an
// error or the end of ctx is in the report.
func run(ctx context.Context, o options, progress io.Writer) (report, error) {
	b := &bench{options: o, tools: tools{xlb: o.XLB}, progress: progress}
	b.report = report{Started: time.Now(), Options: o}
	chosen, skipped, err := b.tools.choosePeers(o.Peers)
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
	for _, topology := range o.topologies() {
		if err = b.topology(ctx, topology); err != nil {
			break
		}
	}
	b.report.Summary = summarise(b.report.Measurements)
	b.report.Targets = judge(b.report.Summary, projectTargets)
	return b.report, err
}

// needed names the missing tools that every run needs.
func (b *bench) needed() error {
	var missing error
	for _, tool := range []string{"nginx", "wrk", "ip"} {
		_, err := b.tools.find(tool)
		missing = errors.Join(missing, err)
	}
	return missing
}

// topology measures the loads that share endpoints, and then the others.
func (b *bench) topology(ctx context.Context, topology lab.Topology) error {
	byEndpoint := map[kind][]load{}
	for _, l := range b.options.loads() {
		if !l.runsIn(topology) {
			continue
		}
		byEndpoint[l.endpoints()] = append(byEndpoint[l.endpoints()], l)
	}
	for _, endpoints := range slices.Sorted(maps.Keys(byEndpoint)) {
		if err := b.loads(ctx, topology, byEndpoint[endpoints], endpoints); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) loads(ctx context.Context, topology lab.Topology, loads []load, endpoints kind) (err error) {
	bed, err := newBed(ctx, topology, b.tools, b.options.Body, endpoints)
	if err != nil {
		return fmt.Errorf("topology %s: %w", topology, err)
	}
	defer func() { err = errors.Join(err, bed.close()) }()
	b.report.Machine = describeMachine(bed.lab.Sysctl, b.tools)
	b.report.Machine.addApps(loads)
	for _, group := range compared(loads) {
		if err := b.rounds(ctx, bed, topology, group); err != nil {
			return err
		}
	}
	return nil
}

// compared puts loads together whose figures are compared with each other.
func compared(loads []load) [][]load {
	var groups [][]load
	for _, l := range loads {
		n := len(groups)
		if n > 0 && (l.Case == caseRoutes && groups[n-1][0].RouteKind == l.RouteKind || l.comparedWith(groups[n-1][0])) {
			groups[n-1] = append(groups[n-1], l)
			continue
		}
		groups = append(groups, []load{l})
	}
	return groups
}

// rounds lets the peers take turns under loads that are compared with each other.
func (b *bench) rounds(ctx context.Context, bed *bed, topology lab.Topology, loads []load) error {
	for round := range b.options.Rounds {
		for _, l := range loads {
			if err := b.round(ctx, bed, topology, l, round+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// round gives each peer its turn.
func (b *bench) round(ctx context.Context, bed *bed, topology lab.Topology, l load, round int) error {
	for _, p := range b.peers {
		if !p.takesPart(l) {
			continue
		}
		m := bed.turn(ctx, p, l, b.options)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.Topology, m.Round = topology, round
		b.report.Measurements = append(b.report.Measurements, m)
		b.tell(m)
	}
	return nil
}

// takesPart reports whether a peer is measured under a load.
func (p peer) takesPart(l load) bool {
	if p.name == peerSpread {
		return l.spreads()
	}
	if l.isScaled() {
		return p.takesPartScaled(l)
	}
	switch l.Case {
	case caseBookstore, caseBank:
		return p.servesApps()
	case caseRoutes:
		return p.knowsRoutes()
	case caseLeast:
		return p.balancesLeast()
	}
	return p.name != peerSidecars && !p.isFilter()
}

// spreads reports whether it matters under a load which endpoint a connection goes to, and any would do.
func (l load) spreads() bool {
	return slices.Contains([]string{caseKeepalive, caseShort, caseSetup, caseConnections, caseSizes, caseRate}, l.Case)
}

// tell writes a line of progress.
func (b *bench) tell(m measurement) {
	fmt.Fprintf(b.progress, "%s host, %s, round %d/%d, %-8s", m.Topology, m.load, m.Round, b.options.Rounds, m.Peer)
	if m.Failure != "" {
		fmt.Fprintf(b.progress, " failed: %s\n", m.Failure)
		return
	}
	fmt.Fprintf(b.progress, " %8.0f req/s  p50 %6.0f us  p99 %7.0f us  %d errors%s%s\n", m.Rate, m.P50, m.P99, m.Errors, m.firstError(), m.refusedChange())
}
