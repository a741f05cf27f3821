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
	"github.com/xlb-project/xlb/bench/chain"
	"github.com/xlb-project/xlb/bench/clients"
	"github.com/xlb-project/xlb/bench/figures"
	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
	"github.com/xlb-project/xlb/bench/peers"
)

const (
	// densityPatience bounds the time until the last service answers.
	densityPatience = 2 * time.Minute
	// sidecarsMost and sidecarsMemory, in bytes, bound how many Envoys stand beside services.
	sidecarsMost   = 20
	sidecarsMemory = 1500 << 20
)

// densityTurn starts services and a balancer before all of them, and measures what that takes and what it can do.
func (b *Bed) densityTurn(ctx context.Context, p peers.Peer, l cases.Load, o cases.Options) figures.Measurement {
	m := figures.Measurement{Load: l, Peer: p.Name, Density: &figures.Density{}}
	b.site.Listeners = peers.Virtual(l.Services)
	service, err := b.startService(ctx, chain.Addresses(peers.FirstService, l.Services)[l.Services-1], []string{
		"service", "--listen", peers.FirstService.String(), "--count", strconv.Itoa(l.Services),
	})
	if err != nil {
		m.Failure = err.Error()
		return m
	}
	running, err := b.crowd(ctx, p, o, &m)
	for _, process := range running {
		err = errors.Join(err, process.Exited())
	}
	if err = errors.Join(err, lab.StopAll(running), service.Stop()); err != nil {
		m.Failure = err.Error()
	}
	return m
}

// crowd returns what it has started, with an error or without.
func (b *Bed) crowd(ctx context.Context, p peers.Peer, o cases.Options, m *figures.Measurement) (running []*lab.Process, err error) {
	usedBefore, kernelBefore, err := lab.StillMemory()
	if err != nil {
		return nil, err
	}
	if running, err = b.startCrowd(ctx, p, m); err != nil {
		return running, err
	}
	if o.Warmup > 0 {
		if _, err := b.generateCrowd(ctx, p, m, o.Warmup); err != nil {
			return running, fmt.Errorf("warm up: %w", err)
		}
	}
	pathsBefore := b.servedBy(ctx, p)
	cpuBefore, err := lab.ReadCPU(b.Lab)
	if err != nil {
		return running, err
	}
	report, err := b.generateCrowd(ctx, p, m, o.Duration)
	if err != nil {
		return running, err
	}
	cpuAfter, err := lab.ReadCPU(b.Lab)
	if err != nil {
		return running, err
	}
	m.Take(report)
	m.CPU = figures.PerRequestOf(cpuAfter, cpuBefore, report.Requests)
	m.FastShare = b.servedBy(ctx, p).shareSince(pathsBefore)
	used, kernel, err := lab.MachineMemory()
	m.Density.Machine, m.Density.Kernel = used-usedBefore, kernel-kernelBefore
	for _, process := range running {
		memory, memoryErr := process.MemoryWithChildren()
		err = errors.Join(err, memoryErr)
		m.Density.Balancer.Add(memory)
	}
	return running, err
}

// startCrowd starts the balancer and waits for the last service, on behalf of a client.
func (b *Bed) startCrowd(ctx context.Context, p peers.Peer, m *figures.Measurement) ([]*lab.Process, error) {
	m.Density.Reached = m.Services
	if p.Name == peers.Sidecars {
		return b.startSidecars(ctx, m)
	}
	waiting, err := b.await(p, m.Services)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	var running []*lab.Process
	for _, proc := range p.Processes {
		started, err := b.start(proc, lab.Balancer)
		if err != nil {
			return running, errors.Join(err, waiting.Stop())
		}
		running = append(running, started)
	}
	return running, addReady(ctx, m.Density, waiting, begin)
}

// startSidecars starts one after the other until each service has one or the bound is met.
func (b *Bed) startSidecars(ctx context.Context, m *figures.Measurement) (running []*lab.Process, err error) {
	m.Density.Reached = 0
	var total lab.Memory
	for i := range min(m.Services, sidecarsMost) {
		if total.PSS >= sidecarsMemory {
			break
		}
		waiting, err := b.awaitAt(chain.Addresses(peers.FirstVirtual, m.Services)[i], 1)
		if err != nil {
			return running, err
		}
		begin := time.Now()
		started, err := b.start(peers.DensitySidecar(i), lab.Balancer)
		if err != nil {
			return running, errors.Join(err, waiting.Stop())
		}
		running = append(running, started)
		if err := addReady(ctx, m.Density, waiting, begin); err != nil {
			return running, err
		}
		memory, err := started.Memory()
		if err != nil {
			return running, err
		}
		total.Add(memory)
		m.Density.Reached++
	}
	return running, nil
}

// await starts a client that waits for n services.
func (b *Bed) await(p peers.Peer, n int) (*lab.Process, error) { return b.awaitAt(p.CrowdFront(), n) }

func (b *Bed) awaitAt(first netip.AddrPort, n int) (*lab.Process, error) {
	return b.clients.StartSelf("await", "await", "--target", first.String(), "--count", strconv.Itoa(n), "--patience", densityPatience.String())
}

// addReady adds the time from begin until the client had all its answers.
func addReady(ctx context.Context, d *figures.Density, waiting *lab.Process, begin time.Time) error {
	output, err := waiting.Wait(ctx)
	if err != nil {
		return err
	}
	var have chain.Answered
	if err := json.Unmarshal([]byte(output), &have); err != nil {
		return fmt.Errorf("answer of await: %w", err)
	}
	d.ReadySeconds += have.At.Sub(begin).Seconds()
	return nil
}

// generateCrowd asks each service that is reached, on one connection each, in a closed loop.
func (b *Bed) generateCrowd(ctx context.Context, p peers.Peer, m *figures.Measurement, d time.Duration) (loadgen.Report, error) {
	running, err := b.clients.StartSelf("clients", "clients", "--target", p.CrowdFront().String(), "--count", strconv.Itoa(m.Density.Reached), "--rate", "0",
		"--connections", strconv.Itoa(m.Density.Reached), "--duration", d.String())
	if err != nil {
		return loadgen.Report{}, err
	}
	return clients.Collect(ctx, []*lab.Process{running}, clients.OwnReport)
}
