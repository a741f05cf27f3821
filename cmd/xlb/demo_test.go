// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/metrics"
)

// standIn is a daemon for the demonstration, without a kernel: a proxy that listens at
// the service address, takes turns, and calls all of it fast but one in ten.
func standIn(args []string) int {
	flags := map[string]string{}
	for i := 0; i+1 < len(args); i += 2 {
		flags[args[i]] = args[i+1]
	}
	cfg, err := config.Load(flags["--config"])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitRefused
	}
	if os.Getenv("XLB_TEST_REFUSE") != "" {
		fmt.Fprintln(os.Stderr, "xlb: this machine has no luck")
		return exitRefused
	}
	var turn atomic.Uint64
	targets := cfg.Clusters[0].Targets
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		t := targets[(turn.Add(1)-1)%uint64(len(targets))]
		r.SetURL(&url.URL{Scheme: "http", Host: netip.AddrPortFrom(netip.MustParseAddr(t.Host), t.Port).String()})
	}}
	api := http.NewServeMux()
	api.HandleFunc("/ready", func(http.ResponseWriter, *http.Request) {})
	api.HandleFunc("/xlb/stats", func(w http.ResponseWriter, _ *http.Request) {
		n := turn.Load()
		json.NewEncoder(w).Encode(metrics.Snapshot{Requests: metrics.Paths{Fast: n - n/10, Slow: n / 10}})
	})
	go http.ListenAndServe(flags["--admin"], api)
	go http.ListenAndServe(cfg.Listeners[0].Address.String(), proxy)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
	return exitOK
}

// newDemo is a small demonstration. Only a lack of privileges excuses it: root has everything, or is told what is missing.
func newDemo(t *testing.T, stderr *bytes.Buffer) *demo {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes a cgroup")
	}
	if _, err := check.CgroupMount(); err != nil {
		t.Fatal(err)
	}
	if _, err := findProgram("nginx", "XLB_NGINX", "/usr/sbin"); err != nil {
		t.Fatal("nginx is not installed: scripts/install-deps test")
	}
	// Without an Envoy: this is a test of the demonstration.
	t.Setenv("XLB_ENVOY", "/nonexistent/envoy")
	service, err := freeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return &demo{env: &env{stdout: &bytes.Buffer{}, stderr: stderr}, service: service, requests: 300, samples: 50}
}

// leftovers lists what a demonstration of this process left behind.
func leftovers(t *testing.T, d *demo) (found []string) {
	t.Helper()
	for _, path := range []string{d.stage.cgroup, d.stage.dir} {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			found = append(found, path)
		}
	}
	for _, c := range d.stage.children {
		if syscall.Kill(c.cmd.Process.Pid, 0) == nil {
			found = append(found, c.name)
		}
	}
	return found
}

func TestDemoCountsTimesAndLeavesNothingBehind(t *testing.T) {
	var said bytes.Buffer
	d := newDemo(t, &said)
	report, err := d.run(t.Context())
	if err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	if report.Requests != 300 || report.Connections != 1 || len(report.Endpoints) != 3 {
		t.Errorf("got %+v", report)
	}
	for _, e := range report.Endpoints {
		if e.Requests != 100 {
			t.Errorf("%s: got %d requests, want 100", e.Name, e.Requests)
		}
	}
	if report.Fast != 270 || report.Slow != 30 || report.FastShare != 0.9 {
		t.Errorf("paths: got %d fast, %d slow, share %v", report.Fast, report.Slow, report.FastShare)
	}
	if len(report.Latencies) != 2 || report.Latencies[0].ToDirect != 1 || report.Latencies[1].P50us <= 0 {
		t.Errorf("latencies: got %+v", report.Latencies)
	}
	if found := leftovers(t, d); len(found) != 0 {
		t.Errorf("left behind: %v", found)
	}
}

func TestDemoSaysWhyTheDaemonRefusesAndLeavesNothingBehind(t *testing.T) {
	var said bytes.Buffer
	d := newDemo(t, &said)
	t.Setenv("XLB_TEST_REFUSE", "yes")
	_, err := d.run(t.Context())
	if err == nil || exitCode(&runError{err}) != exitRefused || !strings.Contains(err.Error(), "this machine has no luck") {
		t.Errorf("error: got %v", err)
	}
	if found := leftovers(t, d); len(found) != 0 {
		t.Errorf("left behind: %v", found)
	}
}

func TestInterruptedDemoLeavesNothingBehind(t *testing.T) {
	var said bytes.Buffer
	d := newDemo(t, &said)
	d.requests = 1 << 30
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := d.run(ctx)
		ended <- err
	}()
	interruptOnce(t, d, cancel)
	select {
	case err := <-ended:
		if !errors.Is(err, errInterrupted) {
			t.Errorf("got %v, want %v", err, errInterrupted)
		}
	case <-time.After(demoPatience):
		t.Fatal("an interrupted demonstration does not end")
	}
	if found := leftovers(t, d); len(found) != 0 {
		t.Errorf("left behind: %v", found)
	}
}

// interruptOnce cancels when the client is sending.
func interruptOnce(t *testing.T, d *demo, cancel context.CancelFunc) {
	t.Helper()
	pattern := filepath.Join(os.TempDir(), "xlb-demo-*", "xlb", "envoy.yaml")
	isSending := func() bool {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			text, _ := os.ReadFile(file)
			if strings.Contains(string(text), fmt.Sprintf("port_value: %d }", d.service.Port())) && accepts(t.Context(), d.service) {
				return true
			}
		}
		return false
	}
	if !poll(t.Context(), demoPatience, isSending) {
		t.Error("the demonstration does not get going")
	}
	cancel()
}

func TestDemoWithoutNginxNamesThePackage(t *testing.T) {
	t.Setenv("XLB_NGINX", "/nonexistent/nginx")
	code, _, stderr := call(t, "demo")
	if code != exitRefused || !strings.Contains(stderr, "apt-get install nginx-light") {
		t.Errorf("got %d %q", code, stderr)
	}
}

func TestDemoConfigurationIsValid(t *testing.T) {
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	d := &demo{service: demoService, endpoints: []endpoint{{"a", one}, {"b", two}}}
	err := writeTemplate(file, "envoy.yaml.tmpl", struct {
		Service, Admin netip.AddrPort
		Endpoints      []endpoint
	}{d.service, one, d.endpoints})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Listeners[0].Address != demoService || len(cfg.Clusters[0].Targets) != 2 {
		t.Errorf("got %+v", cfg)
	}
}

func TestClientReportsARequestThatFails(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no healthy upstream", http.StatusServiceUnavailable)
	})}
	defer server.Close()
	go server.Serve(l)
	address := l.Addr().(*net.TCPAddr).AddrPort()
	for name, spec := range map[string]clientSpec{
		"count":   {Service: address, Requests: 5},
		"measure": {Peers: []clientPeer{{peerXLB, address}}, Samples: 5},
	} {
		if _, err := spec.run(t.Context()); err == nil || !strings.Contains(err.Error(), "503") {
			t.Errorf("%s: got %v, want the status 503", name, err)
		}
	}
}

func TestDemoReportText(t *testing.T) {
	counted := &clientReport{Served: map[string]int{"nginx-1": 1000, "nginx-2": 1000}, Connections: 1}
	timed := &clientReport{Latencies: []latency{
		{peerDirect, 31 * time.Microsecond, 90 * time.Microsecond},
		{peerXLB, 26 * time.Microsecond, 80 * time.Microsecond},
		{peerEnvoy, 125 * time.Microsecond, 400 * time.Microsecond},
	}}
	r := newDemoReport(demoService, []endpoint{{"nginx-1", one}, {"nginx-2", two}}, counted, timed)
	r.countPaths(&metrics.Snapshot{Requests: metrics.Paths{Fast: 10}}, &metrics.Snapshot{Requests: metrics.Paths{Fast: 2009, Slow: 1}})
	var out bytes.Buffer
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	compareOutput(t, "demo.txt", out.String())
}
