// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Ask is one request of a load, sent as it stands.
type Ask struct {
	Path string
	// Host defaults to "e2e.test".
	Host string
	// Headers in the form "Name: value".
	Headers []string
}

// LoadSpec describes clients that send requests one after the other.
type LoadSpec struct {
	// Address of the service.
	Address string
	// Connections that work at once; default 1.
	Connections int
	// Requests per connection; 0 goes on until standard input ends.
	Requests int
	// Asks are sent in turn; default GET /.
	Asks []Ask
	// OneShot opens a connection for each request, as Python's requests does
	// outside of a session: it offers to keep the connection, reads the whole
	// response, and closes.
	OneShot bool
	// Timeout of one request, default 30 s.
	Timeout time.Duration
	// Memory asks for Uneven.
	Memory bool
	// Pause of a connection between the end of a response and the next request.
	Pause time.Duration
}

// Failure is a request that was not answered with 200.
type Failure struct {
	At     time.Time
	Reason string
}

// LoadReport answers "report", and once more at the end.
type LoadReport struct {
	Total int
	// Status counts responses by status code.
	Status map[int]int
	// Served counts answers of 200 by their body, for each ask in order. A
	// body is the identity of a server.
	Served []map[string]int
	// Failed counts responses other than 200 and broken connections.
	Failed   int
	Failures []Failure
	// Refused counts those of the failures that were no connection at all.
	Refused int
	// Broken counts responses that began and then broke off.
	Broken      int
	FirstBroken string
	// Peers are the addresses that getpeername() gave.
	Peers map[string]int
	// Reconnects counts connections that ended without being asked to.
	Reconnects int
	// Uneven counts connections of whose memory the kernel has a wrong count after their last response.
	Uneven int
	// Median, the 99th percentile and Slowest are times from request to the end of its response.
	Median, P99, Slowest time.Duration
	// Elapsed is the time since the start.
	Elapsed time.Duration
}

// maxFailures bounds the failures that a report lists; all are counted.
const maxFailures = 1000

// maxAnswer bounds a body that names a server.
const maxAnswer = 64 << 10

type load struct {
	spec    LoadSpec
	started time.Time

	mu        sync.Mutex // guards everything below
	report    LoadReport
	latencies []time.Duration
}

func runLoad(s *stdio) error {
	l := &load{started: time.Now()}
	if err := s.spec(&l.spec); err != nil {
		return err
	}
	l.applyDefaults()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		l.obey(s)
	}()
	var workers sync.WaitGroup
	for range l.spec.Connections {
		workers.Go(func() { l.work(ctx) })
	}
	workers.Wait()
	return s.answer(l.snapshot())
}

func (l *load) applyDefaults() {
	l.spec.Connections = max(l.spec.Connections, 1)
	if len(l.spec.Asks) == 0 {
		l.spec.Asks = []Ask{{Path: "/"}}
	}
	if l.spec.Timeout == 0 {
		l.spec.Timeout = 30 * time.Second
	}
	l.report.Status = map[int]int{}
	l.report.Peers = map[string]int{}
	for range l.spec.Asks {
		l.report.Served = append(l.report.Served, map[string]int{})
	}
}

// obey reports on each command until standard input ends.
func (l *load) obey(s *stdio) {
	for {
		if _, err := s.command(); err != nil {
			return
		}
		if err := s.answer(l.snapshot()); err != nil {
			return
		}
	}
}

func (l *load) snapshot() LoadReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.report
	r.Status, r.Peers = maps.Clone(r.Status), maps.Clone(r.Peers)
	r.Failures = slices.Clone(r.Failures)
	r.Served = make([]map[string]int, len(l.report.Served))
	for i, served := range l.report.Served {
		r.Served[i] = maps.Clone(served)
	}
	r.Elapsed = time.Since(l.started)
	if len(l.latencies) == 0 {
		return r
	}
	sorted := slices.Clone(l.latencies)
	slices.Sort(sorted)
	r.Median, r.P99, r.Slowest = sorted[len(sorted)/2], sorted[len(sorted)*99/100], sorted[len(sorted)-1]
	return r
}

// work is one client: it keeps its connection for as long as it can.
func (l *load) work(ctx context.Context) {
	var conn *clientConn
	defer func() { conn.close() }()
	for i := 0; ctx.Err() == nil && (l.spec.Requests == 0 || i < l.spec.Requests); i++ {
		if conn == nil {
			opened, err := dialClient(l.spec.Address, l.spec.Timeout)
			if err != nil {
				l.failed(fmt.Sprintf("connect: %v", err))
				// Clients that are refused do not spin.
				pause(ctx, max(l.spec.Pause, 10*time.Millisecond))
				continue
			}
			conn = opened
			l.connected(conn)
		}
		which := i % len(l.spec.Asks)
		began := time.Now()
		answer, err := conn.get(l.spec.Asks[which], l.spec.Timeout)
		l.record(which, answer, time.Since(began), err)
		if err != nil || answer.last || l.spec.OneShot {
			conn.close()
			conn = nil
		}
		pause(ctx, l.spec.Pause)
	}
	if conn != nil && l.spec.Memory {
		l.countMemory(conn)
	}
}

func (l *load) countMemory(conn *clientConn) {
	even, err := conn.even()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.fail(err.Error())
	} else if !even {
		l.report.Uneven++
	}
}

// pause ends early with the load.
func pause(ctx context.Context, long time.Duration) {
	if long == 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
}

func (l *load) connected(conn *clientConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Peers[conn.RemoteAddr().String()]++
}

// failed notes that there is no connection.
func (l *load) failed(reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Total++
	l.report.Refused++
	l.fail(reason)
}

// fail needs l.mu.
func (l *load) fail(reason string) {
	l.report.Failed++
	if len(l.report.Failures) < maxFailures {
		l.report.Failures = append(l.report.Failures, Failure{At: time.Now(), Reason: reason})
	}
}

func (l *load) record(which int, a *answer, took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Total++
	if err != nil {
		l.fail(err.Error())
		l.broken(err)
		l.report.Reconnects++
		return
	}
	l.latencies = append(l.latencies, took)
	l.report.Status[a.status]++
	if a.last {
		l.report.Reconnects++
	}
	if a.status != http.StatusOK {
		l.fail(fmt.Sprintf("status %d: %s", a.status, a.body))
		return
	}
	l.report.Served[which][a.body]++
}

// brokenOff is an error after the first byte of a response.
type brokenOff struct{ error }

func (b brokenOff) Unwrap() error { return b.error }

// broken needs l.mu.
func (l *load) broken(err error) {
	var off brokenOff
	if !errors.As(err, &off) {
		return
	}
	if l.report.Broken == 0 {
		l.report.FirstBroken = err.Error()
	}
	l.report.Broken++
}

// clientConn is a connection with a reader that outlives single responses.
type clientConn struct {
	net.Conn
	r *bufio.Reader
}

func dialClient(address string, timeout time.Duration) (*clientConn, error) {
	conn, err := net.DialTimeout("tcp", address, timeout)
	if err != nil {
		return nil, err
	}
	return &clientConn{Conn: conn, r: bufio.NewReader(conn)}, nil
}

func (c *clientConn) close() {
	if c != nil {
		// The test is over for this connection, whatever close says.
		_ = c.Close()
	}
}

// answer is a whole response.
type answer struct {
	status int
	body   string
	// last tells that the server will close the connection.
	last bool
}

// get sends one request and reads its response. An error means that the
// connection cannot be used any more.
func (c *clientConn) get(ask Ask, timeout time.Duration) (*answer, error) {
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, ask.head()); err != nil {
		return nil, fmt.Errorf("send: %w", err)
	}
	if _, err := c.r.Peek(1); err != nil {
		return nil, fmt.Errorf("receive: %w", err)
	}
	a, err := c.receive()
	if err != nil {
		return nil, brokenOff{err}
	}
	return a, nil
}

// receive reads one whole response.
func (c *clientConn) receive() (*answer, error) {
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		return nil, fmt.Errorf("receive the head: %w", err)
	}
	content, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("receive the body: %w", err)
	}
	if len(content) == maxAnswer {
		return nil, errors.New("the body names no server: it is too long")
	}
	return &answer{status: response.StatusCode, body: strings.TrimSpace(string(content)), last: response.Close}, nil
}

// head is the request's header section.
func (a Ask) head() string {
	host := a.Host
	if host == "" {
		host = "e2e.test"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: keep-alive\r\n", a.Path, host)
	for _, h := range a.Headers {
		fmt.Fprintf(&b, "%s\r\n", h)
	}
	b.WriteString("\r\n")
	return b.String()
}
