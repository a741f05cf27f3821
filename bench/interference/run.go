// SPDX-License-Identifier: Apache-2.0

package interference

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/podnet"
	"github.com/xlb-project/xlb/bench/wrk"
)

// Peers are who is measured, in the order of the first round (podnet.Order).
func Peers() []string { return []string{peers.Direct, peers.XLB, peers.Redirected} }

// Options of a run.
type Options struct {
	Peers []string `json:"peers"`
	// Neighbours are over how many connections the neighbour asks, fewer first; 0: not at all.
	Neighbours []int `json:"neighbours"`
	Rounds     int   `json:"rounds"`
	// Duration is how long the watched clients are measured, behind Warmup of the same load.
	Duration time.Duration `json:"duration_ns"`
	Warmup   time.Duration `json:"warmup_ns"`
	// Rate is the watched clients' requests a second, over so many Connections.
	Rate        float64 `json:"rate"`
	Connections int     `json:"connections"`
	// Tools are the paths of programs, Wrk that of the neighbour's.
	Tools podnet.Tools `json:"-"`
	Wrk   string       `json:"-"`
	// Describe returns what the report says of the machine; it reads sysctls, named as "net/ipv4/tcp_rmem". nil: nothing.
	Describe func(sysctl func(name string) (string, error)) fmt.Stringer `json:"-"`
}

// Validate returns what is wrong with the options.
func (o Options) Validate() error {
	if o.Rounds < 1 || o.Rate <= 0 || o.Connections < 1 || o.Warmup < 0 {
		return fmt.Errorf("%d rounds of %g requests a second over %d connections behind %s: all but the warm-up must be positive", o.Rounds, o.Rate, o.Connections, o.Warmup)
	}
	last := -1
	for _, n := range o.Neighbours {
		if n <= last {
			return fmt.Errorf("a neighbour with %d connections: use 0 or more, fewer first", n)
		}
		last = n
	}
	for _, name := range o.Peers {
		if !slices.Contains(Peers(), name) {
			return fmt.Errorf("peer %q: use some of %s", name, strings.Join(Peers(), ", "))
		}
	}
	return podnet.Whole(o.Duration)
}

// The pods, by their numbers in the net.
const (
	watched   = 0
	neighbour = 1
	// watchedServer and neighbourServer answer them.
	watchedServer   = 2
	neighbourServer = 3
	podCount        = 4
)

// sidecarWorkers are those of each Envoy, Istio's own.
const sidecarWorkers = 2

// noiseBefore is how long the neighbour asks before and after the watched clients are measured.
const noiseBefore = time.Second

// Load is one measurement of the watched clients.
type Load struct {
	Peer      string `json:"peer"`
	Neighbour int    `json:"neighbour"`
	Cycle     int    `json:"round"`
	// Failure says why it has no figures.
	Failure  string `json:"failure,omitempty"`
	Requests int64  `json:"requests"`
	// Errors are those of the warm-up, too.
	Errors int64  `json:"errors"`
	First  string `json:"first_error,omitempty"`
	P50    int64  `json:"p50_us"`
	P99    int64  `json:"p99_us"`
	// Got is what the neighbour got, in requests a second.
	Got float64 `json:"neighbour_rate"`
	// GotErrors are the neighbour's requests and connections that failed.
	GotErrors int64 `json:"neighbour_errors"`
}

// String is a line of progress.
func (l Load) String() string {
	name := fmt.Sprintf("neighbour of %d connections, round %d, %s", l.Neighbour, l.Cycle, l.Peer)
	if l.Failure != "" {
		return name + ": failed: " + l.Failure
	}
	text := fmt.Sprintf("%s: p50 %d us  p99 %d us  %d errors; the neighbour %.0f req/s  %d errors", name, l.P50, l.P99, l.Errors, l.Got, l.GotErrors)
	if l.First != "" {
		text += "; the watched clients' first: " + l.First
	}
	return text
}

// Run measures everything. What was measured before an error or the end of ctx is in the report.
func Run(ctx context.Context, o Options, progress io.Writer) (r Report, err error) {
	if err := o.Validate(); err != nil {
		return r, err
	}
	r = Report{Started: time.Now(), Options: o}
	n, err := podnet.New(lab.SameHost, podCount, o.Tools)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if o.Describe != nil {
		r.Machine = o.Describe(n.Sysctl)
	}
	s := site{Net: n, o: &o}
	if s.script, err = n.WriteScript(wrk.Script); err != nil {
		return r, err
	}
	if err := n.StartServers(ctx, n.Pods); err != nil {
		return r, err
	}
	for round := range o.Rounds {
		for _, peer := range podnet.Order(Peers(), o.Peers, round) {
			loads := s.trial(ctx, peer, round+1)
			if ctx.Err() != nil {
				return r, ctx.Err()
			}
			r.Loads = append(r.Loads, loads...)
			for _, l := range loads {
				fmt.Fprintln(progress, l)
			}
		}
	}
	return r, nil
}

// site is the pods with their servers.
type site struct {
	*podnet.Net
	o      *Options
	script string
}

// services are those of the watched clients and of the neighbour.
func (s *site) services() []peers.Listener {
	return podnet.Services([]*podnet.Pod{s.Pods[watchedServer], s.Pods[neighbourServer]})
}

// trial starts a peer, measures beside each neighbour, and stops it.
func (s *site) trial(ctx context.Context, peer string, round int) (loads []Load) {
	running, err := s.start(ctx, peer)
	for _, count := range s.o.Neighbours {
		if err != nil || ctx.Err() != nil {
			break
		}
		l := Load{Peer: peer, Neighbour: count, Cycle: round}
		if loadErr := s.measure(ctx, &l); loadErr != nil {
			l.Failure = loadErr.Error()
		}
		loads = append(loads, l)
	}
	for _, p := range running {
		err = errors.Join(err, p.Exited())
	}
	if err = errors.Join(err, s.StopAll(running)); err != nil {
		loads = append(loads, Load{Peer: peer, Cycle: round, Failure: err.Error()})
	}
	return loads
}

// start returns what it has started, with an error or without.
func (s *site) start(ctx context.Context, peer string) (running []*lab.Process, err error) {
	add := func(p *lab.Process, startErr error) {
		if startErr == nil {
			running = append(running, p)
		}
		err = errors.Join(err, startErr)
	}
	services := s.services()
	switch peer {
	case peers.XLB:
		add(s.StartXLB(services, lab.Charge{}))
		if err == nil {
			err = s.AwaitXLB(ctx, running[0], len(s.Pods))
		}
	case peers.Redirected:
		add(s.StartClientSidecar(s.Pods[watched], services[:1], sidecarWorkers, lab.Charge{}))
		add(s.StartClientSidecar(s.Pods[neighbour], services[1:], sidecarWorkers, lab.Charge{}))
		add(s.StartServerSidecar(s.Pods[watchedServer], sidecarWorkers, lab.Charge{}))
		add(s.StartServerSidecar(s.Pods[neighbourServer], sidecarWorkers, lab.Charge{}))
	}
	if err != nil {
		return running, err
	}
	for _, client := range []int{watched, neighbour} {
		waiting, err := s.Pods[client].StartSelf("await", "--target", s.target(peer, client).String())
		if err != nil {
			return running, err
		}
		if _, err := waiting.Wait(ctx); err != nil {
			return running, err
		}
	}
	return running, nil
}

// target is where a client connects to.
func (s *site) target(peer string, client int) netip.AddrPort {
	if peer == peers.Direct {
		return s.Pods[client+watchedServer].Server()
	}
	return s.services()[client].Address
}

// measure measures the watched clients beside the neighbour.
func (s *site) measure(ctx context.Context, l *Load) (err error) {
	var warm loadgen.Report
	if s.o.Warmup > 0 {
		if warm, err = s.watch(ctx, l.Peer, s.o.Warmup); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	var noise *lab.Process
	if l.Neighbour > 0 {
		args := podnet.WrkArgs(s.script, s.target(l.Peer, neighbour), l.Neighbour, s.o.Duration+2*noiseBefore)
		if noise, err = s.Pods[neighbour].Start("neighbour", s.o.Wrk, args...); err != nil {
			return err
		}
		select {
		case <-time.After(noiseBefore):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), noise.Stop())
		}
	}
	report, err := s.watch(ctx, l.Peer, s.o.Duration)
	l.Requests, l.Errors, l.First = report.Requests, warm.Errors+report.Errors, cmp.Or(warm.FirstError, report.FirstError)
	l.P50, l.P99 = report.Latency.Quantile(0.5), report.Latency.Quantile(0.99)
	if noise == nil {
		return err
	}
	output, noiseErr := noise.Wait(ctx)
	if err := errors.Join(err, noiseErr); err != nil {
		return err
	}
	beside, err := wrk.Parse(output, l.Neighbour)
	l.Got, l.GotErrors = beside.Rate(), beside.Errors
	return err
}

// watch has the watched clients ask at their rate.
func (s *site) watch(ctx context.Context, peer string, long time.Duration) (report loadgen.Report, err error) {
	running, err := s.Pods[watched].StartSelf("clients", "--target", s.target(peer, watched).String(), "--rate", strconv.FormatFloat(s.o.Rate, 'f', -1, 64),
		"--connections", strconv.Itoa(s.o.Connections), "--duration", long.String())
	if err != nil {
		return report, err
	}
	output, err := running.Wait(ctx)
	if err != nil {
		return report, err
	}
	return report, json.Unmarshal([]byte(output), &report)
}
