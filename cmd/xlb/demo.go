// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/metrics"
)

// Size of the demonstration.
const (
	demoEndpoints = 3
	demoRequests  = 3000
	// demoSamples is the number of measured requests of each peer.
	demoSamples = 6000
)

// demoPatience bounds each wait for a server or for readiness.
const demoPatience = 30 * time.Second

// demoService need not exist on any interface: connections to it are intercepted.
var demoService = netip.MustParseAddrPort("127.80.0.1:8080")

func demoCommand(e *env) *cobra.Command {
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show one connection balanced over three real servers",
		Long: `Starts three nginx servers, balances one kept-alive connection over them, and prints
the requests that each server answered, the share that the kernel served, and the
latency beside a direct connection, and beside Envoy if it is installed (XLB_ENVOY,
.tools/bin/envoy, PATH).

Everything runs in a cgroup of its own on loopback addresses, and nothing is left behind.
It needs root, cgroup v2 and nginx.`,
		Example: "  xlb demo\n  xlb demo --output json",
		Args:    noArguments,
	}
	output := outputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		d := &demo{env: e, service: demoService, requests: demoRequests, samples: demoSamples}
		report, err := d.run(c.Context())
		if err != nil {
			return err
		}
		if *output == formatJSON {
			return writeJSON(e.stdout, report)
		}
		return report.print(e.stdout)
	}
	return c
}

// demo is one demonstration.
type demo struct {
	env      *env
	service  netip.AddrPort
	requests int
	samples  int

	stage     *stage
	endpoints []endpoint
	admin     netip.AddrPort
	// envoy is the service address of the Envoy to compare with; invalid without one.
	envoy netip.AddrPort
}

// endpoint is a server that answers its own name.
type endpoint struct {
	Name    string
	Address netip.AddrPort
}

// say reports progress; the result alone goes to standard output.
func (d *demo) say(format string, args ...any) {
	fmt.Fprintf(d.env.stderr, "demo: "+format+"\n", args...)
}

var errInterrupted = errors.New("demo: interrupted")

// run does the demonstration and takes down what it has set up, whatever happens.
func (d *demo) run(ctx context.Context) (report *demoReport, err error) {
	nginx, err := findProgram("nginx", "XLB_NGINX", "/usr/sbin", "/usr/local/sbin")
	if err != nil {
		return nil, refused(fmt.Errorf("demo: nginx is not installed; apt-get install nginx-light"))
	}
	if d.stage, err = newStage(); err != nil {
		return nil, err
	}
	defer func() {
		if ctx.Err() != nil {
			// Whatever went wrong after that is no news.
			err = errInterrupted
		}
		err = errors.Join(err, d.stage.close())
	}()

	if err := d.startEndpoints(ctx, nginx); err != nil {
		return nil, err
	}
	if err := d.startBalancer(ctx); err != nil {
		return nil, err
	}
	if err := d.startEnvoy(ctx); err != nil {
		return nil, err
	}
	return d.measure(ctx)
}

func (d *demo) startEndpoints(ctx context.Context, nginx string) error {
	for i := range demoEndpoints {
		e := endpoint{Name: fmt.Sprintf("nginx-%d", i+1)}
		var err error
		if e.Address, err = freeAddress(); err != nil {
			return err
		}
		dir, err := d.stage.subdir(e.Name)
		if err != nil {
			return err
		}
		file := filepath.Join(dir, "nginx.conf")
		if err := writeTemplate(file, "nginx.conf.tmpl", struct {
			endpoint
			Dir string
		}{e, dir}); err != nil {
			return err
		}
		server, err := d.stage.start(inside, e.Name, nginx, "-p", dir, "-e", "stderr", "-c", file)
		if err != nil {
			return err
		}
		if err := server.await(ctx, "accepts connections", func() bool { return accepts(ctx, e.Address) }); err != nil {
			return err
		}
		d.endpoints = append(d.endpoints, e)
		d.say("%s answers at %s", e.Name, e.Address)
	}
	return nil
}

// bootstrap writes the Envoy configuration of a balancer.
func (d *demo) bootstrap(name string, service, admin netip.AddrPort) (file string, err error) {
	dir, err := d.stage.subdir(name)
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "envoy.yaml")
	return file, writeTemplate(file, "envoy.yaml.tmpl", struct {
		Service, Admin netip.AddrPort
		Endpoints      []endpoint
	}{service, admin, d.endpoints})
}

func (d *demo) startBalancer(ctx context.Context) (err error) {
	if d.admin, err = freeAddress(); err != nil {
		return err
	}
	file, err := d.bootstrap("xlb", d.service, d.admin)
	if err != nil {
		return err
	}
	args := []string{"run", "--config", file, "--cgroup", d.stage.cgroup, "--admin", d.admin.String()}
	if check.Run().Verdict == check.SlowPathOnly {
		d.say("this kernel lacks what the fast path needs (see xlb check): the daemon serves every request")
		args = append(args, "--fast-path", "off")
	}
	balancer, err := d.stage.start(outside, "xlb run", selfPath, args...)
	if err != nil {
		return err
	}
	isReady := func() bool {
		_, err := askAdmin(ctx, d.admin.String(), "/ready")
		return err == nil
	}
	if err := balancer.await(ctx, "is ready", isReady); err != nil {
		return err
	}
	d.say("xlb run intercepts connections to %s from the processes in %s", d.service, d.stage.cgroup)
	return nil
}

// startEnvoy starts an Envoy beside, if there is one.
func (d *demo) startEnvoy(ctx context.Context) error {
	program, err := findProgram("envoy", "XLB_ENVOY", filepath.Join(".tools", "bin"))
	if err != nil {
		d.say("Envoy is not installed: no comparison with it")
		return nil
	}
	service, err := freeAddress()
	if err != nil {
		return err
	}
	admin, err := freeAddress()
	if err != nil {
		return err
	}
	file, err := d.bootstrap("envoy", service, admin)
	if err != nil {
		return err
	}
	server, err := d.stage.start(outside, "envoy", program,
		"-c", file, "--use-dynamic-base-id", "--concurrency", "2", "--log-level", "error")
	if err != nil {
		return err
	}
	isReady := func() bool {
		_, err := askAdmin(ctx, admin.String(), "/ready")
		return err == nil && accepts(ctx, service)
	}
	if err := server.await(ctx, "is ready", isReady); err != nil {
		return err
	}
	d.envoy = service
	d.say("Envoy, for comparison, balances at %s", service)
	return nil
}

// measure runs the client and puts the report together.
func (d *demo) measure(ctx context.Context) (*demoReport, error) {
	before, err := d.stats(ctx)
	if err != nil {
		return nil, err
	}
	d.say("sending %d requests over one connection to http://%s/", d.requests, d.service)
	counted, err := d.client(ctx, clientSpec{Service: d.service, Requests: d.requests})
	if err != nil {
		return nil, err
	}
	after, err := d.stats(ctx)
	if err != nil {
		return nil, err
	}

	peers := []clientPeer{{peerDirect, d.endpoints[0].Address}, {peerXLB, d.service}}
	if d.envoy.IsValid() {
		peers = append(peers, clientPeer{peerEnvoy, d.envoy})
	}
	d.say("measuring latency, %d requests each, in turns", d.samples)
	timed, err := d.client(ctx, clientSpec{Peers: peers, Samples: d.samples})
	if err != nil {
		return nil, err
	}
	report := newDemoReport(d.service, d.endpoints, counted, timed)
	report.countPaths(before, after)
	return report, nil
}

func (d *demo) stats(ctx context.Context) (*metrics.Snapshot, error) {
	answer, err := askAdmin(ctx, d.admin.String(), "/xlb/stats")
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	var s metrics.Snapshot
	if err := json.Unmarshal(answer, &s); err != nil {
		return nil, fmt.Errorf("demo: read statistics: %w", err)
	}
	return &s, nil
}

// findProgram looks where the variable says, in the directories, and on PATH.
func findProgram(name, variable string, dirs ...string) (string, error) {
	if path := os.Getenv(variable); path != "" {
		return lookPath(path)
	}
	for _, dir := range dirs {
		if path, err := lookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return lookPath(name)
}
