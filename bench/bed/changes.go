// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/clients"
	"github.com/xlb-project/xlb/bench/control"
	"github.com/xlb-project/xlb/bench/figures"
	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
	"github.com/xlb-project/xlb/bench/peers"
)

// changesTurn measures a balancer whose control plane changes endpoints all the time.
func (b *Bed) changesTurn(ctx context.Context, p peers.Peer, l cases.Load, o cases.Options) figures.Measurement {
	m := figures.Measurement{Load: l, Peer: p.Name, Changes: &figures.Changes{}}
	running, err := b.changing(ctx, p.UnderControl(), o, &m)
	for _, process := range running {
		err = errors.Join(err, process.Exited())
	}
	if err = errors.Join(err, lab.StopAll(running)); err != nil {
		m.Failure = err.Error()
	}
	return m
}

// changing returns what it has started, with an error or without.
func (b *Bed) changing(ctx context.Context, p peers.Peer, o cases.Options, m *figures.Measurement) ([]*lab.Process, error) {
	running, err := b.startChanged(ctx, m.Load)
	if err != nil {
		return running, err
	}
	begin := time.Now()
	var balancer []*lab.Process
	for _, process := range p.Processes {
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
func (b *Bed) startChanged(ctx context.Context, l cases.Load) (running []*lab.Process, err error) {
	for i, at := range []netip.AddrPort{peers.FirstChanged, peers.OtherChanged} {
		every := netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port())
		// The body tells the probe which one it is.
		server, err := b.startService(ctx, at, []string{"service", "--listen", every.String(), "--body", strconv.Itoa(i)})
		if err != nil {
			return running, err
		}
		running = append(running, server)
	}
	plane, err := b.start(peers.OwnServer("control",
		"control", "--listen", peers.ControlAddress.String(), "--report", peers.ReportAddress.String(), "--front", peers.ServiceAddress.String(),
		"--first", peers.FirstChanged.String(), "--other", peers.OtherChanged.String(),
		"--services", strconv.Itoa(cases.ChangedServices), "--endpoints", strconv.Itoa(cases.ChangedEndpoints), "--rate", strconv.Itoa(l.Changes)), lab.Endpoint)
	if err != nil {
		return running, err
	}
	return append(running, plane), b.waitReady(ctx, "http://"+peers.ReportAddress.String()+"/", plane)
}

// waitServed waits until the probed service answers: its route, its cluster and its endpoint have come last or not, but they have come.
func (b *Bed) waitServed(ctx context.Context, balancer []*lab.Process) error {
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
func (b *Bed) measureChanges(ctx context.Context, p peers.Peer, o cases.Options, m *figures.Measurement) error {
	c := m.Changes
	// Taken, so that the next begins now.
	if _, err := b.controlReport(ctx); err != nil {
		return err
	}
	pathsBefore := b.servedBy(ctx, p)
	cpuBefore, err := lab.ReadCPU(b.Lab)
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
	cpuAfter, err := lab.ReadCPU(b.Lab)
	if err != nil {
		return err
	}
	made, err := b.controlReport(ctx)
	if err != nil {
		return err
	}
	m.Take(report)
	m.Errors += int64(sights.Errors)
	m.CPU = figures.PerRequestOf(cpuAfter, cpuBefore, report.Requests)
	m.FastShare = b.servedBy(ctx, p).shareSince(pathsBefore)
	c.Made, c.Refused = made.Changes, made.Refused
	c.AckP50, c.AckP99 = float64(made.Acknowledged.Quantile(0.5)), float64(made.Acknowledged.Quantile(0.99))
	lags, missed := control.Lags(made.Flips, sights)
	c.SeenP50, c.SeenMost, c.Seen, c.Missed = float64(lags.Quantile(0.5)), float64(lags.Quantile(1)), lags.Count(), missed
	c.Share = 100 * (cpuAfter.Balancer - cpuBefore.Balancer).Seconds() / o.Duration.Seconds()
	return nil
}

func (b *Bed) controlReport(ctx context.Context) (control.Report, error) {
	return control.Fetch(ctx, b.get, control.Options{Report: peers.ReportAddress})
}

// generateChanged asks all services at random moments.
func (b *Bed) generateChanged(ctx context.Context, d time.Duration) (loadgen.Report, error) {
	running, err := b.clients.StartSelf("clients", "clients", "--target", peers.ServiceAddress.String(), "--hosts", strconv.Itoa(cases.ChangedServices),
		"--rate", strconv.Itoa(cases.ChangeRate), "--connections", strconv.Itoa(cases.ChangeConnections), "--duration", d.String())
	if err != nil {
		return loadgen.Report{}, err
	}
	return clients.Collect(ctx, []*lab.Process{running}, clients.OwnReport)
}

func (b *Bed) startProbe(d time.Duration) (*lab.Process, error) {
	return b.clients.StartSelf("probe", "probe", "--target", peers.ServiceAddress.String(), "--duration", d.String())
}

func (b *Bed) probe(ctx context.Context, d time.Duration) (control.Sights, error) {
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
