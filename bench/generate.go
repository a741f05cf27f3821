// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
	"github.com/xlb-project/xlb/bench/wrk"
)

const (
	wrkScript = "wrk.lua"
	// generators is the number of wrk processes. A wrk has one URL, and a direct
	// connection needs both endpoints': every peer gets the same two.
	generators = workers
)

// generate makes one load against the targets and reports it.
func (b *bed) generate(ctx context.Context, l load, targets []netip.AddrPort, path string, d time.Duration) (loadgen.Report, error) {
	if l.isScaled() {
		return b.generateScaled(ctx, l, targets, path, d)
	}
	switch l.Case {
	case caseBookstore, caseBank:
		return b.generateApp(ctx, l, targets, d)
	case caseLeast:
		return b.generateAtRate(ctx, targets, l.Rate, l.Connections, leastClients, d)
	case caseShort:
		return b.generateSelf(ctx, targets, "load", l, d, "--path", path)
	case caseSetup:
		return b.generateSelf(ctx, targets, "load", l, d, "--setup-only")
	case caseWebSocket:
		return b.generateSelf(ctx, targets, "websocket", l, d, "--message", strconv.Itoa(l.Message))
	}
	if l.Generator == generatorFortio {
		return b.generateFortio(ctx, l, targets, path, d)
	}
	return b.generateKeepalive(ctx, l, targets, path, d)
}

// script is what wrk runs.
func (l load) script() string {
	if l.Case == caseRoutes {
		return routesScript
	}
	if l.Way == wayRequest {
		return postScript
	}
	return wrkScript
}

// generateKeepalive spreads the connections over the wrk processes and those
// over the targets.
func (b *bed) generateKeepalive(ctx context.Context, l load, targets []netip.AddrPort, path string, d time.Duration) (loadgen.Report, error) {
	tool, err := b.tools.find("wrk")
	if err != nil {
		return loadgen.Report{}, err
	}
	parts := split(l.Connections, generators)
	running := make([]*lab.Process, 0, len(parts))
	for i, connections := range parts {
		p, err := b.lab.Start(lab.Command{Name: "wrk", Path: tool, Role: lab.Client, Args: []string{
			"--threads", "1",
			"--connections", strconv.Itoa(connections),
			"--duration", fmt.Sprintf("%ds", int(d.Seconds())),
			"--script", filepath.Join(b.site.dir, l.script()),
			"http://" + targets[i%len(targets)].String() + path,
		}})
		if err != nil {
			return loadgen.Report{}, errors.Join(err, stopAll(running))
		}
		running = append(running, p)
	}
	err = b.readCPUAfter(ctx, d)
	report, reportErr := collect(ctx, running, func(i int, output string) (loadgen.Report, error) { return wrk.Parse(output, parts[i]) })
	return report, errors.Join(err, reportErr)
}

// readCPUAfter reads processor times when a load ends. Afterwards wrk sorts out its histogram, which takes seconds of a processor where latencies are
// far apart: that is no cost of a request.
func (b *bed) readCPUAfter(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return ctx.Err()
	}
	t, err := readCPU(b.lab)
	b.cpuAtEnd = &t
	return err
}

// cpuNow is what a load read at its end, or the times now.
func (b *bed) cpuNow() (cpuTime, error) {
	if b.cpuAtEnd != nil {
		return *b.cpuAtEnd, nil
	}
	return readCPU(b.lab)
}

// add merges the report of a generator that ran at the same time.
func add(total *loadgen.Report, report loadgen.Report) {
	total.Requests += report.Requests
	total.Errors += report.Errors
	if total.FirstError == "" {
		total.FirstError = report.FirstError
	}
	total.DurationUS = max(total.DurationUS, report.DurationUS)
	total.Latency.Add(report.Latency)
}

// generateSelf runs a load command of this very program inside the lab.
func (b *bed) generateSelf(ctx context.Context, targets []netip.AddrPort, command string, l load, d time.Duration, more ...string) (loadgen.Report, error) {
	var report loadgen.Report
	self, err := b.tools.find(toolSelf)
	if err != nil {
		return report, err
	}
	args := append([]string{command, "--connections", strconv.Itoa(l.Connections), "--duration", d.String()}, more...)
	for _, target := range targets {
		args = append(args, "--target", target.String())
	}
	p, err := b.lab.Start(lab.Command{
		Name: command, Path: self, Args: args, Role: lab.Client,
		// The runtime preempts with signals, and a blocking receive that a signal interrupts fails with EAGAIN
		// on a socket in a socket map. The same for every peer.
		Env: []string{"GODEBUG=asyncpreemptoff=1"},
	})
	if err != nil {
		return report, err
	}
	output, err := p.Wait(ctx)
	if err != nil {
		return report, err
	}
	if err := json.Unmarshal([]byte(output), &report); err != nil {
		return report, fmt.Errorf("report of the %s command: %w", command, err)
	}
	return report, nil
}

// split divides connections over at most n load generators, as evenly as it goes.
func split(connections, n int) []int {
	n = min(n, connections)
	parts := make([]int, n)
	for i := range parts {
		parts[i] = connections / n
		if i < connections%n {
			parts[i]++
		}
	}
	return parts
}
