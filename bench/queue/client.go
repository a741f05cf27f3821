// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	loadgen "github.com/xlb-project/xlb/bench/load"
)

// patience bounds a request, from when it is sent, and how long those that are due wait for a connection when no more become due. Those that
// have not been sent by then are errors.
const patience = 10 * time.Second

// errLate is what becomes of a request for which there was never a connection.
var errLate = fmt.Errorf("not sent within %s after the end", patience)

// Options of clients, which are one process.
type Options struct {
	// Targets are connected to in turns.
	Targets []netip.AddrPort
	// Rate is requests a second on average; the times between them are exponentially distributed. 0 stands for a closed loop: each
	// connection asks again when it has its answer.
	Rate float64
	// Connections bound the requests under way. One that finds all in use waits, and its latency counts from when it was due.
	Connections int
	Duration    time.Duration
	// Hosts are asked for at random: s0, s1, and so on; 0: the target's address is the host.
	Hosts int
	// Seed gives the same moments again.
	Seed uint64
}

// Validate returns what is wrong with the options.
func (o Options) Validate() error {
	if len(o.Targets) == 0 || o.Rate < 0 || o.Connections < 1 || o.Duration <= 0 {
		return fmt.Errorf("rate %g with %d connections to %v for %s: all must be positive, and a target is needed", o.Rate, o.Connections, o.Targets, o.Duration)
	}
	return nil
}

// Run asks until the duration or ctx ends, waits for what is under way, and reports.
func Run(ctx context.Context, o Options) (loadgen.Report, error) {
	if err := o.Validate(); err != nil {
		return loadgen.Report{}, err
	}
	t, err := newTimer()
	if err != nil {
		return loadgen.Report{}, err
	}
	callers := make([]*caller, o.Connections)
	for i := range callers {
		callers[i] = &caller{target: o.Targets[i%len(o.Targets)], hosts: o.Hosts}
		// Connected before anything is measured; one that cannot tries again with its first request.
		_ = callers[i].connect()
	}
	due := make(chan time.Time, 1<<16)
	var working sync.WaitGroup
	start := time.Now()
	for _, c := range callers {
		if o.Rate == 0 {
			working.Go(func() { c.runClosed(ctx, o.Duration) })
			continue
		}
		working.Go(func() { c.run(due, start.Add(o.Duration+patience)) })
	}
	if o.Rate > 0 {
		err = o.schedule(ctx, t, start, due)
	} else {
		working.Wait()
	}
	close(due)
	working.Wait()
	return merge(callers, time.Since(start)), errors.Join(err, t.close())
}

// schedule says when requests are due, at that moment.
func (o Options) schedule(ctx context.Context, t *timer, start time.Time, due chan<- time.Time) error {
	draw := rand.New(rand.NewPCG(o.Seed, 0))
	for next := time.Duration(0); ctx.Err() == nil; {
		next += time.Duration(draw.ExpFloat64() / o.Rate * float64(time.Second))
		if next > o.Duration {
			return nil
		}
		at := start.Add(next)
		if err := t.wait(time.Until(at)); err != nil {
			return err
		}
		due <- at
	}
	return nil
}

func merge(callers []*caller, elapsed time.Duration) loadgen.Report {
	report := loadgen.NewReport(elapsed)
	for _, c := range callers {
		report.AddWorker(c.latencies, c.failures)
	}
	return report
}

// caller has one connection; only its own goroutine uses it until it ends.
type caller struct {
	target    netip.AddrPort
	hosts     int
	conn      net.Conn
	r         *bufio.Reader
	latencies []int64 // microseconds
	failures  loadgen.Failures
}

func (c *caller) connect() (err error) {
	if c.conn, err = net.DialTimeout("tcp", c.target.String(), patience); err != nil {
		c.conn = nil
		return err
	}
	c.r = bufio.NewReader(c.conn)
	return nil
}

// run sends nothing after the end.
func (c *caller) run(due <-chan time.Time, end time.Time) {
	for at := range due {
		if time.Now().After(end) {
			c.failures.Note(errLate)
			continue
		}
		if err := c.ask(); err != nil {
			c.failures.Note(err)
			c.disconnect()
			continue
		}
		c.latencies = append(c.latencies, time.Since(at).Microseconds())
	}
	c.disconnect()
}

// runClosed asks as soon as it may, until the duration or ctx ends.
func (c *caller) runClosed(ctx context.Context, d time.Duration) {
	begin := time.Now()
	for at := begin; at.Sub(begin) < d && ctx.Err() == nil; {
		err := c.ask()
		now := time.Now()
		if err != nil {
			c.failures.Note(err)
			c.disconnect()
		} else {
			c.latencies = append(c.latencies, now.Sub(at).Microseconds())
		}
		at = now
	}
	c.disconnect()
}

func (c *caller) disconnect() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

func (c *caller) host() string {
	if c.hosts == 0 {
		return c.target.String()
	}
	return "s" + strconv.Itoa(rand.IntN(c.hosts))
}

// ask fails unless the answer is 200.
func (c *caller) ask() error {
	if c.conn == nil {
		if err := c.connect(); err != nil {
			return err
		}
	}
	if err := c.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c.conn, "GET / HTTP/1.1\r\nHost: %s\r\nUser-Agent: xlb-bench\r\n\r\n", c.host()); err != nil {
		return err
	}
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", response.Status)
	}
	return response.Body.Close()
}
