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

	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
)

// calibration is how long direct connections show what they can do.
const calibration = 3 * time.Second

// calibrate finds out how many requests a second the same clients have answered in a closed loop, without a balancer. Shares are of that.
func (b *bed) calibrate(ctx context.Context, l load, o options) error {
	if o.Scale.Capacity > 0 {
		b.capacity = o.Scale.Capacity
	}
	if l.Case != caseRate || b.capacity > 0 {
		return nil
	}
	report, err := b.generateAtRate(ctx, b.site.endpoints, 0, l.Connections, generators, calibration)
	if err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	if report.Errors > 0 || report.Requests == 0 {
		return fmt.Errorf("calibrate: %d requests answered, %d not", report.Requests, report.Errors)
	}
	b.capacity = int(report.Rate())
	return nil
}

// offered is how many requests a second a load asks for.
func (b *bed) offered(l load) int { return max(1, b.capacity*l.Share/100) }

// generateAtRate lets client processes share the connections and ask at random moments, rate times a second in all, or as fast as answers come
// if it is 0. All peers get the same moments.
func (b *bed) generateAtRate(ctx context.Context, targets []netip.AddrPort, rate, connections, processes int, d time.Duration) (loadgen.Report, error) {
	self, err := b.tools.find(toolSelf)
	if err != nil {
		return loadgen.Report{}, err
	}
	parts := split(connections, processes)
	var running []*lab.Process
	for i, part := range parts {
		p, err := b.lab.Start(lab.Command{Name: "clients", Path: self, Role: lab.Client, Args: []string{
			"clients",
			"--target", targets[i%len(targets)].String(),
			"--rate", strconv.FormatFloat(float64(rate)/float64(len(parts)), 'f', -1, 64),
			"--connections", strconv.Itoa(part),
			"--duration", d.String(),
			"--seed", strconv.Itoa(i),
		}})
		if err != nil {
			return loadgen.Report{}, errors.Join(err, stopAll(running))
		}
		running = append(running, p)
	}
	return collect(ctx, running, ownReport)
}

// collect waits for generators that run at the same time and adds up what parse makes of their outputs.
func collect(ctx context.Context, running []*lab.Process, parse func(i int, output string) (loadgen.Report, error)) (loadgen.Report, error) {
	total := loadgen.Report{Latency: loadgen.Histogram{}}
	var errs []error
	for i, p := range running {
		output, err := p.Wait(ctx)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		report, err := parse(i, output)
		errs = append(errs, err)
		add(&total, report)
	}
	return total, errors.Join(errs...)
}

// ownReport is what a generator of this very program writes.
func ownReport(_ int, output string) (report loadgen.Report, err error) {
	err = json.Unmarshal([]byte(output), &report)
	return report, err
}
