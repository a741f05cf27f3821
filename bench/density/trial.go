// SPDX-License-Identifier: Apache-2.0

package density

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/xlb-project/xlb/bench/chain"
	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/podnet"
)

// Stock is what memory a balancer takes at a moment, in bytes.
type Stock struct {
	// PSS and Anonymous are of all its processes (lab.Memory).
	PSS       int64 `json:"pss_bytes"`
	Anonymous int64 `json:"anonymous_bytes"`
	// Charged is the kernel's memory with which the cgroup of the balancer's processes is charged; nil: this machine has no such cgroup.
	Charged *int64 `json:"charged_bytes"`
	// Kernel and Machine are how much more the whole machine's kernel has, and how much less the machine can give, than before the balancer started.
	Kernel  int64 `json:"kernel_bytes"`
	Machine int64 `json:"machine_bytes"`
}

// Load is what clients measured. Errors are those of the warm-up before it, too.
type Load struct {
	Requests int64   `json:"requests"`
	Errors   int64   `json:"errors"`
	First    string  `json:"first_error,omitempty"`
	Rate     float64 `json:"rate"`
	P50      int64   `json:"p50_us"`
	P99      int64   `json:"p99_us"`
	// CPU is the processor time of clients, servers and balancer for each request, in microseconds.
	CPU float64 `json:"cpu_us_per_request"`
	// Share is that of XLB's requests that the kernel moved.
	Share float64 `json:"fast_share,omitempty"`
}

// Trial is one measurement of a peer.
type Trial struct {
	Peer     string `json:"peer"`
	Services int    `json:"services"`
	Cycle    int    `json:"round"`
	// Failure says why it has no figures.
	Failure string `json:"failure,omitempty"`
	// Reached is how many services are served: fewer than there are where memory ended, or where one behind XLB did not answer, of which only those before
	// it count.
	Reached int `json:"reached"`
	// ReadySeconds is from the start of the first balancer until a client has had an answer from every service that is served.
	ReadySeconds float64 `json:"ready_seconds"`
	// IdleShare is the processor time of the balancer that no client asks, as a share of one processor.
	IdleShare float64 `json:"idle_share"`
	Idle      Stock   `json:"idle"`
	Asked     Stock   `json:"asked"`
	// Fast is the load of connections that ask as soon as they may, Paced that at a rate.
	Fast  Load `json:"fast"`
	Paced Load `json:"paced"`
}

// String is a line of progress.
func (t Trial) String() string {
	name := fmt.Sprintf("%d services, round %d, %s", t.Services, t.Cycle, t.Peer)
	if t.Failure != "" {
		return name + ": failed: " + t.Failure
	}
	text := fmt.Sprintf("%s: %d served after %.2f s; at rest %.2f %% of a processor, own %d MB, charged %s MB, the machine + %d MB; %.0f req/s, at a rate p50 %d us p99 %d us, %d errors",
		name, t.Reached, t.ReadySeconds, 100*t.IdleShare, t.Idle.Anonymous/mega, t.Idle.chargedText(), t.Idle.Machine/mega, t.Fast.Rate, t.Paced.P50, t.Paced.P99, t.errors())
	if t.Peer == peers.XLB {
		text += fmt.Sprintf("; fast %.3f, %.3f", t.Fast.Share, t.Paced.Share)
	}
	if first := t.Fast.First + t.Paced.First; first != "" {
		text += ", the first: " + first
	}
	return text
}

func (s Stock) chargedText() string {
	if s.Charged == nil {
		return "-"
	}
	return fmt.Sprint(*s.Charged / mega)
}

func (t *Trial) errors() int64 { return t.Fast.Errors + t.Paced.Errors }

// measurement is one under way.
type measurement struct {
	*Trial
	net     *podnet.Net
	o       *Options
	charge  lab.Charge
	running []*lab.Process
	// used and kernel are the machine's memory before.
	used, kernel int64
}

func (t *Trial) measure(ctx context.Context, n *podnet.Net, o *Options) (err error) {
	m := measurement{Trial: t, net: n, o: o}
	if m.charge, err = lab.NewCharge(n.Cgroup(lab.Balancer)); err != nil {
		return err
	}
	if m.used, m.kernel, err = lab.StillMemory(); err == nil {
		err = m.all(ctx)
	}
	for _, p := range m.running {
		err = errors.Join(err, p.Exited())
	}
	return errors.Join(err, n.StopAll(m.running), m.charge.Remove())
}

func (m *measurement) all(ctx context.Context) (err error) {
	if err := m.start(ctx); err != nil {
		return err
	}
	if m.Peer == peers.XLB && m.Reached == 0 {
		// That is what --check is about, and there is no load without a service.
		m.Idle, err = m.stock()
		m.Asked = m.Idle
		return err
	}
	// What the start has left to do is done then.
	if err := lab.Pause(ctx, m.o.Idle); err != nil {
		return err
	}
	if m.IdleShare, err = m.net.ProcessorShare(ctx, lab.Balancer, m.o.Idle); err != nil {
		return err
	}
	if m.Idle, err = m.stock(); err != nil {
		return err
	}
	var warm Load
	if m.o.Warmup > 0 {
		if warm, err = m.load(ctx, 0, m.o.Warmup); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	if m.Fast, err = m.load(ctx, 0, m.o.Duration); err != nil {
		return err
	}
	m.Fast.addErrors(warm)
	if m.Paced, err = m.load(ctx, m.o.Rate, m.o.Duration); err != nil {
		return err
	}
	m.Asked, err = m.stock()
	return err
}

// addErrors counts those of the warm-up, which came first.
func (l *Load) addErrors(warm Load) {
	l.Errors += warm.Errors
	l.First = cmp.Or(warm.First, l.First)
}

// clients are in the first pod, and the services are the others.
func (m *measurement) clients() *podnet.Pod       { return m.net.Pods[0] }
func (m *measurement) servers() []*podnet.Pod     { return m.net.Pods[1:] }
func (m *measurement) services() []peers.Listener { return podnet.Services(m.servers()) }

// first is where clients connect to; the other services follow.
func (m *measurement) first() netip.AddrPort {
	if m.Peer == peers.Direct {
		return m.servers()[0].Server()
	}
	return m.services()[0].Address
}

// start starts the peer, and waits until all answer that it serves.
func (m *measurement) start(ctx context.Context) error {
	begin := time.Now()
	switch m.Peer {
	case peers.XLB:
		xlb, err := m.net.StartXLB(m.services(), m.charge)
		if err != nil {
			return err
		}
		m.running = append(m.running, xlb)
		if err := m.net.AwaitXLB(ctx, xlb, len(m.net.Pods)); err != nil {
			return err
		}
	case peers.Redirected:
		if err := m.startSidecars(ctx, begin); err != nil {
			return err
		}
		return nil
	}
	have, err := m.await(ctx, m.first(), m.Services, begin)
	m.Reached = have
	if m.Peer == peers.XLB && errors.Is(err, errUnanswered) {
		return nil
	}
	return err
}

// startSidecars starts that of the clients, and then those of services, some at once, until each has one or memory ends.
func (m *measurement) startSidecars(ctx context.Context, begin time.Time) error {
	const clientWorkers, atOnce = 2, 10
	available, err := lab.Available()
	if err != nil {
		return err
	}
	least := available / 100 * int64(100-m.o.MemoryPercent)
	client, err := m.net.StartClientSidecar(m.clients(), m.services(), clientWorkers, m.charge)
	if err != nil {
		return err
	}
	m.running = append(m.running, client)
	for m.Reached < m.Services && ctx.Err() == nil {
		if left, err := lab.Available(); err != nil || left < least {
			return err
		}
		batch := m.servers()[m.Reached:min(m.Reached+atOnce, m.Services)]
		for _, p := range batch {
			sidecar, err := m.net.StartServerSidecar(p, 1, m.charge)
			if err != nil {
				return err
			}
			m.running = append(m.running, sidecar)
		}
		if _, err := m.await(ctx, m.services()[m.Reached].Address, len(batch), begin); err != nil {
			return err
		}
		m.Reached += len(batch)
	}
	return ctx.Err()
}

// awaitPatience bounds the wait for services.
const awaitPatience = 3 * time.Minute

// errUnanswered: the client's patience ended before all services had answered.
var errUnanswered = errors.New("a service does not answer")

// await has a client wait for services in a row, and returns how many of them answered before the first that did not.
func (m *measurement) await(ctx context.Context, first netip.AddrPort, count int, begin time.Time) (int, error) {
	waiting, err := m.clients().StartSelf("await", "--target", first.String(), "--count", strconv.Itoa(count), "--patience", awaitPatience.String())
	if err != nil {
		return 0, err
	}
	_, err = waiting.Wait(ctx)
	if ctx.Err() != nil {
		return 0, err
	}
	have, err := answered(waiting.Output(), err)
	if have.Count > 0 {
		m.ReadySeconds = have.At.Sub(begin).Seconds()
	}
	return have.Count, err
}

// answered reads what an await has written and how it ended; it writes how many have answered also when not all have.
func answered(output string, ended error) (have chain.Answered, err error) {
	if err := json.Unmarshal([]byte(output), &have); err != nil {
		return chain.Answered{}, errors.Join(ended, fmt.Errorf("answer of await: %w", err))
	}
	if ended != nil {
		return have, fmt.Errorf("%w: %w", errUnanswered, ended)
	}
	return have, nil
}

// load spreads connections over all services that are served; rate 0: each asks as soon as it may.
func (m *measurement) load(ctx context.Context, rate float64, long time.Duration) (l Load, err error) {
	if m.Reached == 0 {
		return l, errors.New("memory ended before the first service was served")
	}
	before, err := m.net.CPUOfAll()
	if err != nil {
		return l, err
	}
	movedBefore, err := m.moved()
	if err != nil {
		return l, err
	}
	running, err := m.clients().StartSelf("clients", "--target", m.first().String(), "--count", strconv.Itoa(m.Reached), "--connections", strconv.Itoa(max(m.Reached, m.o.Connections)),
		"--rate", strconv.FormatFloat(rate, 'f', -1, 64), "--duration", long.String())
	if err != nil {
		return l, err
	}
	output, err := running.Wait(ctx)
	if err != nil {
		return l, err
	}
	after, err := m.net.CPUOfAll()
	if err != nil {
		return l, err
	}
	var report loadgen.Report
	if err := json.Unmarshal([]byte(output), &report); err != nil {
		return l, fmt.Errorf("report of the clients: %w", err)
	}
	l = Load{
		Requests: report.Requests, Errors: report.Errors, First: report.FirstError, Rate: report.Rate(),
		P50: report.Latency.Quantile(0.5), P99: report.Latency.Quantile(0.99),
	}
	movedAfter, err := m.moved()
	l.Share = movedAfter.ShareSince(movedBefore)
	l.CPU = float64((after - before).Microseconds()) / float64(max(l.Requests, 1))
	return l, err
}

// moved is what XLB has moved so far.
func (m *measurement) moved() (podnet.Moved, error) {
	if m.Peer != peers.XLB {
		return podnet.Moved{}, nil
	}
	return m.net.Moved()
}

func (m *measurement) stock() (s Stock, err error) {
	used, kernel, err := lab.MachineMemory()
	if err != nil {
		return s, err
	}
	s.Machine, s.Kernel = used-m.used, kernel-m.kernel
	var own lab.Memory
	for _, p := range m.running {
		memory, err := p.Memory()
		if err != nil {
			return s, err
		}
		own.Add(memory)
	}
	s.PSS, s.Anonymous = own.PSS, own.Anonymous
	if !m.charge.Reads() {
		return s, nil
	}
	charged, _, err := m.charge.Read()
	s.Charged = &charged
	return s, err
}
