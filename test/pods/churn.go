// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// ChurnSpec describes pods that come and go.
type ChurnSpec struct {
	// Service is connected to. Nothing has the address in a pod.
	Service netip.AddrPort
	// Server is where a pod's server listens.
	Server netip.AddrPort
	// Count is how many there are in all, and AtOnce the most at the same time.
	Count, AtOnce int
	// Rate is how many begin a second; 0: one does as soon as AtOnce has room.
	Rate float64
	// Life is how long a pod asks once it is served, and Requests how often, at even intervals.
	Life     time.Duration
	Requests int
	// Processes: every so many-th pod has a process, the others a thread alone; 0: none has.
	Processes int
	// Patience bounds how long a pod waits until it is served.
	Patience time.Duration
}

// ChurnReport says how they were served.
type ChurnReport struct {
	// Joined were served. Failed were not, or had a request that failed.
	Joined int `json:"served"`
	Failed int `json:"failed"`
	// Failures are the first of these.
	Failures []string `json:"failures,omitempty"`
	// Requests were answered by the pod's own server.
	Requests int `json:"requests"`
	// Peak is how many there were at once.
	Peak int `json:"peak"`
	// Median, P99 and Slowest are of the times from the first connect of a pod to the one that succeeded.
	Median  time.Duration `json:"served_p50_ns"`
	P99     time.Duration `json:"served_p99_ns"`
	Slowest time.Duration `json:"served_max_ns"`
	// Late is how much later than due the last pod began.
	Late time.Duration `json:"late_ns"`
	// Elapsed is the time from the first pod's begin to the last one's end.
	Elapsed time.Duration `json:"elapsed_ns"`
}

// maxFailures bounds the failures that a report names.
const maxFailures = 10

type churn struct {
	spec ChurnSpec

	mu     sync.Mutex // guards what follows
	report ChurnReport
	joins  []time.Duration
	open   int
}

// Churn has pods come and go, and returns when the last has gone. The end of ctx begins no more of them.
func Churn(ctx context.Context, spec ChurnSpec) ChurnReport {
	c := &churn{spec: spec}
	room := make(chan struct{}, spec.AtOnce)
	var running sync.WaitGroup
	began := time.Now()
	for i := range spec.Count {
		c.report.Late = spec.await(ctx, began, i)
		room <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		running.Go(func() {
			defer func() { <-room }()
			c.count(+1)
			defer c.count(-1)
			c.note(c.live(i))
		})
	}
	running.Wait()
	c.report.Elapsed = time.Since(began)
	c.sum()
	return c.report
}

// await waits until a pod is due, and returns by how much it is late.
func (s *ChurnSpec) await(ctx context.Context, began time.Time, i int) time.Duration {
	if s.Rate == 0 {
		return 0
	}
	due := began.Add(time.Duration(float64(i) / s.Rate * float64(time.Second)))
	wait := time.Until(due)
	if wait <= 0 {
		return -wait
	}
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
	return 0
}

func (c *churn) count(by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open += by
	c.report.Peak = max(c.report.Peak, c.open)
}

func (c *churn) note(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Failed++
	if len(c.report.Failures) < maxFailures {
		c.report.Failures = append(c.report.Failures, err.Error())
	}
}

// served is what the thread of a pod hands on.
type served struct {
	pod  *pod
	conn net.Conn
	took time.Duration
	err  error
}

// live is one pod's life.
func (c *churn) live(i int) error {
	identity := fmt.Sprintf("pod %d", i)
	hasProcess := c.spec.Processes > 0 && i%c.spec.Processes == 0
	begun, end := make(chan served, 1), make(chan struct{})
	onThread(func() {
		begun <- c.begin(identity, hasProcess)
		// The thread of a pod without a process is what is in its namespace.
		if !hasProcess {
			<-end
		}
	})
	defer close(end)
	s := <-begun
	if s.pod == nil {
		return fmt.Errorf("%s: %w", identity, s.err)
	}
	if s.err == nil {
		s.err = c.ask(&s)
	}
	if err := errors.Join(s.err, s.pod.close()); err != nil {
		return fmt.Errorf("%s: %w", identity, err)
	}
	return nil
}

// begin makes the thread one of a new pod, and connects.
func (c *churn) begin(identity string, hasProcess bool) (s served) {
	if s.err = enter(); s.err != nil {
		return s
	}
	if s.pod, s.err = newPod(identity, c.spec.Server, 1, hasProcess); s.err != nil {
		return s
	}
	s.conn, s.took, s.err = connect(c.spec.Service, c.spec.Patience)
	return s
}

// ask is the life of a pod that is served.
func (c *churn) ask(s *served) error {
	defer s.conn.Close()
	c.mu.Lock()
	c.joins = append(c.joins, s.took)
	c.mu.Unlock()
	client := newClient(s.conn)
	began := time.Now()
	for i := range c.spec.Requests {
		if err := client.ask(c.spec.Service.String(), s.pod.identity); err != nil {
			return fmt.Errorf("request %d, %s after it was served: %w", i+1, time.Since(began).Round(time.Millisecond), err)
		}
		c.mu.Lock()
		c.report.Requests++
		c.mu.Unlock()
		// The pauses are a part of what is tried, and no way to wait for something.
		time.Sleep(time.Until(began.Add(c.spec.Life * time.Duration(i+1) / time.Duration(c.spec.Requests))))
	}
	return nil
}

// sum sums the joins up.
func (c *churn) sum() {
	c.report.Joined = len(c.joins)
	if len(c.joins) == 0 {
		return
	}
	slices.Sort(c.joins)
	c.report.Median, c.report.P99, c.report.Slowest = c.joins[len(c.joins)/2], c.joins[len(c.joins)*99/100], c.joins[len(c.joins)-1]
}
