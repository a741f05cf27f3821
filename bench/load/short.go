// SPDX-License-Identifier: Apache-2.0

// Package load makes HTTP load with one connection per request, as callers
// without a connection pool do, and holds the report that all load generators
// of the benchmark share.
//
// A worker connects, sends a request that would allow the connection to be kept
// (HTTP/1.1, no "Connection" field), reads the whole response, closes, and
// starts again: Python's requests without a session behaves so. Workers use
// blocking system calls, as such callers do; an event loop's own cost would
// otherwise be part of every latency.
package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// ioTimeout bounds connect, write and read each; beyond it a request is an error.
	ioTimeout = 2 * time.Second
	// readBuffer is the size of one read in bytes.
	readBuffer = 64 << 10
	// errorPause keeps a path that refuses everything from becoming a busy loop.
	errorPause = time.Millisecond
)

// Options of a run.
type Options struct {
	// Targets are the IPv4 addresses to connect to; workers take them in turn.
	Targets []netip.AddrPort
	// Path is the request target.
	Path string
	// Connections is the number of workers, each with one open connection.
	Connections int
	// SetupOnly connects and resets, and sends nothing.
	SetupOnly bool
	Duration  time.Duration
}

// Validate returns what is wrong with the options.
func (o Options) Validate() error {
	var errs []error
	if len(o.Targets) == 0 {
		errs = append(errs, errors.New("no target: give at least one --target ADDRESS:PORT"))
	}
	for _, target := range o.Targets {
		if !target.Addr().Is4() {
			errs = append(errs, fmt.Errorf("target %s: only IPv4 addresses are supported", target))
		}
	}
	if o.Connections < 1 {
		errs = append(errs, fmt.Errorf("connections is %d: at least 1 is needed", o.Connections))
	}
	if o.Duration <= 0 {
		errs = append(errs, fmt.Errorf("duration is %s: it must be more than 0", o.Duration))
	}
	return errors.Join(errs...)
}

// Run makes load until the duration or ctx ends and reports it.
func Run(ctx context.Context, o Options) (Report, error) {
	if err := o.Validate(); err != nil {
		return Report{}, err
	}
	// Each worker blocks in system calls with a processor of its own, so that
	// the scheduler hands nothing over between them.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(o.Connections + 1))
	// The loops allocate only their list of latencies.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))

	ctx, cancel := context.WithTimeout(ctx, o.Duration)
	defer cancel()
	workers := make([]*worker, o.Connections)
	for i := range workers {
		workers[i] = newWorker(o, o.Targets[i%len(o.Targets)])
	}
	start := time.Now()
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(func() { w.run(ctx) })
	}
	wg.Wait()
	return merge(workers, time.Since(start)), nil
}

func merge(workers []*worker, elapsed time.Duration) Report {
	report := NewReport(elapsed)
	for _, w := range workers {
		report.AddWorker(w.latencies, w.failures)
	}
	return report
}

// worker is one closed loop; only its own goroutine uses it until it ends.
type worker struct {
	setupOnly bool
	address   unix.SockaddrInet4
	request   []byte
	buffer    []byte
	latencies []int64 // microseconds
	failures  Failures
}

func newWorker(o Options, target netip.AddrPort) *worker {
	return &worker{
		setupOnly: o.SetupOnly,
		address:   unix.SockaddrInet4{Port: int(target.Port()), Addr: target.Addr().As4()},
		request:   fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: xlb-bench\r\n\r\n", o.Path, target),
		buffer:    make([]byte, readBuffer),
	}
}

func (w *worker) run(ctx context.Context) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for ctx.Err() == nil {
		start := time.Now()
		if err := w.exchange(); err != nil {
			w.failures.Note(err)
			time.Sleep(errorPause)
			continue
		}
		w.latencies = append(w.latencies, time.Since(start).Microseconds())
	}
}

// exchange makes one connection, one request and reads one response. Closing is
// part of it, as it is part of what such a caller pays.
func (w *worker) exchange() (err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer func() { err = errors.Join(err, os.NewSyscallError("close", unix.Close(fd))) }()
	if err := prepare(fd); err != nil {
		return err
	}
	if err := ignoringEINTR(func() error { return unix.Connect(fd, &w.address) }); err != nil {
		return os.NewSyscallError("connect", err)
	}
	if w.setupOnly {
		// The close is a reset, and keeps no port: otherwise what is measured is how many ports there are.
		return os.NewSyscallError("setsockopt", unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
	}
	if _, err := unix.Write(fd, w.request); err != nil {
		return os.NewSyscallError("write", err)
	}
	return w.readResponse(func(p []byte) (int, error) { return unix.Read(fd, p) })
}

func prepare(fd int) error {
	timeout := unix.NsecToTimeval(ioTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &timeout); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
}

// ignoringEINTR repeats a call that a signal interrupted; the Go runtime sends
// itself signals to preempt long loops.
func ignoringEINTR(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// readResponse reads until the response, framed by Content-Length, is complete.
func (w *worker) readResponse(read func([]byte) (int, error)) error {
	var have int
	for have < len(w.buffer) {
		n, err := read(w.buffer[have:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return os.NewSyscallError("read", err)
		}
		if n == 0 {
			return errors.New("connection closed before the end of the response")
		}
		have += n
		head, length, err := parseHead(w.buffer[:have])
		if err != nil {
			return err
		}
		if head > 0 {
			return w.discard(read, head+length-have)
		}
	}
	return fmt.Errorf("response head exceeds %d bytes", len(w.buffer))
}

// discard reads and forgets the rest of a body.
func (w *worker) discard(read func([]byte) (int, error), rest int) error {
	for rest > 0 {
		n, err := read(w.buffer[:min(rest, len(w.buffer))])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return os.NewSyscallError("read", err)
		}
		if n == 0 {
			return errors.New("connection closed before the end of the body")
		}
		rest -= n
	}
	return nil
}

// parseHead returns the length of the response head and of the body that
// follows; head is 0 while more bytes are needed. The endpoints of the benchmark
// always send Content-Length, so another framing is an error.
func parseHead(data []byte) (head, length int, err error) {
	end := bytes.Index(data, []byte("\r\n\r\n"))
	if end < 0 {
		return 0, 0, nil
	}
	lines := bytes.Split(data[:end], []byte("\r\n"))
	if fields := bytes.Fields(lines[0]); len(fields) < 2 || string(fields[1]) != "200" {
		return 0, 0, fmt.Errorf("status line %q: want status 200", lines[0])
	}
	for _, line := range lines[1:] {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if !bytes.EqualFold(name, []byte("content-length")) {
			continue
		}
		length, err := strconv.Atoi(string(bytes.TrimSpace(value)))
		if err != nil || length < 0 {
			return 0, 0, fmt.Errorf("content-length %q: want a number", value)
		}
		return end + 4, length, nil
	}
	return 0, 0, errors.New("response without content-length")
}
