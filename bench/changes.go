// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/xlb-project/xlb/bench/control"
	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
)

const (
	// changedServices have so many endpoints each.
	changedServices  = 1000
	changedEndpoints = 10
	// changeRate is requests a second to all of them, over changeConnections.
	changeRate        = 1000
	changeConnections = 32
)

// Addresses of the changes case. Each server listens at one port of every address, so that all endpoints are theirs.
var (
	controlAddress = netip.MustParseAddrPort("127.0.0.1:18000")
	reportAddress  = netip.MustParseAddrPort("127.0.0.1:18001")
	firstChanged   = netip.MustParseAddrPort("127.90.0.1:9060")
	otherChanged   = netip.MustParseAddrPort("127.95.0.1:9061")
)

// changes is what becomes of a control plane's changes.
type changes struct {
	// Made changes in the time of the load; Refused is why the client has refused one, if it has.
	Made    int    `json:"made"`
	Refused string `json:"refused,omitempty"`
	// AckP50 and AckP99 are the microseconds until the client said that a change was in force, SeenP50 and SeenMost those until the first request
	// went where it should; Missed is how often none did before the next change.
	AckP50   float64 `json:"ack_p50_us"`
	AckP99   float64 `json:"ack_p99_us"`
	SeenP50  float64 `json:"seen_p50_us"`
	SeenMost float64 `json:"seen_most_us"`
	Seen     int64   `json:"seen"`
	Missed   int     `json:"missed"`
	// ReadySeconds from the start of the balancer until it served.
	ReadySeconds float64 `json:"ready_seconds"`
	// Share of a processor that the balancer used, in percent, and its memory afterwards.
	Share    float64    `json:"processor_percent"`
	Balancer lab.Memory `json:"balancer"`
}

// changesSettings name the control plane.
func changesSettings(site) settings {
	return settings{Admin: adminAddress, Clusters: []listener{{Name: "control", Endpoints: []netip.AddrPort{controlAddress}}}}
}

// underControl is the peer with a control plane's configuration.
func (p peer) underControl() peer {
	driven := make([]process, len(p.processes))
	for i, one := range p.processes {
		one.template, one.settings = "changes.yaml.tmpl", changesSettings
		driven[i] = one
	}
	p.processes = driven
	return p
}

// changesTurn measures a balancer whose control plane changes endpoints all the time.
func (b *bed) changesTurn(ctx context.Context, p peer, l load, o options) measurement {
	m := measurement{load: l, Peer: p.name, Changes: &changes{}}
	running, err := b.changing(ctx, p.underControl(), o, &m)
	for _, process := range running {
		err = errors.Join(err, process.Exited())
	}
	if err = errors.Join(err, stopAll(running)); err != nil {
		m.Failure = err.Error()
	}
	return m
}

// changing returns what it has started, with an error or without.
func (b *bed) changing(ctx context.Context, p peer, o options, m *measurement) ([]*lab.Process, error) {
	running, err := b.startChanged(ctx, m.load)
	if err != nil {
		return running, err
	}
	begin := time.Now()
	var balancer []*lab.Process
	for _, process := range p.processes {
		started, err := b.start(process, lab.Balancer)
		if err != nil {
			return running, err
		}
		running, balancer = append(running, started), append(balancer, started)
	}
	if err := b.waitServed(ctx, balancer); err != nil {
		return running, err
	}
	m.Changes.ReadySeconds = time.Since(begin).Seconds()
	if o.Warmup > 0 {
		if _, err := b.generateChanged(ctx, o.Warmup); err != nil {
			return running, fmt.Errorf("warm up: %w", err)
		}
	}
	if err := b.measureChanges(ctx, p, o, m); err != nil {
		return running, err
	}
	for _, process := range balancer {
		memory, memoryErr := process.MemoryWithChildren()
		err = errors.Join(err, memoryErr)
		m.Changes.Balancer.Add(memory)
	}
	return running, err
}

// startChanged starts both servers and the control plane.
func (b *bed) startChanged(ctx context.Context, l load) (running []*lab.Process, err error) {
	for i, at := range []netip.AddrPort{firstChanged, otherChanged} {
		every := netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port())
		// The body tells the probe which one it is.
		server, err := b.startService(ctx, at, []string{"service", "--listen", every.String(), "--body", strconv.Itoa(i)})
		if err != nil {
			return running, err
		}
		running = append(running, server)
	}
	plane, err := b.start(process{
		name: "control", tool: toolSelf, host: lab.ServerHost, args: func(site, string) []string {
			return []string{
				"control", "--listen", controlAddress.String(), "--report", reportAddress.String(), "--front", serviceAddress.String(),
				"--first", firstChanged.String(), "--other", otherChanged.String(),
				"--services", strconv.Itoa(changedServices), "--endpoints", strconv.Itoa(changedEndpoints), "--rate", strconv.Itoa(l.Changes),
			}
		},
	}, lab.Endpoint)
	if err != nil {
		return running, err
	}
	return append(running, plane), b.waitReady(ctx, "http://"+reportAddress.String()+"/", plane)
}

// waitServed waits until the probed service answers: its route, its cluster and its endpoint have come last or not, but they have come.
func (b *bed) waitServed(ctx context.Context, balancer []*lab.Process) error {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	return lab.Poll(ctx, readyPoll, func() error {
		for _, p := range balancer {
			if err := p.Exited(); err != nil {
				cancel()
				return err
			}
		}
		sights, err := b.probe(ctx, time.Millisecond)
		if err == nil && (sights.Errors > 0 || len(sights.Seen) == 0) {
			err = errors.New("the probed service does not answer 200")
		}
		return err
	})
}

// measureChanges lets clients and the probe ask while the control plane is at work.
func (b *bed) measureChanges(ctx context.Context, p peer, o options, m *measurement) error {
	c := m.Changes
	// Taken, so that the next begins now.
	if _, err := b.controlReport(ctx); err != nil {
		return err
	}
	pathsBefore := b.servedBy(ctx, p)
	cpuBefore, err := readCPU(b.lab)
	if err != nil {
		return err
	}
	probing, err := b.startProbe(o.Duration)
	if err != nil {
		return err
	}
	report, err := b.generateChanged(ctx, o.Duration)
	if err != nil {
		return errors.Join(err, probing.Stop())
	}
	sights, err := sightsOf(ctx, probing)
	if err != nil {
		return err
	}
	cpuAfter, err := readCPU(b.lab)
	if err != nil {
		return err
	}
	made, err := b.controlReport(ctx)
	if err != nil {
		return err
	}
	m.take(report)
	m.Errors += int64(sights.Errors)
	m.CPU = cpuAfter.per(cpuBefore, report.Requests)
	m.FastShare = b.servedBy(ctx, p).shareSince(pathsBefore)
	c.Made, c.Refused = made.Changes, made.Refused
	c.AckP50, c.AckP99 = float64(made.Acknowledged.Quantile(0.5)), float64(made.Acknowledged.Quantile(0.99))
	lags, missed := control.Lags(made.Flips, sights)
	c.SeenP50, c.SeenMost, c.Seen, c.Missed = float64(lags.Quantile(0.5)), float64(lags.Quantile(1)), lags.Count(), missed
	c.Share = 100 * (cpuAfter.Balancer - cpuBefore.Balancer).Seconds() / o.Duration.Seconds()
	return nil
}

func (b *bed) controlReport(ctx context.Context) (control.Report, error) {
	return control.Fetch(ctx, b.get, control.Options{Report: reportAddress})
}

// generateChanged asks all services at random moments.
func (b *bed) generateChanged(ctx context.Context, d time.Duration) (loadgen.Report, error) {
	running, err := b.startSelf("clients", "clients", "--target", serviceAddress.String(), "--hosts", strconv.Itoa(changedServices),
		"--rate", strconv.Itoa(changeRate), "--connections", strconv.Itoa(changeConnections), "--duration", d.String())
	if err != nil {
		return loadgen.Report{}, err
	}
	return collect(ctx, []*lab.Process{running}, ownReport)
}

func (b *bed) startProbe(d time.Duration) (*lab.Process, error) {
	return b.startSelf("probe", "probe", "--target", serviceAddress.String(), "--duration", d.String())
}

func (b *bed) probe(ctx context.Context, d time.Duration) (control.Sights, error) {
	running, err := b.startProbe(d)
	if err != nil {
		return control.Sights{}, err
	}
	return sightsOf(ctx, running)
}

func sightsOf(ctx context.Context, running *lab.Process) (s control.Sights, err error) {
	output, err := running.Wait(ctx)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal([]byte(output), &s)
}

// startSelf starts a client that is a command of this program.
func (b *bed) startSelf(name string, args ...string) (*lab.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return b.lab.Start(lab.Command{Name: name, Path: self, Role: lab.Client, Args: args})
}

// changesRow has sizes in MB of 10^6 bytes.
type changesRow struct {
	Made, AckP50, AckP99, SeenP50, SeenMost, Missed, Ready, Share, PSS *spread
	// ShareToEnvoy and PSSToEnvoy are ratios within each round.
	ShareToEnvoy, PSSToEnvoy *spread
}

func changesRowOf(own, envoy []measurement) *changesRow {
	of := func(figure func(c *changes) float64) *spread {
		return spreadOf(figures(own, func(m measurement) float64 { return figure(m.Changes) }))
	}
	to := func(figure func(c *changes) float64) *spread {
		return spreadOf(ratios(own, envoy, func(m measurement) float64 { return figure(m.Changes) }))
	}
	share := func(c *changes) float64 { return c.Share }
	pss := func(c *changes) float64 { return float64(c.Balancer.PSS) / 1e6 }
	return &changesRow{
		Made:   of(func(c *changes) float64 { return float64(c.Made) }),
		AckP50: of(func(c *changes) float64 { return c.AckP50 / 1e3 }), AckP99: of(func(c *changes) float64 { return c.AckP99 / 1e3 }),
		SeenP50: of(func(c *changes) float64 { return c.SeenP50 / 1e3 }), SeenMost: of(func(c *changes) float64 { return c.SeenMost / 1e3 }),
		Missed: of(func(c *changes) float64 { return float64(c.Missed) }),
		Ready:  of(func(c *changes) float64 { return c.ReadySeconds }),
		Share:  of(share), PSS: of(pss), ShareToEnvoy: to(share), PSSToEnvoy: to(pss),
	}
}

// changesColumns stand before those of all cases.
func changesColumns() []column {
	of := func(name, format string, figure func(c *changesRow) *spread) column {
		return column{name, func(r row) string { return median(figure(r.Scale.Changes), format) }}
	}
	return []column{
		of("changes made", "%.0f", func(c *changesRow) *spread { return c.Made }),
		of("taken after ms", "%.1f", func(c *changesRow) *spread { return c.AckP50 }),
		of("p99", "%.1f", func(c *changesRow) *spread { return c.AckP99 }),
		of("first request after ms", "%.1f", func(c *changesRow) *spread { return c.SeenP50 }),
		of("at most", "%.1f", func(c *changesRow) *spread { return c.SeenMost }),
		of("missed", "%.0f", func(c *changesRow) *spread { return c.Missed }),
		of("ready after s", "%.2f", func(c *changesRow) *spread { return c.Ready }),
		of("% of a processor", "%.1f", func(c *changesRow) *spread { return c.Share }),
		of("x envoy's", "%.2f", func(c *changesRow) *spread { return c.ShareToEnvoy }),
		of("PSS MB", "%.1f", func(c *changesRow) *spread { return c.PSS }),
		of("x envoy's", "%.2f", func(c *changesRow) *spread { return c.PSSToEnvoy }),
	}
}

// refusedChange quotes a refusal for the line of progress; empty: there was none.
func (m measurement) refusedChange() string {
	if m.Changes == nil || m.Changes.Refused == "" {
		return ""
	}
	return "; refused: " + strings.TrimSpace(m.Changes.Refused)
}
