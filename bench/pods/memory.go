// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
)

// destinations is how many clusters a pod asks, of one endpoint each.
const destinations = 10

// Stock is what memory is in use at a moment, in bytes.
type Stock struct {
	// PSS and Anonymous are of the daemon's process (lab.Memory).
	PSS       int64 `json:"pss_bytes"`
	Anonymous int64 `json:"anonymous_bytes"`
	// Charged is the kernel's memory that the daemon's memory cgroup is charged with; 0: this machine has no such cgroup. Buffers are those of its sockets.
	Charged int64 `json:"charged_bytes"`
	Buffers int64 `json:"buffers_bytes"`
	// Descriptors are those of the daemon.
	Descriptors int `json:"descriptors"`
	// Kernel is the whole machine's kernel memory less that before the daemon started: that of clients' and servers' sockets too.
	Kernel int64 `json:"kernel_bytes"`
}

// Stage is a moment of a measurement.
type Stage struct {
	Name string `json:"name"`
	// Processor is what share of one the daemon has used since the stage before, which is idle but for its begin.
	Processor float64 `json:"processor_share"`
	Stock
}

// Memory is what pods that stay take.
type Memory struct {
	Pods int `json:"pods"`
	// JoinSeconds is from the daemon's start until all are served.
	JoinSeconds float64 `json:"join_seconds"`
	Stages      []Stage `json:"stages"`
}

// String is a line of progress.
func (m Memory) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "all served %.2f s after the start", m.JoinSeconds)
	for _, s := range m.Stages {
		fmt.Fprintf(&b, "; %s: own %d KB, charged %d KB", s.Name, s.Anonymous>>10, s.Charged>>10)
	}
	return b.String()
}

// The moments.
const (
	joined  = "joined"
	asked   = "asked"
	later   = "later"
	hungUp  = "hung up"
	rested  = "rested"
	askedIn = 5 * time.Second
	laterIn = 15 * time.Second
	// restIn is longer than memory.Pace of the daemon: it gives back what the burst has left.
	restIn = 75 * time.Second
)

// memory measures n pods that are there before the daemon starts.
func memory(ctx context.Context, o *Options, n int) (m Memory, err error) {
	m.Pods = n
	l, err := lab.New(lab.SameHost)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	crowd, err := startCrowds(l, n)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, crowd.end()) }()
	before, err := stillKernel(ctx)
	if err != nil {
		return m, err
	}
	began := time.Now()
	d, err := startDaemon(ctx, l, o.XLB, destinations)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.awaitWorkloads(ctx, n); err != nil {
		return m, err
	}
	m.JoinSeconds = time.Since(began).Seconds()
	for _, stage := range []struct {
		name string
		do   string
		wait time.Duration
	}{{joined, "", askedIn}, {asked, "ask", askedIn}, {later, "", laterIn - askedIn}, {rested, "", restIn}, {hungUp, "hang up", askedIn}} {
		if stage.do != "" {
			if err := crowd.do(stage.do); err != nil {
				return m, err
			}
		}
		share, err := d.lab.ProcessorShare(ctx, lab.Balancer, stage.wait)
		if err != nil {
			return m, err
		}
		s, err := d.stock(before)
		if err != nil {
			return m, err
		}
		m.Stages = append(m.Stages, Stage{stage.name, share, s})
	}
	return m, nil
}

// stillKernel is the kernel's memory when it has stopped changing.
func stillKernel(ctx context.Context) (int64, error) {
	const tries, still = 40, 256 << 10
	last := int64(0)
	for range tries {
		_, kernel, err := lab.MachineMemory()
		if err != nil || max(kernel-last, last-kernel) < still {
			return kernel, err
		}
		last = kernel
		if err := lab.Pause(ctx, 500*time.Millisecond); err != nil {
			return 0, err
		}
	}
	return last, nil
}

func (d *daemon) stock(before int64) (s Stock, err error) {
	own, err := d.Memory()
	if err != nil {
		return s, err
	}
	s.PSS, s.Anonymous = own.PSS, own.Anonymous
	if s.Charged, s.Buffers, err = d.charge.Read(); err != nil {
		return s, err
	}
	if s.Descriptors, err = d.descriptors(); err != nil {
		return s, err
	}
	_, kernel, err := lab.MachineMemory()
	s.Kernel = kernel - before
	return s, err
}
