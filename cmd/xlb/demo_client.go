// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/internal/limits"
)

// Latency is measured in blocks: a peer's turn is long enough to warm the caches, and
// short enough that all peers meet the same minute of a busy machine.
const (
	blockSize = 100
	warmUp    = 200
)

// clientSpec is what the demonstration's client shall do: count or measure.
type clientSpec struct {
	// Service gets Requests over one kept-alive connection.
	Service  netip.AddrPort
	Requests int
	// Peers get Samples each, in turns.
	Peers   []clientPeer
	Samples int
}

// clientPeer is a way to the endpoints.
type clientPeer struct {
	Name    string
	Address netip.AddrPort
}

// clientReport is what the client saw.
type clientReport struct {
	// Served counts answers by their body, which is the endpoint's name.
	Served map[string]int
	// Connections is how many it took.
	Connections int
	// Latencies of the peers, in their order.
	Latencies []latency
}

// latency of one peer.
type latency struct {
	Peer string
	P50  time.Duration
	P99  time.Duration
}

// demoClientCommand is the client: a process of its own, because it is a process in the
// cgroup whose connections are balanced. It reads a clientSpec and writes a clientReport.
func demoClientCommand(e *env) *cobra.Command {
	return &cobra.Command{
		Use:    "demo-client",
		Short:  "The client of the demonstration",
		Hidden: true,
		Args:   noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			var spec clientSpec
			if err := json.NewDecoder(os.Stdin).Decode(&spec); err != nil {
				return fmt.Errorf("read what to do: %w; this command is for xlb demo", err)
			}
			report, err := spec.run(c.Context())
			if err != nil {
				return err
			}
			return writeJSON(e.stdout, report)
		},
	}
}

// client runs the client inside the cgroup.
func (d *demo) client(ctx context.Context, spec clientSpec) (*clientReport, error) {
	input, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	var output bytes.Buffer
	complaints := &tail{}
	c := d.stage.command(inside, selfPath, "demo-client")
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(input), &output, complaints
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("demo: start the client: %w", err)
	}
	// Killing a process that has ended does nothing.
	stop := context.AfterFunc(ctx, func() { _ = c.Process.Kill() })
	err = c.Wait()
	stop()
	if err != nil {
		return nil, fmt.Errorf("demo: the client: %w\n%s", err, complaints)
	}
	report := &clientReport{}
	if err := json.Unmarshal(output.Bytes(), report); err != nil {
		return nil, fmt.Errorf("demo: read the client's report: %w", err)
	}
	return report, nil
}

func (s *clientSpec) run(ctx context.Context) (*clientReport, error) {
	if s.Requests > 0 {
		return s.count(ctx)
	}
	return s.measure(ctx)
}

// count sends the requests as any Go program would, and notes who answered.
func (s *clientSpec) count(ctx context.Context) (*clientReport, error) {
	report := &clientReport{Served: map[string]int{}}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if !i.Reused {
			report.Connections++
		}
	}})
	transport := &http.Transport{MaxConnsPerHost: 1}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: limits.Demo.Whole}
	for i := range s.Requests {
		name, err := askName(ctx, client, "http://"+s.Service.String()+"/")
		if err != nil {
			return nil, fmt.Errorf("request %d of %d: %w", i+1, s.Requests, err)
		}
		report.Served[name]++
	}
	return report, nil
}

func askName(ctx context.Context, client *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("answered %s: %s", response.Status, strings.TrimSpace(string(body)))
	}
	return strings.TrimSpace(string(body)), nil
}

// measure times requests over one connection to each peer, block by block in turns.
func (s *clientSpec) measure(ctx context.Context) (*clientReport, error) {
	runs := make([]*timing, 0, len(s.Peers))
	defer func() {
		for _, r := range runs {
			r.conn.Close()
		}
	}()
	for _, p := range s.Peers {
		r, err := newTiming(ctx, p, s.Samples)
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
		if err := r.exchange(warmUp); err != nil {
			return nil, err
		}
		r.times = r.times[:0]
	}
	for done := 0; done < s.Samples; done += blockSize {
		for _, r := range runs {
			if err := errors.Join(ctx.Err(), r.exchange(min(blockSize, s.Samples-done))); err != nil {
				return nil, err
			}
		}
	}
	report := &clientReport{}
	for _, r := range runs {
		report.Latencies = append(report.Latencies, r.latency())
	}
	return report, nil
}

// timing is a measurement of one peer. It writes requests itself: a client library's own
// time would hide the difference between the peers.
type timing struct {
	peer    clientPeer
	conn    net.Conn
	reader  *bufio.Reader
	request []byte
	times   []time.Duration
}

func newTiming(ctx context.Context, p clientPeer, samples int) (*timing, error) {
	conn, err := (&net.Dialer{Timeout: limits.Demo.Whole}).DialContext(ctx, "tcp", p.Address.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	return &timing{
		peer: p, conn: conn, reader: bufio.NewReader(conn),
		request: []byte("GET / HTTP/1.1\r\nHost: " + p.Address.String() + "\r\n\r\n"),
		times:   make([]time.Duration, 0, max(samples, warmUp)),
	}, nil
}

// exchange times n requests.
func (r *timing) exchange(n int) error {
	if err := r.conn.SetDeadline(time.Now().Add(limits.Demo.Whole)); err != nil {
		return fmt.Errorf("%s: %w", r.peer.Name, err)
	}
	for range n {
		began := time.Now()
		if err := r.once(); err != nil {
			return fmt.Errorf("%s: %w", r.peer.Name, err)
		}
		r.times = append(r.times, time.Since(began))
	}
	return nil
}

func (r *timing) once() error {
	if _, err := r.conn.Write(r.request); err != nil {
		return err
	}
	response, err := http.ReadResponse(r.reader, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", response.Status)
	}
	return nil
}

func (r *timing) latency() latency {
	slices.Sort(r.times)
	at := func(percent int) time.Duration { return r.times[(len(r.times)-1)*percent/100] }
	return latency{Peer: r.peer.Name, P50: at(50), P99: at(99)}
}
