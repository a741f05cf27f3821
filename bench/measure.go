// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
	"github.com/xlb-project/xlb/bench/queue"
)

// measurement is one turn of one peer.
type measurement struct {
	Topology lab.Topology `json:"topology"`
	load
	Peer  string `json:"peer"`
	Round int    `json:"round"`
	// Rate is answered requests per second.
	Rate float64 `json:"requests_per_second"`
	// P50 and P99 are latencies in microseconds.
	P50 float64 `json:"p50_us"`
	P99 float64 `json:"p99_us"`
	// Mean latency and 99.9th percentile, likewise.
	Mean float64 `json:"mean_us"`
	P999 float64 `json:"p99.9_us"`
	// Stations is what the endpoints saw; of the least case only.
	Stations []queue.Account `json:"stations,omitempty"`
	Requests int64           `json:"requests"`
	Errors   int64           `json:"errors"`
	// FirstError says what one of them was, if the generator tells.
	FirstError string     `json:"first_error,omitempty"`
	CPU        perRequest `json:"cpu_us_per_request"`
	// FastShare is the part of XLB's requests that the kernel moved, 0 to 1;
	// nil for other peers.
	FastShare *float64 `json:"fast_share,omitempty"`
	// Offered is how many requests a second clients were to send, and Programs what the balancer's kernel programs did; of the rate case.
	Offered  int           `json:"offered,omitempty"`
	Programs []programCost `json:"programs,omitempty"`
	// NoiseRate is what the neighbour got, in requests a second; of the interference case.
	NoiseRate float64 `json:"noise_requests_per_second,omitempty"`
	// Density is of that case only.
	Density *density `json:"density,omitempty"`
	// Changes is of that case only.
	Changes *changes `json:"changes_made,omitempty"`
	// Failure says why the turn has no figures.
	Failure string `json:"failure,omitempty"`
}

// turn starts a peer, measures it and stops it. A failure is part of the
// result: one peer's crash must not cost the figures of the others.
func (b *bed) turn(ctx context.Context, p peer, l load, o options) measurement {
	if l.Case == caseDensity {
		return b.densityTurn(ctx, p, l, o)
	}
	if l.Case == caseChanges {
		return b.changesTurn(ctx, p, l, o)
	}
	m := measurement{load: l, Peer: p.name}
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
	// stopAll has an error to tell if a balancer died during the measurement.
	for _, process := range slices.Concat(running, s.processes) {
		err = errors.Join(err, process.Exited())
	}
	if err = errors.Join(err, stopAll(running), s.end(), b.unredirect(ctx)); err != nil {
		m.Failure = err.Error()
	}
	return m
}

func (b *bed) measure(ctx context.Context, p peer, o options, m *measurement) error {
	targets := b.targets(p)
	if o.Warmup > 0 {
		if _, err := b.generate(ctx, m.load, targets, o.pathOf(m.load), o.Warmup); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	// Taken, so that the next begin now.
	if _, err := b.accounts(ctx, m.load); err != nil {
		return err
	}
	pathsBefore := b.servedBy(ctx, p)
	b.cpuAtEnd = nil
	cpuBefore, err := readCPU(b.lab)
	if err != nil {
		return err
	}
	report, err := b.generate(ctx, m.load, targets, o.pathOf(m.load), o.Duration)
	if err != nil {
		return err
	}
	cpuAfter, err := b.cpuNow()
	if err != nil {
		return err
	}
	m.take(report)
	if m.Stations, err = b.accounts(ctx, m.load); err != nil {
		return err
	}
	m.CPU = cpuAfter.per(cpuBefore, report.Requests)
	m.FastShare = b.servedBy(ctx, p).shareSince(pathsBefore)
	return b.observe(ctx, p, o, targets, m)
}

// take keeps what clients have measured.
func (m *measurement) take(report loadgen.Report) {
	m.Rate = report.Rate()
	m.P50 = float64(report.Latency.Quantile(0.50))
	m.P99 = float64(report.Latency.Quantile(0.99))
	m.Mean, m.P999 = report.Latency.Mean(), float64(report.Latency.Quantile(0.999))
	m.Requests, m.Errors, m.FirstError = report.Requests, report.Errors, report.FirstError
}

// firstError quotes one for the line of progress; empty: there was none, or nobody knows.
func (m measurement) firstError() string {
	if m.FirstError == "" {
		return ""
	}
	return ", the first: " + m.FirstError
}

// targets are what the clients of a peer connect to.
func (b *bed) targets(p peer) []netip.AddrPort {
	if len(p.processes) == 0 && b.site.front != nil {
		return b.site.front
	}
	if b.app != nil {
		return b.app.Targets(p.name == peerDirect)
	}
	if len(p.processes) == 0 {
		return b.site.endpoints
	}
	if len(p.serves) > 0 {
		return p.serves
	}
	return []netip.AddrPort{serviceAddress}
}

// served counts XLB's requests by path; nil when nobody counted.
type served map[string]float64

// servedBy reads the counters of XLB. A figure beside the measurement: without
// it the measurement stands.
func (b *bed) servedBy(ctx context.Context, p peer) served {
	if p.name != peerXLB {
		return nil
	}
	text, err := b.get(ctx, "http://"+adminAddress.String()+"/metrics")
	if err != nil {
		return nil
	}
	return parseServed(text)
}

// parseServed adds up xlb_requests_total by its label "path" in Prometheus's
// text format.
func parseServed(text string) served {
	counts := served{}
	for line := range strings.Lines(text) {
		labels, ok := strings.CutPrefix(line, "xlb_requests_total{")
		if !ok {
			continue
		}
		labels, value, ok := strings.Cut(labels, "} ")
		n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if !ok || err != nil {
			continue
		}
		for _, path := range []string{"fast", "slow"} {
			if strings.Contains(labels, `path="`+path+`"`) {
				counts[path] += n
			}
		}
	}
	return counts
}

// shareSince returns the fast share of the requests after before, or nil when
// there were none.
func (s served) shareSince(before served) *float64 {
	fast := s["fast"] - before["fast"]
	total := fast + s["slow"] - before["slow"]
	if total <= 0 {
		return nil
	}
	share := fast / total
	return &share
}
