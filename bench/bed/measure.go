// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/figures"
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
)

// Turn starts a peer, measures it and stops it. A failure is part of the
// result: one peer's crash must not cost the figures of the others.
func (b *Bed) Turn(ctx context.Context, p peers.Peer, l cases.Load, o cases.Options) figures.Measurement {
	if l.Case == cases.Density {
		return b.densityTurn(ctx, p, l, o)
	}
	if l.Case == cases.Changes {
		return b.changesTurn(ctx, p, l, o)
	}
	m := figures.Measurement{Load: l, Peer: p.Name}
	if err := errors.Join(b.lay(l), b.layApp(ctx, l)); err != nil {
		m.Failure = err.Error()
		return m
	}
	s, err := b.stage(ctx, p, l, o)
	if err != nil {
		m.Failure = errors.Join(err, s.end()).Error()
		return m
	}
	p = s.peer
	running, err := b.up(ctx, p)
	if err == nil {
		err = b.measure(ctx, p, o, &m)
	}
	// StopAll has an error to tell if a balancer died during the measurement.
	for _, process := range slices.Concat(running, s.processes) {
		err = errors.Join(err, process.Exited())
	}
	if err = errors.Join(err, lab.StopAll(running), s.end(), b.unredirect(ctx)); err != nil {
		m.Failure = err.Error()
	}
	return m
}

func (b *Bed) measure(ctx context.Context, p peers.Peer, o cases.Options, m *figures.Measurement) error {
	targets := b.targets(p)
	if o.Warmup > 0 {
		if _, err := b.generate(ctx, m.Load, targets, o.PathOf(m.Load), o.Warmup); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	// Taken, so that the next begin now.
	if _, err := b.accounts(ctx, m.Load); err != nil {
		return err
	}
	pathsBefore := b.servedBy(ctx, p)
	b.clients.CPUAtEnd = nil
	cpuBefore, err := lab.ReadCPU(b.Lab)
	if err != nil {
		return err
	}
	report, err := b.generate(ctx, m.Load, targets, o.PathOf(m.Load), o.Duration)
	if err != nil {
		return err
	}
	cpuAfter, err := b.clients.CPUNow()
	if err != nil {
		return err
	}
	m.Take(report)
	if m.Stations, err = b.accounts(ctx, m.Load); err != nil {
		return err
	}
	m.CPU = figures.PerRequestOf(cpuAfter, cpuBefore, report.Requests)
	m.FastShare = b.servedBy(ctx, p).shareSince(pathsBefore)
	return b.observe(ctx, p, o, targets, m)
}

// targets are what the clients of a peer connect to.
func (b *Bed) targets(p peers.Peer) []netip.AddrPort {
	if len(p.Processes) == 0 && b.site.Front != nil {
		return b.site.Front
	}
	if b.app != nil {
		return b.app.Targets(p.Name == peers.Direct)
	}
	if len(p.Processes) == 0 {
		return b.site.Endpoints
	}
	if len(p.Serves) > 0 {
		return p.Serves
	}
	return []netip.AddrPort{peers.ServiceAddress}
}

// observe takes what only these cases ask for, after the figures of a turn.
func (b *Bed) observe(ctx context.Context, p peers.Peer, o cases.Options, targets []netip.AddrPort, m *figures.Measurement) (err error) {
	if m.Case == cases.Interference {
		m.NoiseRate = b.noise
	}
	if m.Case != cases.Rate {
		return nil
	}
	m.Offered = b.offered(m.Load)
	if p.Name == peers.XLB {
		m.Programs, err = b.programCosts(ctx, m.Load, targets, o.PathOf(m.Load), o.Duration)
	}
	return err
}
