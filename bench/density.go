// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/xlb-project/xlb/bench/chain"
	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
)

const (
	// densityPatience bounds the time until the last service answers.
	densityPatience = 2 * time.Minute
	// sidecarsMost and sidecarsMemory, in bytes, bound how many Envoys stand beside services.
	sidecarsMost   = 20
	sidecarsMemory = 1500 << 20
)

// density is what a balancer for many services takes.
type density struct {
	// Reached is how many services have a balancer before them; fewer than asked for where the bound on sidecars is met.
	Reached int `json:"reached"`
	// ReadySeconds from the start of the balancer until all of these have answered.
	ReadySeconds float64 `json:"ready_seconds"`
	// Balancer is the memory of its processes, after the load.
	Balancer lab.Memory `json:"balancer"`
	// Machine and Kernel are how much more the whole machine, and its kernel, used than before; in bytes. Others' are among them.
	Machine int64 `json:"machine_bytes"`
	Kernel  int64 `json:"kernel_bytes"`
}

// densitySidecar is the Envoy of the i-th service.
func densitySidecar(i int) process {
	return process{
		name: fmt.Sprintf("sidecar%d", i), tool: "envoy", template: "envoy.yaml.tmpl", args: envoyArgs,
		settings: func(s site) settings {
			return settings{Admin: netip.AddrPortFrom(adminAddress.Addr(), uint16(meshAdmin+i)), Listeners: s.listeners[i : i+1]}
		},
	}
}

// densityTurn starts services and a balancer before all of them, and measures what that takes and what it can do.
func (b *bed) densityTurn(ctx context.Context, p peer, l load, o options) measurement {
	m := measurement{load: l, Peer: p.name, Density: &density{}}
	b.site.listeners = virtual(l.Services)
	service, err := b.startService(ctx, chain.Addresses(firstService, l.Services)[l.Services-1], []string{
		"service", "--listen", firstService.String(), "--count", strconv.Itoa(l.Services),
	})
	if err != nil {
		m.Failure = err.Error()
		return m
	}
	running, err := b.crowd(ctx, p, o, &m)
	for _, process := range running {
		err = errors.Join(err, process.Exited())
	}
	if err = errors.Join(err, stopAll(running), service.Stop()); err != nil {
		m.Failure = err.Error()
	}
	return m
}

// crowd returns what it has started, with an error or without.
func (b *bed) crowd(ctx context.Context, p peer, o options, m *measurement) (running []*lab.Process, err error) {
	usedBefore, kernelBefore, err := settledMemory()
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
	cpuBefore, err := readCPU(b.lab)
	if err != nil {
		return running, err
	}
	report, err := b.generateCrowd(ctx, p, m, o.Duration)
	if err != nil {
		return running, err
	}
	cpuAfter, err := readCPU(b.lab)
	if err != nil {
		return running, err
	}
	m.take(report)
	m.CPU = cpuAfter.per(cpuBefore, report.Requests)
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

// settledMemory reads the machine's memory when the kernel has freed what the turn before has left, or has had its time for that.
func settledMemory() (used, kernel int64, err error) {
	const pause, tries, still = 250 * time.Millisecond, 20, 1 << 20
	for range tries {
		before := kernel
		if used, kernel, err = lab.MachineMemory(); err != nil || max(kernel-before, before-kernel) < still {
			return used, kernel, err
		}
		time.Sleep(pause)
	}
	return used, kernel, nil
}

// startCrowd starts the balancer and waits for the last service, on behalf of a client.
func (b *bed) startCrowd(ctx context.Context, p peer, m *measurement) ([]*lab.Process, error) {
	m.Density.Reached = m.Services
	if p.name == peerSidecars {
		return b.startSidecars(ctx, m)
	}
	waiting, err := b.await(p, m.Services)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	var running []*lab.Process
	for _, proc := range p.processes {
		started, err := b.start(proc, lab.Balancer)
		if err != nil {
			return running, errors.Join(err, waiting.Stop())
		}
		running = append(running, started)
	}
	return running, m.Density.ready(ctx, waiting, begin)
}

// startSidecars starts one after the other until each service has one or the bound is met.
func (b *bed) startSidecars(ctx context.Context, m *measurement) (running []*lab.Process, err error) {
	m.Density.Reached = 0
	var total lab.Memory
	for i := range min(m.Services, sidecarsMost) {
		if total.PSS >= sidecarsMemory {
			break
		}
		waiting, err := b.awaitAt(chain.Addresses(firstVirtual, m.Services)[i], 1)
		if err != nil {
			return running, err
		}
		begin := time.Now()
		started, err := b.start(densitySidecar(i), lab.Balancer)
		if err != nil {
			return running, errors.Join(err, waiting.Stop())
		}
		running = append(running, started)
		if err := m.Density.ready(ctx, waiting, begin); err != nil {
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

// crowdFront is the first address that clients of a peer connect to.
func (p peer) crowdFront() netip.AddrPort {
	if p.name == peerDirect {
		return firstService
	}
	return firstVirtual
}

// await starts a client that waits for n services.
func (b *bed) await(p peer, n int) (*lab.Process, error) { return b.awaitAt(p.crowdFront(), n) }

func (b *bed) awaitAt(first netip.AddrPort, n int) (*lab.Process, error) {
	self, err := b.tools.find(toolSelf)
	if err != nil {
		return nil, err
	}
	return b.lab.Start(lab.Command{Name: "await", Path: self, Role: lab.Client, Args: []string{
		"await", "--target", first.String(), "--count", strconv.Itoa(n), "--patience", densityPatience.String(),
	}})
}

// ready adds the time from begin until the client had all its answers.
func (d *density) ready(ctx context.Context, waiting *lab.Process, begin time.Time) error {
	output, err := waiting.Wait(ctx)
	if err != nil {
		return err
	}
	var at time.Time
	if err := json.Unmarshal([]byte(output), &at); err != nil {
		return fmt.Errorf("answer of await: %w", err)
	}
	d.ReadySeconds += at.Sub(begin).Seconds()
	return nil
}

// generateCrowd asks each service that is reached, on one connection each, in a closed loop.
func (b *bed) generateCrowd(ctx context.Context, p peer, m *measurement, d time.Duration) (loadgen.Report, error) {
	self, err := b.tools.find(toolSelf)
	if err != nil {
		return loadgen.Report{}, err
	}
	running, err := b.lab.Start(lab.Command{Name: "clients", Path: self, Role: lab.Client, Args: []string{
		"clients", "--target", p.crowdFront().String(), "--count", strconv.Itoa(m.Density.Reached), "--rate", "0",
		"--connections", strconv.Itoa(m.Density.Reached), "--duration", d.String(),
	}})
	if err != nil {
		return loadgen.Report{}, err
	}
	return collect(ctx, []*lab.Process{running}, ownReport)
}
