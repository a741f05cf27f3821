// SPDX-License-Identifier: Apache-2.0

package clients

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
	"github.com/xlb-project/xlb/bench/tools"
)

// Clients make load inside a lab.
type Clients struct {
	Lab   *lab.Lab
	Tools tools.Tools
	// Dir has the scripts of wrk.
	Dir string
	// CPUAtEnd is what processors had done when the last load ended; nil where that is not told.
	CPUAtEnd *lab.CPUTime
}

// readCPUAfter reads processor times when a load ends. Afterwards wrk sorts out its histogram, which takes seconds of a processor where latencies are
// far apart: that is no cost of a request.
func (c *Clients) readCPUAfter(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return ctx.Err()
	}
	t, err := lab.ReadCPU(c.Lab)
	c.CPUAtEnd = &t
	return err
}

// CPUNow is what a load read at its end, or the times now.
func (c *Clients) CPUNow() (lab.CPUTime, error) {
	if c.CPUAtEnd != nil {
		return *c.CPUAtEnd, nil
	}
	return lab.ReadCPU(c.Lab)
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

// Collect waits for generators that run at the same time and adds up what parse makes of their outputs.
func Collect(ctx context.Context, running []*lab.Process, parse func(i int, output string) (loadgen.Report, error)) (loadgen.Report, error) {
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

// OwnReport is what a generator of this very program writes.
func OwnReport(_ int, output string) (report loadgen.Report, err error) {
	err = json.Unmarshal([]byte(output), &report)
	return report, err
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
