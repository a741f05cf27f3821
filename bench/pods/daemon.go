// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
)

// configuration sends each host to a cluster of its own, with one endpoint: the ports of the server in the pod that asks.
var configuration = template.Must(template.New("xlb.yaml").Parse(`
static_resources:
  listeners:
  - name: service
    address: { socket_address: { address: {{.Service.Addr}}, port_value: {{.Service.Port}} } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: service
          route_config:
            name: service
            virtual_hosts:
{{- range $i, $port := .Ports}}
            - { name: host{{$i}}, domains: [{{if $i}}host{{$i}}{{else}}"*"{{end}}], routes: [{ match: { prefix: "/" }, route: { cluster: c{{$i}} } }] }
{{- end}}
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
  clusters:
{{- range $i, $port := .Ports}}
  - name: c{{$i}}
    type: STATIC
    connect_timeout: 5s
    load_assignment:
      cluster_name: c{{$i}}
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: {{$.Server.Addr}}, port_value: {{$port}} } } } }] }]
{{- end}}
`))

// daemon is the XLB that is measured.
type daemon struct {
	*lab.Process
	lab    *lab.Lab
	admin  lab.Admin
	dir    string
	charge lab.Charge
}

// startDaemon starts one for a server with so many ports, each a cluster, and waits until it is ready.
func startDaemon(ctx context.Context, l *lab.Lab, xlb string, ports int) (d *daemon, err error) {
	d = &daemon{lab: l, admin: lab.Admin{HTTP: l.HTTPClient(), Address: admin}}
	if d.dir, err = os.MkdirTemp("", "xlb-bench-pods-"); err != nil {
		return nil, err
	}
	file := filepath.Join(d.dir, "xlb.yaml")
	if err := writeConfiguration(file, ports); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	if d.charge, err = lab.NewCharge(l.Cgroup(lab.Balancer)); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	path, args := d.charge.Within(xlb, "run", "--config", file, "--admin", admin.String(), "--namespaces", "all", "--fast-path", "on", "--cgroup", l.Workload())
	if d.Process, err = l.Start(lab.Command{Name: "xlb", Path: path, Args: args, Role: lab.Balancer}); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	if err := d.await(ctx, "ready", func() error { _, err := d.admin.Get("/ready"); return err }); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return d, nil
}

func writeConfiguration(file string, ports int) error {
	set := struct {
		Service, Server any
		Ports           []uint16
	}{Service: service, Server: server}
	for i := range ports {
		set.Ports = append(set.Ports, server.Port()+uint16(i))
	}
	var text bytes.Buffer
	if err := configuration.Execute(&text, set); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}

// stop ends the daemon and removes what belongs to it.
func (d *daemon) stop() error {
	var errs []error
	if d.Process != nil {
		errs = append(errs, d.Stop())
	}
	return errors.Join(append(errs, d.charge.Remove(), os.RemoveAll(d.dir))...)
}

const (
	// patience bounds each wait for the daemon.
	patience = time.Minute
	pollPace = 50 * time.Millisecond
)

func (d *daemon) await(ctx context.Context, what string, done func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := lab.Poll(ctx, pollPace, done)
	if err != nil {
		return errors.Join(fmt.Errorf("wait until the daemon is %s: %w", what, err), d.Exited())
	}
	return nil
}

// workloads is how many namespaces it serves beside its own.
func (d *daemon) workloads() (float64, error) { return d.admin.Metric("xlb_workloads_active", "") }

// awaitWorkloads waits until it serves so many.
func (d *daemon) awaitWorkloads(ctx context.Context, want int) error {
	return d.await(ctx, fmt.Sprintf("at %d workloads", want), func() error {
		n, err := d.workloads()
		if err == nil && n != float64(want) {
			err = fmt.Errorf("it is at %.0f", n)
		}
		return err
	})
}

// namespaces counts the daemon's descriptors of network namespaces.
func (d *daemon) namespaces() (n int, err error) {
	dir := fmt.Sprintf("/proc/%d/fd", d.PID())
	open, err := os.ReadDir(dir)
	for _, entry := range open {
		// One that has been closed meanwhile has no link.
		if to, err := os.Readlink(filepath.Join(dir, entry.Name())); err == nil && strings.HasPrefix(to, "net:[") {
			n++
		}
	}
	return n, err
}

func (d *daemon) descriptors() (int, error) {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.PID()))
	return len(open), err
}
