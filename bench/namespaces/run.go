// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/podnet"
	"github.com/xlb-project/xlb/bench/wrk"
)

// Options of a run.
type Options struct {
	// Topologies are where the server is: same, on the client's host, or cross, on another one.
	Topologies []string `json:"topologies"`
	// Connections are how many clients keep, each number measured by itself.
	Connections []int         `json:"connections"`
	Rounds      int           `json:"rounds"`
	Duration    time.Duration `json:"duration_ns"`
	Warmup      time.Duration `json:"warmup_ns"`
	// Tools are the paths of programs, Wrk that of the load.
	Tools podnet.Tools `json:"-"`
	Wrk   string       `json:"-"`
	// Describe returns what the report says of the machine; it reads sysctls, named as "net/ipv4/tcp_rmem". nil: nothing.
	Describe func(sysctl func(name string) (string, error)) fmt.Stringer `json:"-"`
}

// Topologies are all that are known.
func Topologies() []string { return []string{string(lab.SameHost), string(lab.CrossHost)} }

// Validate returns what is wrong with the options.
func (o Options) Validate() error {
	if o.Rounds < 1 || len(o.Connections) == 0 || slices.Min(o.Connections) < 1 {
		return fmt.Errorf("%d rounds over %v connections: both must be positive", o.Rounds, o.Connections)
	}
	for _, name := range o.Topologies {
		if !slices.Contains(Topologies(), name) {
			return fmt.Errorf("topology %q: use some of %s", name, strings.Join(Topologies(), ", "))
		}
	}
	if o.Warmup == 0 {
		return podnet.Whole(o.Duration)
	}
	return errors.Join(podnet.Whole(o.Duration), podnet.Whole(o.Warmup))
}

// Load is one measurement.
type Load struct {
	Topology    string `json:"topology"`
	Connections int    `json:"connections"`
	Cycle       int    `json:"round"`
	// Peer is direct or xlb; Pods: client and server are in namespaces of their own.
	Peer string `json:"peer"`
	Pods bool   `json:"pods"`
	// Failure says why it has no figures.
	Failure string  `json:"failure,omitempty"`
	Rate    float64 `json:"rate"`
	P50     int64   `json:"p50_us"`
	P99     int64   `json:"p99_us"`
	// Errors are those of the warm-up, too.
	Errors int64 `json:"errors"`
	// Fast is the share of XLB's requests that the kernel moved.
	Fast float64 `json:"fast_share,omitempty"`
}

// String is a line of progress.
func (l Load) String() string {
	name := fmt.Sprintf("%s host, %d connections, round %d, %s, %s", l.Topology, l.Connections, l.Cycle, l.Peer, placeName(l.Pods))
	if l.Failure != "" {
		return name + ": failed: " + l.Failure
	}
	return fmt.Sprintf("%s: %.0f req/s  p50 %d us  p99 %d us  %d errors", name, l.Rate, l.P50, l.P99, l.Errors)
}

func placeName(pods bool) string {
	if pods {
		return "pods"
	}
	return "one namespace"
}

// Run measures everything. What was measured before an error or the end of ctx is in the report.
func Run(ctx context.Context, o Options, progress io.Writer) (r Report, err error) {
	if err := o.Validate(); err != nil {
		return r, err
	}
	r = Report{Started: time.Now(), Options: o}
	for _, topology := range o.Topologies {
		if err := r.topology(ctx, lab.Topology(topology), progress); err != nil {
			return r, fmt.Errorf("%s host: %w", topology, err)
		}
	}
	return r, nil
}

// placement is where clients are and what they ask.
type placement struct {
	// client is a pod; nil: the host that has the daemon.
	client *podnet.Pod
	// service is XLB's, and server where it leads.
	service, server netip.AddrPort
}

// site is a topology with its servers.
type site struct {
	*podnet.Net
	o      *Options
	script string
	// one and pods are the two that are compared.
	one, pods placement
}

func (r *Report) topology(ctx context.Context, topology lab.Topology, progress io.Writer) (err error) {
	pods := 2
	if topology == lab.CrossHost {
		pods = 1
	}
	n, err := podnet.New(topology, pods, r.Options.Tools)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if r.Options.Describe != nil {
		r.Machine = r.Options.Describe(n.Sysctl)
	}
	s := site{Net: n, o: &r.Options}
	if err := s.build(ctx, topology); err != nil {
		return err
	}
	for round := range r.Options.Rounds {
		for _, connections := range r.Options.Connections {
			r.add(s.cycle(ctx, Load{Topology: string(topology), Connections: connections, Cycle: round + 1}), progress)
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	return nil
}

func (r *Report) add(loads []Load, progress io.Writer) {
	r.Loads = append(r.Loads, loads...)
	for _, l := range loads {
		fmt.Fprintln(progress, l)
	}
}

// build starts the servers. The client's pod has one, too, so that it is served before its first connection.
func (s *site) build(ctx context.Context, topology lab.Topology) (err error) {
	if s.script, err = s.WriteScript(wrk.Script); err != nil {
		return err
	}
	if err := errors.Join(s.StartServers(ctx, s.Pods), s.StartServerOn(ctx, lab.ServerHost)); err != nil {
		return err
	}
	s.one.server = netip.AddrPortFrom(s.EndpointAddress(), podnet.ServerPort)
	s.pods.client = s.Pods[0]
	if topology == lab.SameHost {
		s.pods.server = s.Pods[1].Server()
	} else if s.pods.server, err = s.JoinServerHost(s.Pods[0]); err != nil {
		return err
	}
	services := s.services()
	s.one.service, s.pods.service = services[0].Address, services[1].Address
	return nil
}

// services are one for each place.
func (s *site) services() []peers.Listener {
	return podnet.ServicesAt([]netip.AddrPort{s.one.server, s.pods.server})
}

// cycle measures both places without XLB, and then each twice with one: A B B A, so that what changes steadily meanwhile changes neither more.
func (s *site) cycle(ctx context.Context, like Load) (loads []Load) {
	like.Peer = peers.Direct
	for _, pods := range []bool{false, true} {
		loads = append(loads, s.measure(ctx, like, pods))
	}
	like.Peer = peers.XLB
	xlb, err := s.StartXLB(s.services(), lab.Charge{})
	if err == nil {
		err = s.AwaitXLB(ctx, xlb, len(s.Pods))
		for _, pods := range []bool{false, true, true, false} {
			if err == nil {
				loads = append(loads, s.measure(ctx, like, pods))
			}
		}
		err = errors.Join(err, xlb.Exited(), xlb.Stop())
	}
	if err != nil {
		like.Failure = err.Error()
		loads = append(loads, like)
	}
	return loads
}

// measure measures in a place.
func (s *site) measure(ctx context.Context, l Load, pods bool) Load {
	l.Pods = pods
	at := s.one
	if pods {
		at = s.pods
	}
	target := at.server
	if l.Peer == peers.XLB {
		target = at.service
	}
	if err := s.load(ctx, &l, at, target); err != nil {
		l.Failure = err.Error()
	}
	return l
}

func (s *site) load(ctx context.Context, l *Load, at placement, target netip.AddrPort) error {
	warmErrors := int64(0)
	if s.o.Warmup > 0 {
		output, err := s.ask(ctx, at, target, l.Connections, s.o.Warmup)
		if err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
		warm, err := wrk.Parse(output, l.Connections)
		if err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
		warmErrors = warm.Errors
	}
	before, err := s.moved(l.Peer)
	if err != nil {
		return err
	}
	output, err := s.ask(ctx, at, target, l.Connections, s.o.Duration)
	if err != nil {
		return err
	}
	report, err := wrk.Parse(output, l.Connections)
	if err != nil {
		return err
	}
	after, err := s.moved(l.Peer)
	if err != nil {
		return err
	}
	l.Rate, l.Errors = report.Rate(), warmErrors+report.Errors
	l.P50, l.P99 = report.Latency.Quantile(0.5), report.Latency.Quantile(0.99)
	l.Fast = after.ShareSince(before)
	return nil
}

func (s *site) ask(ctx context.Context, at placement, target netip.AddrPort, connections int, long time.Duration) (string, error) {
	args := podnet.WrkArgs(s.script, target, connections, long)
	var running *lab.Process
	var err error
	if at.client != nil {
		running, err = at.client.Start("wrk", s.o.Wrk, args...)
	} else {
		running, err = s.Start(lab.Command{Name: "wrk", Path: s.o.Wrk, Args: args, Role: lab.Client})
	}
	if err != nil {
		return "", err
	}
	return running.Wait(ctx)
}

// moved is what XLB has moved so far.
func (s *site) moved(peer string) (podnet.Moved, error) {
	if peer != peers.XLB {
		return podnet.Moved{}, nil
	}
	return s.Moved()
}
