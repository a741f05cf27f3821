// SPDX-License-Identifier: Apache-2.0

package neighbours

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"text/template"
	"time"

	"github.com/xlb-project/xlb/bench/lab"
)

var (
	admin = netip.MustParseAddrPort("127.0.0.1:9911")
	// service is the watched client's address, and abused the hostile pod's.
	service = netip.MustParseAddrPort("127.80.0.1:80")
	abused  = netip.MustParseAddrPort("127.80.0.2:80")
	// long is where responses are long.
	long = netip.MustParseAddrPort("127.80.0.3:80")
	// shortServer and longServer are the hostile pod's servers.
	shortServer = netip.AddrPortFrom(origin.address(), serverPort)
	longServer  = netip.AddrPortFrom(origin.address(), longPort)
)

const (
	serverPort, longPort = 8080, 8081
	// longBody is the size of a long response in bytes: more than the sockets on its way take.
	longBody = 8 << 20
	// patience bounds each wait.
	patience = time.Minute
	pollPace = 20 * time.Millisecond
)

// configuration has a cluster of one endpoint for each address. Circuit breakers are not what is measured: they would refuse the hostile pod most.
var configuration = template.Must(template.New("xlb.yaml").Parse(`
static_resources:
  listeners:
{{- range .}}
  - name: {{.Name}}
    address: { socket_address: { address: {{.At.Addr}}, port_value: {{.At.Port}} } }
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: {{.Name}}
          route_config:
            name: {{.Name}}
            virtual_hosts: [{ name: all, domains: ["*"], routes: [{ match: { prefix: "/" }, route: { cluster: {{.Name}}, timeout: 0s } }] }]
          http_filters:
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
{{- end}}
  clusters:
{{- range .}}
  - name: {{.Name}}
    type: STATIC
    connect_timeout: 5s
    circuit_breakers: { thresholds: [{ max_requests: 100000, max_connections: 100000, max_pending_requests: 100000 }] }
    load_assignment:
      cluster_name: {{.Name}}
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: {{.To.Addr}}, port_value: {{.To.Port}} } } } }] }]
{{- end}}
`))

type listener struct {
	Name   string
	At, To netip.AddrPort
}

var listeners = []listener{
	{"watched", service, netip.AddrPortFrom(server.address(), serverPort)},
	{"hostile", abused, shortServer},
	{"long", long, longServer},
}

// daemon is the XLB of one trial.
type daemon struct {
	*lab.Process
	admin lab.Admin
	dir   string
}

// startDaemon starts one and waits until it serves all pods.
func startDaemon(ctx context.Context, n *node, o *Options, path string) (d *daemon, err error) {
	d = &daemon{admin: lab.Admin{HTTP: n.client(), Address: admin}}
	if d.dir, err = os.MkdirTemp("", prefix); err != nil {
		return nil, err
	}
	if err := d.start(ctx, n, o, path); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return d, nil
}

func (d *daemon) start(ctx context.Context, n *node, o *Options, path string) (err error) {
	var text bytes.Buffer
	if err := configuration.Execute(&text, listeners); err != nil {
		return err
	}
	file := filepath.Join(d.dir, "xlb.yaml")
	if err := os.WriteFile(file, text.Bytes(), 0o644); err != nil {
		return err
	}
	// The addresses lead nowhere: what is not balanced is to fail at once.
	args := append([]string{"run", "--config", file, "--admin", admin.String(), "--namespaces", "all", "--when-down", "fail", "--fast-path", path}, n.workload()...)
	d.Process, err = n.start(host, "xlb", o.XLB, args...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := lab.Poll(ctx, pollPace, d.isServing); err != nil {
		return errors.Join(fmt.Errorf("wait until the daemon serves all pods: %w", err), d.Exited())
	}
	return nil
}

// isServing returns an error until the daemon is ready and serves all pods.
func (d *daemon) isServing() error {
	if _, err := d.admin.Get("/ready"); err != nil {
		return err
	}
	joined, err := d.admin.Metric("xlb_workloads_active", "")
	if err == nil && joined != float64(len(pods)) {
		err = fmt.Errorf("it serves %.0f", joined)
	}
	return err
}

// stop ends it; what is under way was the hostile pod's, which has ended.
func (d *daemon) stop() (err error) {
	if d.Process != nil {
		err = d.Stop()
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}
