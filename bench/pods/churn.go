// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
	"github.com/xlb-project/xlb/test/pods"
)

// Neighbour is a load beside the pods that come and go.
type Neighbour struct {
	Where    string `json:"where"`
	Requests int64  `json:"requests"`
	Errors   int64  `json:"errors"`
	First    string `json:"first_error,omitempty"`
	P50      int64  `json:"p50_us"`
	P99      int64  `json:"p99_us"`
	Alone50  int64  `json:"alone_p50_us"`
	Alone99  int64  `json:"alone_p99_us"`
}

// Churn says how pods that came and went were served.
type Churn struct {
	Pods       pods.ChurnReport `json:"pods"`
	Neighbours []Neighbour      `json:"neighbours"`
	// Peak is the most workloads that the daemon served at once, as far as its metrics were read.
	Peak float64 `json:"peak_workloads"`
	// Joined, Left and FailedJoins are the daemon's counts.
	Joined      float64 `json:"joined"`
	Left        float64 `json:"left"`
	FailedJoins float64 `json:"failed_joins"`
	// LeftSeconds is from the end of the last pod until the daemon served no workload more than before, Namespaces how many descriptors of namespaces it
	// then had more than before.
	LeftSeconds float64 `json:"left_seconds"`
	Namespaces  int     `json:"namespaces_left"`
	// Before and After are of its memory.
	Before Stock `json:"before"`
	After  Stock `json:"after"`
	// Processor is the daemon's, as a share of one.
	Processor float64 `json:"processor_share"`
}

// String is a line of progress.
func (c Churn) String() string {
	return fmt.Sprintf("%d served, %d failed; served after p50 %s  p99 %s  max %s; %d left", c.Pods.Joined, c.Pods.Failed, c.Pods.Median, c.Pods.P99, c.Pods.Slowest, c.Namespaces)
}

// comeAndGo measures under load in the host and in a pod that stays.
func comeAndGo(ctx context.Context, o *Options, r *Report) (c Churn, err error) {
	// The second host is the pod that stays.
	l, err := lab.New(lab.CrossHost)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if o.Describe != nil {
		r.Machine = o.Describe(l.Sysctl)
	}
	running, err := startServers(l)
	defer func() { err = errors.Join(err, lab.StopAll(running)) }()
	if err != nil {
		return c, err
	}
	d, err := startDaemon(ctx, l, o.XLB, 1)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.awaitWorkloads(ctx, 1); err != nil {
		return c, err
	}
	return c, c.measure(ctx, d, o)
}

// startServers starts a server in the host and one in the pod that stays.
func startServers(l *lab.Lab) (running []*lab.Process, err error) {
	for _, host := range hostAndPod {
		p, err := startSelf(l, host, "service", "service", "--listen", server.String())
		if err != nil {
			return running, err
		}
		running = append(running, p)
	}
	return running, nil
}

// measure measures with a daemon that serves one pod, beside its load.
func (c *Churn) measure(ctx context.Context, d *daemon, o *Options) error {
	alone, err := neighbours(ctx, d.lab, alonePart)
	if err != nil {
		return err
	}
	kernel, err := stillKernel(ctx)
	if err != nil {
		return err
	}
	namespaces, err := d.namespaces()
	if err != nil {
		return err
	}
	if c.Before, err = d.stock(kernel); err != nil {
		return err
	}
	if err := c.load(ctx, d, o); err != nil {
		return err
	}
	for i := range c.Neighbours {
		c.Neighbours[i].Alone50, c.Neighbours[i].Alone99 = alone[i].P50, alone[i].P99
	}
	ended := time.Now()
	if err := d.awaitWorkloads(ctx, 1); err != nil {
		return err
	}
	c.LeftSeconds = time.Since(ended).Seconds()
	if _, err := stillKernel(ctx); err != nil {
		return err
	}
	if c.After, err = d.stock(kernel); err != nil {
		return err
	}
	now, err := d.namespaces()
	c.Namespaces = now - namespaces
	return errors.Join(err, c.count(d))
}

// count takes the daemon's counts.
func (c *Churn) count(d *daemon) (err error) {
	for event, into := range map[string]*float64{"joined": &c.Joined, "left": &c.Left, "failed": &c.FailedJoins} {
		n, metricErr := d.admin.Metric("xlb_workloads_total", `event="`+event+`"`)
		*into, err = n, errors.Join(err, metricErr)
	}
	return err
}

// load has the pods come and go beside the load.
func (c *Churn) load(ctx context.Context, d *daemon, o *Options) error {
	before, err := d.lab.CPU(lab.Balancer)
	if err != nil {
		return err
	}
	if err := c.run(ctx, d, o); err != nil {
		return err
	}
	after, err := d.lab.CPU(lab.Balancer)
	c.Processor = (after - before).Seconds() / c.Pods.Elapsed.Seconds()
	return err
}

// hostAndPod are where the load runs: in the host, and in a pod that stays.
var hostAndPod = []lab.Host{lab.ClientHost, lab.ServerHost}

// alonePart is how long the load runs alone first.
const alonePart = 10 * time.Second

// run has the pods come and go beside the load, and follows how many workloads there are.
func (c *Churn) run(ctx context.Context, d *daemon, o *Options) error {
	p, err := startSelf(d.lab, lab.ClientHost, "pods", "pods", "churn", "--rate", fmt.Sprint(o.Rate), "--duration", o.Duration.String(), "--life", o.Life.String(), "--processes", fmt.Sprint(o.Processes))
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		output, err := p.Wait(ctx)
		if err == nil {
			err = json.Unmarshal([]byte(output), &c.Pods)
		}
		ended <- err
	}()
	loaded := make(chan error, 1)
	go func() {
		var err error
		c.Neighbours, err = neighbours(ctx, d.lab, o.Duration)
		loaded <- err
	}()
	for ticker := time.NewTicker(500 * time.Millisecond); ; {
		select {
		case err := <-ended:
			ticker.Stop()
			return errors.Join(err, <-loaded)
		case <-ticker.C:
			if n, err := d.workloads(); err == nil {
				c.Peak = max(c.Peak, n)
			}
		}
	}
}

// neighbours runs the load in both hostAndPod.
func neighbours(ctx context.Context, l *lab.Lab, long time.Duration) (all []Neighbour, err error) {
	const rate, connections = "200", "4"
	var running []*lab.Process
	for _, host := range hostAndPod {
		p, err := startSelf(l, host, "clients", "clients", "--target", service.String(), "--rate", rate, "--connections", connections, "--duration", long.String())
		if err != nil {
			return nil, errors.Join(err, lab.StopAll(running))
		}
		running = append(running, p)
	}
	for i, p := range running {
		output, waitErr := p.Wait(ctx)
		var report loadgen.Report
		if waitErr == nil {
			waitErr = json.Unmarshal([]byte(output), &report)
		}
		err = errors.Join(err, waitErr)
		all = append(all, Neighbour{
			Where: [...]string{"host", "pod"}[i], Requests: report.Requests, Errors: report.Errors, First: report.FirstError,
			P50: report.Latency.Quantile(0.5), P99: report.Latency.Quantile(0.99),
		})
	}
	return all, err
}

// startSelf starts a command of this program among what is balanced.
func startSelf(l *lab.Lab, host lab.Host, name string, args ...string) (*lab.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return l.Start(lab.Command{Name: name, Path: self, Args: args, Role: lab.Client, Host: host})
}

// Come is the program of pods that come and go: it prints its report when the last has gone.
func Come(ctx context.Context, o Options, out io.Writer) error {
	report := pods.Churn(ctx, pods.ChurnSpec{
		Service: service, Server: server, Count: int(o.Rate * o.Duration.Seconds()), AtOnce: maxCount, Rate: o.Rate,
		Life: o.Life, Requests: 10, Processes: o.Processes, Patience: 30 * time.Second,
	})
	return json.NewEncoder(out).Encode(report)
}
