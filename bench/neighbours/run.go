// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
)

// slice is how long the watched client is measured at a time.
const slice = 500 * time.Millisecond

// Trial is one measurement of the watched client.
type Trial struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
	// Direct: the hostile pod goes past XLB.
	Direct bool `json:"direct,omitempty"`
	Cycle  int  `json:"round"`
	// Failure says why it has no figures.
	Failure  string `json:"failure,omitempty"`
	Requests int64  `json:"requests"`
	Errors   int64  `json:"errors"`
	First    string `json:"first_error,omitempty"`
	// P50 and P99 are of the microseconds from when a request was due until its answer: medians of those of each slice. All99 is the p99 of all requests, which
	// a moment has in which the machine stood still.
	P50   int64 `json:"p50_us"`
	P99   int64 `json:"p99_us"`
	All99 int64 `json:"all_p99_us"`
	// Balancer and Hostile are processor time as a share of one processor: the daemon's, and that of the hostile pod with its server.
	Balancer float64 `json:"balancer_share"`
	Hostile  float64 `json:"hostile_share"`
	// Others is that of all other work on the machine, the kernel's own included: where it is much, latencies are not those of a machine to itself.
	Others float64 `json:"others_share"`
	// TCPMemory is what all sockets of the machine have in the end, in bytes.
	TCPMemory int64 `json:"tcp_memory"`
	Abuse     Abuse `json:"abuse"`
}

// Run measures everything. What was measured before an error or the end of ctx is in the report.
func Run(ctx context.Context, o Options, progress io.Writer) (r Report, err error) {
	if err := o.Validate(); err != nil {
		return r, err
	}
	n, err := newNode(o.Limit, o.Processors)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	r = Report{Started: time.Now(), Options: o, Limit: n.limit.how}
	if o.Describe != nil {
		r.Machine = o.Describe(n.sysctl)
	}
	if err := startServers(ctx, n); err != nil {
		return r, err
	}
	for round := range o.Rounds {
		for _, path := range o.paths() {
			for _, t := range o.cycle() {
				t.Path, t.Cycle = path, round
				if err := t.measure(ctx, n, &o); err != nil {
					t.Failure = err.Error()
				}
				r.Trials = append(r.Trials, t)
				fmt.Fprintln(progress, t)
				if ctx.Err() != nil {
					return r, ctx.Err()
				}
			}
		}
	}
	return r, nil
}

// cycle is the trials of one.
func (o *Options) cycle() (trials []Trial) {
	for _, kind := range o.kinds() {
		trials = append(trials, Trial{Kind: kind})
		if o.Direct && kind != Alone && kind != Burn {
			trials = append(trials, Trial{Kind: kind, Direct: true})
		}
	}
	return trials
}

// String is a line of progress.
func (t Trial) String() string {
	name := fmt.Sprintf("%d %s: %s", t.Cycle, pathNames[t.Path], t.Kind)
	if t.Direct {
		name += ", direct"
	}
	if t.Failure != "" {
		return name + ": failed: " + t.Failure
	}
	return fmt.Sprintf("%s: p50 %d us, p99 %d us (of all %d), %d requests, %d errors; hostile: %+v", name, t.P50, t.P99, t.All99, t.Requests, t.Errors, t.Abuse)
}

// startServers starts the servers, and in the clients' pods one that makes them workloads before anything connects. They end with the node.
func startServers(ctx context.Context, n *node) error {
	for _, one := range []struct {
		at         site
		port, body int
	}{{server, serverPort, 0}, {origin, serverPort, 0}, {origin, longPort, longBody}, {watched, serverPort, 0}, {hostile, serverPort, 0}} {
		p, err := n.startSelf(one.at, "service", "--listen", fmt.Sprintf("0.0.0.0:%d", one.port), "--body", strconv.Itoa(one.body))
		if err != nil {
			return err
		}
		if err := awaitServer(ctx, n, one.at, one.port); err != nil {
			return errors.Join(err, p.Exited())
		}
	}
	return nil
}

func awaitServer(ctx context.Context, n *node, at site, port int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := n.client()
	return lab.Poll(ctx, pollPace, func() error {
		response, err := client.Get(fmt.Sprintf("http://%s:%d/", at.address(), port))
		if err != nil {
			return err
		}
		return response.Body.Close()
	})
}

// measure starts a daemon and the hostile pod, measures the watched client, and ends both.
func (t *Trial) measure(ctx context.Context, n *node, o *Options) (err error) {
	d, err := startDaemon(ctx, n, o, t.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	abuser, err := t.startHostile(ctx, n, o)
	if err != nil {
		return err
	}
	err = t.watch(ctx, n, o)
	if abuser == nil {
		return err
	}
	if err := errors.Join(err, abuser.Stop()); err != nil {
		return err
	}
	_, text, _ := strings.Cut(abuser.Output(), "\n")
	if err := json.Unmarshal([]byte(text), &t.Abuse); err != nil {
		return fmt.Errorf("report of the hostile pod: %w%s", err, abuser.Quote())
	}
	return nil
}

// startHostile waits until the hostile pod has ready; nil: nothing is started.
func (t *Trial) startHostile(ctx context.Context, n *node, o *Options) (*lab.Process, error) {
	if t.Kind == Alone {
		return nil, nil
	}
	p, err := n.startSelf(hostile, "neighbours", "hostile", t.Kind, "--connections", strconv.Itoa(o.Connections), "--direct="+strconv.FormatBool(t.Direct))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = lab.Poll(ctx, pollPace, func() error {
		if strings.HasPrefix(p.Output(), ready) {
			return nil
		}
		return errors.Join(errors.New("the hostile pod has not opened its connections"), p.Exited())
	})
	if err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return p, nil
}

// watch measures the watched client.
func (t *Trial) watch(ctx context.Context, n *node, o *Options) error {
	if o.Warmup > 0 {
		if _, err := n.ask(ctx, o, o.Warmup); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	before, err := n.used()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := t.slices(ctx, n, o); err != nil {
		return err
	}
	seconds := time.Since(began).Seconds()
	after, err := n.used()
	if err != nil {
		return err
	}
	share := func(of func(usage) time.Duration) float64 { return (of(after) - of(before)).Seconds() / seconds }
	t.Balancer, t.Hostile = share(func(u usage) time.Duration { return u.balancer }), share(func(u usage) time.Duration { return u.hostile })
	t.Others = share(func(u usage) time.Duration { return u.machine - u.node })
	t.TCPMemory, err = tcpMemory()
	return err
}

// tcpMemory is what all sockets of the machine have, in bytes.
func tcpMemory() (int64, error) {
	text, err := os.ReadFile("/proc/net/sockstat")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var used, orphans, waiting, all, pages int64
		if _, err := fmt.Sscanf(line, "TCP: inuse %d orphan %d tw %d alloc %d mem %d", &used, &orphans, &waiting, &all, &pages); err == nil {
			return pages * int64(os.Getpagesize()), nil
		}
	}
	return 0, fmt.Errorf("/proc/net/sockstat has no TCP: %q", text)
}

// slices measures the watched client in slices: what disturbs all of them counts, and what the machine does in one of them does not.
func (t *Trial) slices(ctx context.Context, n *node, o *Options) error {
	all := loadgen.Histogram{}
	var p50s, p99s []float64
	for range max(1, int(o.Duration/slice)) {
		report, err := n.ask(ctx, o, min(slice, o.Duration))
		if err != nil {
			return err
		}
		t.Requests, t.Errors = t.Requests+report.Requests, t.Errors+report.Errors
		if t.First == "" {
			t.First = report.FirstError
		}
		all.Add(report.Latency)
		p50s, p99s = append(p50s, float64(report.Latency.Quantile(0.5))), append(p99s, float64(report.Latency.Quantile(0.99)))
	}
	t.P50, t.P99, t.All99 = int64(spreadOf(p50s).Median), int64(spreadOf(p99s).Median), all.Quantile(0.99)
	return nil
}

// ask is the watched client's load.
func (n *node) ask(ctx context.Context, o *Options, long time.Duration) (report loadgen.Report, err error) {
	p, err := n.startSelf(watched, "clients", "--target", service.String(), "--rate", fmt.Sprint(o.Rate), "--connections", strconv.Itoa(o.Clients), "--duration", long.String())
	if err != nil {
		return report, err
	}
	output, err := p.Wait(ctx)
	if err == nil {
		err = json.Unmarshal([]byte(output), &report)
	}
	return report, err
}

// usage is processor time: of the daemon, of the hostile pod with its server, of all that runs in the node, and of the whole machine.
type usage struct{ balancer, hostile, node, machine time.Duration }

func (n *node) used() (u usage, err error) {
	var server time.Duration
	for dir, into := range map[string]*time.Duration{n.cgroup(host): &u.balancer, n.cgroup(hostile): &u.hostile, n.cgroup(origin): &server, n.root: &u.node} {
		d, cpuErr := lab.CPUOf(dir)
		*into, err = d, errors.Join(err, cpuErr)
	}
	u.hostile += server
	machine, cpuErr := lab.MachineCPU()
	u.machine = machine
	return u, errors.Join(err, cpuErr)
}
