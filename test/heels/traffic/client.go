// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	loadgen "github.com/xlb-project/xlb/bench/load"
)

// ClientOptions of a load.
type ClientOptions struct {
	Target netip.AddrPort `json:"target"`
	// Connections are how many to make in all; 0: as many as Duration allows.
	Connections int `json:"connections,omitempty"`
	// Duration ends the load; connections that are open then end after their request. 0: only Connections does.
	Duration time.Duration `json:"duration,omitempty"`
	// Concurrency is how many are open at a time.
	Concurrency int `json:"concurrency"`
	// Requests of each connection; 0: until Duration is over.
	Requests int `json:"requests"`
	// Request and Answer are sizes of messages in bytes; at least 32 and 64.
	Request uint32 `json:"request"`
	Answer  uint32 `json:"answer"`
	// Close says who closes first; empty: the client.
	Close Order `json:"close,omitempty"`
	// Late is how long the other side waits before it closes, too. In whole milliseconds.
	Late time.Duration `json:"late,omitempty"`
	// Pause between two requests of a connection.
	Pause time.Duration `json:"pause,omitempty"`
	// Timeout bounds connect, read and write each; 0: ten seconds.
	Timeout time.Duration `json:"timeout,omitempty"`
	// KeepAlive is how long a connection may be silent before TCP asks whether its other end still lives, and then between two questions; 0: never. In
	// whole seconds.
	KeepAlive time.Duration `json:"keep_alive,omitempty"`
	// FirstPort is the client's port of the first connection, the next port that of the second and so on; 0: the kernel chooses.
	FirstPort uint16 `json:"first_port,omitempty"`
	// CPU is the processor that the client runs on, from 1; 0: all.
	CPU int `json:"cpu,omitempty"`
}

// Event is an error and when it was seen.
type Event struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
}

// ClientReport is what a client saw. Its errors are those of the embedded report, one for each broken connection.
type ClientReport struct {
	loadgen.Report
	// Connections that ended as they should.
	Connections int64 `json:"connections"`
	// Bytes of messages, both ways.
	Bytes int64 `json:"bytes"`
	// Setup is how long connect took; Latency of the embedded report is a request's, with connect and close if it is the connection's only one.
	Setup loadgen.Histogram `json:"setup"`
	// P50 and P99 are percentiles of the requests' latencies, and SetupP50 the median of Setup, in microseconds; the histograms hold whole ones.
	P50      float64 `json:"p50_us"`
	P99      float64 `json:"p99_us"`
	SetupP50 float64 `json:"setup_p50_us"`
	// Kinds counts errors by what they are; First holds the first of them.
	Kinds map[string]int64 `json:"kinds"`
	First []Event          `json:"first"`
	// Servers counts answers by the server's name.
	Servers map[string]int64 `json:"servers"`
	// Masked are connections whose server saw another address than the client's own; Elsewhere those that were no longer connected to the
	// target, as the client's socket sees it. Own counts the addresses that servers had at their end.
	Masked    int64            `json:"masked"`
	Elsewhere int64            `json:"elsewhere"`
	Own       map[string]int64 `json:"own"`
}

// Goodput is the messages' bytes per second.
func (r ClientReport) Goodput() float64 {
	if r.DurationUS == 0 {
		return 0
	}
	return float64(r.Bytes) / (float64(r.DurationUS) / 1e6)
}

const (
	defaultTimeout = 10 * time.Second
	// maxEvents bounds how many errors are told one by one.
	maxEvents = 20
	// errorPause keeps a path that refuses everything from becoming a busy loop.
	errorPause = 2 * time.Millisecond
)

func (o ClientOptions) validate() error {
	if o.Concurrency < 1 || o.Request < requestHead || o.Answer < answerHead || max(o.Request, o.Answer) > maxMessage {
		return fmt.Errorf("concurrency %d, request %d, answer %d bytes: use at least 1, %d and %d", o.Concurrency, o.Request, o.Answer, requestHead, answerHead)
	}
	if o.Duration <= 0 && (o.Connections < 1 || o.Requests < 1) {
		return errors.New("a load without an end: give a duration, or numbers of connections and of requests")
	}
	if o.Close != "" && o.Close != ClientFirst && o.Close != ServerFirst {
		return fmt.Errorf("close %q: use %q or %q", o.Close, ClientFirst, ServerFirst)
	}
	return nil
}

// client is what the workers of a load share.
type client struct {
	options ClientOptions
	next    atomic.Int64   // number of the next connection
	late    sync.WaitGroup // connections that wait before they close
}

// worker makes one connection after the other; only its own goroutine uses it until it ends.
type worker struct {
	*client
	buffer []byte
	report ClientReport
	// latencies and setups are in nanoseconds.
	latencies, setups []int64
}

// Run makes the load.
func Run(ctx context.Context, o ClientOptions) (ClientReport, error) {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if err := o.validate(); err != nil {
		return ClientReport{}, err
	}
	if err := pin(o.CPU); err != nil {
		return ClientReport{}, err
	}
	// Each worker blocks in system calls with a processor of its own.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(min(o.Concurrency+1, 128)))
	if o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Duration)
		defer cancel()
	}
	c := &client{options: o}
	workers := make([]*worker, o.Concurrency)
	start := time.Now()
	var wg sync.WaitGroup
	for i := range workers {
		w := &worker{client: c, buffer: newBuffer(), report: newReport(0)}
		workers[i] = w
		wg.Go(func() { w.run(ctx) })
	}
	wg.Wait()
	elapsed := time.Since(start)
	// The process's end would close them at once.
	c.late.Wait()
	return merge(workers, elapsed), nil
}

func newReport(elapsed time.Duration) ClientReport {
	return ClientReport{
		Report: loadgen.NewReport(elapsed), Setup: loadgen.Histogram{},
		Kinds: map[string]int64{}, Servers: map[string]int64{}, Own: map[string]int64{},
	}
}

func merge(workers []*worker, elapsed time.Duration) ClientReport {
	all := newReport(elapsed)
	var latencies, setups []int64
	for _, w := range workers {
		all.Add(inMicroseconds(w.latencies), w.report.Errors)
		for _, ns := range w.setups {
			all.Setup[ns/1000]++
		}
		latencies, setups = append(latencies, w.latencies...), append(setups, w.setups...)
		all.Connections += w.report.Connections
		all.Bytes += w.report.Bytes
		all.Masked += w.report.Masked
		all.Elsewhere += w.report.Elsewhere
		addCounts(all.Kinds, w.report.Kinds)
		addCounts(all.Servers, w.report.Servers)
		addCounts(all.Own, w.report.Own)
		for _, e := range w.report.First {
			if len(all.First) < maxEvents {
				all.First = append(all.First, e)
			}
		}
	}
	slices.Sort(latencies)
	slices.Sort(setups)
	all.P50, all.P99, all.SetupP50 = quantile(latencies, 0.5), quantile(latencies, 0.99), quantile(setups, 0.5)
	return all
}

func inMicroseconds(ns []int64) []int64 {
	out := make([]int64, len(ns))
	for i, n := range ns {
		out[i] = n / 1000
	}
	return out
}

// quantile of sorted nanoseconds in microseconds, by nearest rank; 0 when there are none.
func quantile(sorted []int64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[int(q*float64(len(sorted)-1))]) / 1000
}

func addCounts(to, from map[string]int64) {
	for key, n := range from {
		to[key] += n
	}
}

func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		number := w.next.Add(1) - 1
		if w.options.Connections > 0 && number >= int64(w.options.Connections) {
			return
		}
		if err := w.connection(ctx, number); err != nil {
			w.fail(err)
			time.Sleep(errorPause)
			continue
		}
		w.report.Connections++
	}
}

func (w *worker) fail(err error) {
	w.report.Errors++
	w.report.Kinds[err.Error()]++
	if len(w.report.First) < maxEvents {
		w.report.First = append(w.report.First, Event{time.Now(), err.Error()})
	}
}

func (w *worker) connection(ctx context.Context, number int64) (err error) {
	start := time.Now()
	c, err := w.connect(number)
	if err != nil {
		return err
	}
	isOpen := true
	defer func() {
		if isOpen {
			unix.Close(c.fd)
		}
	}()
	w.setups = append(w.setups, time.Since(start).Nanoseconds())
	own, err := addressOf(unix.Getsockname(c.fd))
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		isLast := w.options.Requests > 0 && i == w.options.Requests-1 || w.options.Requests == 0 && ctx.Err() != nil
		begin := time.Now()
		if err := w.exchange(c, own, number, i == 0, isLast); err != nil {
			return err
		}
		if !isLast {
			w.latencies = append(w.latencies, time.Since(begin).Nanoseconds())
			w.pause(ctx)
			continue
		}
		isOpen = false
		if err := w.end(c); err != nil {
			return err
		}
		if w.options.Requests == 1 {
			begin = start
		}
		w.latencies = append(w.latencies, time.Since(begin).Nanoseconds())
		return nil
	}
}

func (w *worker) pause(ctx context.Context) {
	if w.options.Pause == 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(w.options.Pause):
	}
}

func (w *worker) connect(number int64) (*conn, error) {
	family, to := sockaddr(w.options.Target)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	err = errors.Join(setTimeouts(fd, w.options.Timeout), noDelay(fd), keepAlive(fd, w.options.KeepAlive), w.bind(fd, number))
	if err == nil {
		err = connectFD(fd, to)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &conn{fd: fd, buffer: w.buffer}, nil
}

func connectFD(fd int, to unix.Sockaddr) error {
	for {
		err := unix.Connect(fd, to)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EISCONN): // an earlier call was interrupted and went on
			return nil
		}
		return os.NewSyscallError("connect", err)
	}
}

func (w *worker) bind(fd int, number int64) error {
	if w.options.FirstPort == 0 {
		return nil
	}
	address := netip.IPv4Unspecified()
	if w.options.Target.Addr().Is6() {
		address = netip.IPv6Unspecified()
	}
	_, at := sockaddr(netip.AddrPortFrom(address, w.options.FirstPort+uint16(number)))
	return errors.Join(
		os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)),
		os.NewSyscallError("bind", unix.Bind(fd, at)))
}

// exchange sends a request and reads its answer.
func (w *worker) exchange(c *conn, own netip.AddrPort, number int64, isFirst, isLast bool) error {
	o := w.options
	r := request{length: o.Request, answer: o.Answer, seed: uint32(number) + uint32(own.Port())}
	if isLast {
		r.closes = o.Close == ServerFirst
		if !r.closes {
			r.delay = uint32(o.Late.Milliseconds())
		}
	}
	r.encode(c.buffer)
	if err := c.writeMessage(requestHead, r.seed, r.length); err != nil {
		return err
	}
	if err := c.readFull(c.buffer[:answerHead]); err != nil {
		return unexpected(err)
	}
	a, err := decodeAnswer(c.buffer)
	if err != nil {
		return err
	}
	if a.seed != r.seed {
		return fmt.Errorf("%w: the answer of another request", errPayload)
	}
	if err := c.readPayload(r.seed, r.answer-answerHead); err != nil {
		return err
	}
	w.report.Bytes += int64(r.length) + int64(r.answer)
	w.report.Servers[a.server]++
	if isFirst {
		return w.compare(c, own, a)
	}
	return nil
}

// compare looks at who is connected with whom.
func (w *worker) compare(c *conn, own netip.AddrPort, a answer) error {
	peer, err := addressOf(unix.Getpeername(c.fd))
	if err != nil {
		return os.NewSyscallError("getpeername", err)
	}
	if peer != w.options.Target {
		w.report.Elsewhere++
	}
	if a.seen != own {
		w.report.Masked++
	}
	w.report.Own[a.own.String()]++
	return nil
}

// end closes the connection, or waits for the server's end and then closes.
func (w *worker) end(c *conn) error {
	if w.options.Close != ServerFirst {
		return os.NewSyscallError("close", unix.Close(c.fd))
	}
	err := c.readFull(c.buffer[:1])
	if !errors.Is(err, io.EOF) {
		unix.Close(c.fd)
		return fmt.Errorf("wait for the server's end: %w", err)
	}
	if w.options.Late > 0 {
		fd := c.fd
		w.late.Add(1)
		time.AfterFunc(w.options.Late, func() {
			defer w.late.Done()
			unix.Close(fd)
		})
		return nil
	}
	return os.NewSyscallError("close", unix.Close(c.fd))
}
