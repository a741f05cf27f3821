// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/test/heels/stand"
	"github.com/xlb-project/xlb/test/heels/traffic"
)

const (
	readyPatience = 20 * time.Second
	readyPoll     = 20 * time.Millisecond
	// waitSlack is what a load may take longer than it should.
	waitSlack    = 30 * time.Second
	adminAddress = "127.0.0.1:9902"
)

// turn is one path under one load.
type turn struct {
	Balancer string `json:"balancer"`
	load
	Path  Path `json:"path"`
	Round int  `json:"round"`
	// Rate is in requests and Goodput in bytes of messages per second, latencies are in microseconds.
	Rate    float64 `json:"requests_per_second"`
	Goodput float64 `json:"goodput"`
	P50     float64 `json:"p50_us"`
	P99     float64 `json:"p99_us"`
	// Setup is the median of how long connect took.
	Setup float64 `json:"setup_us"`
	// ClientCPU and ServerCPU are processor time in microseconds per request.
	ClientCPU float64 `json:"client_cpu_us"`
	ServerCPU float64 `json:"server_cpu_us"`
	// Balanced is how many packets came to the balancer for each connection.
	Balanced float64 `json:"balancer_packets_per_connection"`
	Errors   int64   `json:"errors"`
	// Failure says why there are no figures.
	Failure string `json:"failure,omitempty"`
}

// bench is a run in progress.
type bench struct {
	options Options
	cgroups string
	// pins is a BPF file system.
	pins string
	// self is this program, which is client and server, too.
	self string
}

// prepare removes what a killed run has left, and makes the place for pins.
func prepare(o Options) (b *bench, end func() error, err error) {
	mount, err := lab.MountedCgroups()
	if err != nil {
		return nil, nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	b = &bench{options: o, self: self, cgroups: filepath.Join(mount, "xlb-bench-heels-"), pins: filepath.Join(os.TempDir(), "xlb-bench-heels-pins")}
	if err := b.clean(); err != nil {
		return nil, nil, fmt.Errorf("remove what an earlier run left: %w", err)
	}
	if err := os.MkdirAll(b.pins, 0o700); err != nil {
		return nil, nil, err
	}
	if err := unix.Mount("bpf", b.pins, "bpf", 0, ""); err != nil {
		return nil, nil, fmt.Errorf("mount a BPF file system (run as root): %w", err)
	}
	return b, b.clean, nil
}

func (b *bench) clean() error {
	left, err := filepath.Glob(b.cgroups + "*")
	errs := []error{err}
	for _, dir := range left {
		errs = append(errs, lab.RemoveCgroups(dir))
	}
	if err := unix.Unmount(b.pins, 0); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		errs = append(errs, fmt.Errorf("unmount %s: %w", b.pins, err))
	}
	return errors.Join(append(errs, os.RemoveAll(b.pins))...)
}

// place is the network of one turn.
type place struct {
	*bench
	*stand.Stand
	kind   kind
	closes []func() error
}

// turn measures in a network of its own. A failure is part of the result.
func (b *bench) turn(ctx context.Context, k kind, l load, path Path, round int) turn {
	m := turn{Balancer: k.name, load: l, Path: path, Round: round}
	s, err := stand.New(stand.Options{Cgroups: b.cgroups, Servers: 1})
	if err != nil {
		m.Failure = err.Error()
		return m
	}
	p := &place{bench: b, Stand: s, kind: k}
	err = p.measure(ctx, &m)
	for _, end := range slices.Backward(p.closes) {
		err = errors.Join(err, end())
	}
	if err = errors.Join(err, s.Close()); err != nil {
		m.Failure = err.Error()
	}
	return m
}

func (p *place) measure(ctx context.Context, m *turn) error {
	server := p.Servers[0]
	set, err := p.kind.set(p.Stand, stand.Service{VIP: vip, Port: p.kind.port, Servers: p.Servers})
	if err != nil {
		return err
	}
	if set != nil {
		p.closes = append(p.closes, set.Close)
	}
	if err := p.serve(ctx, m.load); err != nil {
		return err
	}
	if err := p.agents(ctx, m.Path); err != nil {
		return err
	}
	target := vip
	if m.Path == Direct {
		target = netip.AddrPortFrom(server.Address(), p.kind.serverPort())
	}
	if d := p.options.Warmup; d > 0 {
		if _, _, err := p.generate(ctx, m.load, target, d); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	before, err := p.look()
	if err != nil {
		return err
	}
	r, after, err := p.generate(ctx, m.load, target, p.options.Duration)
	if err != nil {
		return err
	}
	m.take(r, before, after)
	return m.check()
}

// figures are what a load measured.
type figures struct {
	requests, connections, errors int64
	// rate is in requests and goodput in bytes per second, latencies are in microseconds.
	rate, goodput, p50, p99, setup float64
}

// generate makes the load and looks when it has ended.
func (p *place) generate(ctx context.Context, l load, target netip.AddrPort, d time.Duration) (f figures, after sight, err error) {
	if l.Name == viaHTTP {
		return p.generateHTTP(ctx, l, target, d)
	}
	o := l.client(target)
	o.Duration = d
	r, err := p.ask(ctx, o)
	if err != nil {
		return f, after, err
	}
	after, err = p.look()
	return figures{
		requests: r.Requests, connections: r.Connections, errors: r.Errors,
		rate: r.Rate(), goodput: r.Goodput(), p50: r.P50, p99: r.P99, setup: r.SetupP50,
	}, after, err
}

// sight is what is read before and after a load.
type sight struct {
	client, server time.Duration
	balancer       stand.Packets
}

func (p *place) look() (s sight, err error) {
	var errs [3]error
	s.client, errs[0] = lab.CPUOf(p.Client.Cgroup())
	s.server, errs[1] = lab.CPUOf(p.Servers[0].Cgroup())
	s.balancer, errs[2] = p.LB.Packets()
	return s, errors.Join(errs[:]...)
}

func (m *turn) take(f figures, before, after sight) {
	perRequest := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(max(f.requests, 1)) }
	m.Rate, m.Goodput, m.P50, m.P99, m.Setup, m.Errors = f.rate, f.goodput, f.p50, f.p99, f.setup, f.errors
	m.ClientCPU, m.ServerCPU = perRequest(after.client-before.client), perRequest(after.server-before.server)
	m.Balanced = float64(after.balancer.Since(before.balancer).In) / float64(max(f.connections, 1))
}

// mostBalanced is what the balancer may see of a connection with HEELS: its SYN, and some of them again.
const mostBalanced = 1.5

// check refuses figures of a path that was not taken.
func (m *turn) check() error {
	switch {
	case m.Rate == 0:
		return errors.New("no request was answered")
	case m.Path == HEELS && m.Balanced > mostBalanced, m.Path == Direct && m.Balanced > 0, m.Path == Balancer && m.Balanced <= mostBalanced:
		return fmt.Errorf("%.2f packets for each connection came to the balancer: that is not the path", m.Balanced)
	}
	return nil
}

func (p *place) serve(ctx context.Context, l load) error {
	if l.Name == viaHTTP {
		return p.serveHTTP(ctx, l)
	}
	server := p.Servers[0]
	o := traffic.ServerOptions{Name: server.Name, Listen: []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), p.kind.serverPort())}}
	_, o.CPU = l.processors()
	process, err := p.traffic(server, traffic.ServerRole, o)
	if err != nil {
		return err
	}
	p.closes = append(p.closes, process.Stop)
	return ready(ctx, process, func() error {
		if !strings.HasPrefix(process.Output(), traffic.Ready) {
			return errors.New("the server is not ready")
		}
		return nil
	})
}

func (p *place) traffic(h *stand.Host, role string, options any) (*lab.Process, error) {
	text, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	return h.Start("traffic "+role, p.self, "traffic", role, string(text))
}

func (p *place) ask(ctx context.Context, o traffic.ClientOptions) (r traffic.ClientReport, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.Duration+waitSlack)
	defer cancel()
	process, err := p.traffic(p.Client, traffic.ClientRole, o)
	if err != nil {
		return r, err
	}
	out, err := process.Wait(ctx)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal([]byte(out), &r)
}

// ready waits until a process is.
func ready(ctx context.Context, process *lab.Process, is func() error) error {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	return lab.Poll(ctx, readyPoll, func() error {
		if err := process.Exited(); err != nil {
			cancel()
			return err
		}
		return is()
	})
}

// agents starts what a path needs, and takes away what it does not have yet.
func (p *place) agents(ctx context.Context, path Path) error {
	if path == Direct || path == Balancer {
		return nil
	}
	common := "kind: heels\ncgroup: %s\ninterfaces: [" + stand.Link + "]\n"
	client := fmt.Sprintf(common+"client:\n  vips: [{ vip: %q, backends: [%q] }]\n", p.Client.Cgroup(), vip, stand.Servers)
	if err := p.agent(ctx, p.Client, client); err != nil {
		return err
	}
	if path != HEELS {
		if err := p.detach(p.Client, "client_egress", "client_ingress"); err != nil {
			return err
		}
	}
	if path == SYN {
		return nil
	}
	server := p.Servers[0]
	return p.agent(ctx, server, fmt.Sprintf(common+"server:\n  address: %s\n  vips: [{ vip: %q, port: %d, mode: %s, balancers: [%q], clients: [%q] }]\n",
		server.Cgroup(), server.Address(), vip, p.kind.serverPort(), p.kind.mode, p.kind.sources, stand.Clients))
}

// agent starts that of a host.
func (p *place) agent(ctx context.Context, h *stand.Host, config string) error {
	pins, file := filepath.Join(p.pins, h.Name), filepath.Join(p.options.scratch, h.Name+".yaml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return err
	}
	process, err := h.StartOutside("agent", p.options.XLB, "heels", "run", "--config", file, "--pin", pins, "--admin", adminAddress)
	if err != nil {
		return err
	}
	p.closes = append(p.closes, func() error { return errors.Join(process.Stop(), os.RemoveAll(pins)) })
	return ready(ctx, process, func() error {
		_, err := h.Get("http://" + adminAddress + "/ready")
		return err
	})
}

// detach takes programs of an agent away: they are attached as long as their links are pinned.
func (p *place) detach(h *stand.Host, programs ...string) error {
	for _, program := range programs {
		links, err := filepath.Glob(filepath.Join(p.pins, h.Name, "link_"+program+"*"))
		if err != nil {
			return err
		}
		if len(links) == 0 {
			return fmt.Errorf("the agent on %s has pinned no link of %s", h.Name, program)
		}
		for _, l := range links {
			if err := os.Remove(l); err != nil {
				return err
			}
		}
	}
	return nil
}
