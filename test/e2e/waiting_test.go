// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/violation"
)

// serveSlowly answers with its name, some time after each request.
func serveSlowly(t *testing.T, name string) netip.AddrPort {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(2 * time.Millisecond)
		_, _ = io.WriteString(w, name)
	}))
	t.Cleanup(server.Close)
	return netip.MustParseAddrPort(server.Listener.Addr().String())
}

// generation is a configuration of which each cluster has another name than in the one before, in another order, so that indices change hands. Requests to
// each wait for one connection.
func generation(n int, service netip.AddrPort, servers map[string]netip.AddrPort) harness.Config {
	names := []string{"x", "y"}
	if n%2 == 1 {
		slices.Reverse(names)
	}
	host := harness.VirtualHost{}
	config := harness.Config{}
	for _, name := range names {
		cluster := fmt.Sprintf("%s-%d", name, n)
		host.Routes = append(host.Routes, harness.Route{Prefix: "/" + name, Clusters: harness.To(cluster)})
		config.Clusters = append(config.Clusters, harness.Cluster{Name: cluster, Endpoints: []netip.AddrPort{servers[name]}, Fields: map[string]any{
			"circuit_breakers": fields{"thresholds": []any{fields{"max_connections": 1, "max_pending_requests": 1000}}},
		}})
	}
	config.Listeners = []harness.Listener{{Address: service, Hosts: []harness.VirtualHost{host}}}
	return config
}

// Requests that wait for a connection while reloads replace all clusters, so that the index of the one that they wait for becomes another's, come to an
// endpoint of their own route or are refused, and leave nothing in the count of another cluster. Of each route some are answered.
func TestRequestsThatWaitDuringReloadsComeToTheirOwnCluster(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		servers := map[string]netip.AddrPort{"x": serveSlowly(t, "x"), "y": serveSlowly(t, "y")}
		b := harness.Start(t, mode, generation(0, service, servers), place)
		load := place.Program(t, programs.LoadProgram, programs.LoadSpec{
			Address: service.String(), Connections: 16, Asks: []programs.Ask{{Path: "/x"}, {Path: "/y"}},
		})
		for n := range 20 {
			awaitRequests(t, load, 20)
			b.Reload(t, generation(n+1, service, servers))
		}
		awaitRequests(t, load, 200)
		var final programs.LoadReport
		load.Finish(t, &final)
		for i, own := range []string{"x", "y"} {
			if final.Served[i][own] == 0 {
				t.Errorf("no request of the route to %s was answered by it", own)
			}
			for name, n := range final.Served[i] {
				if name != own {
					violation.Errorf(t, "%d requests of the route to %s were answered by %s", n, own, name)
				}
			}
		}
		await.Quiet(t, func() string {
			if b.IsEnvoy() {
				return ""
			}
			return countedInFlight(t, b)
		})
		t.Logf("%d requests, %v; statuses %v, %d failed, such as %v", final.Total, final.Served, final.Status, final.Failed, final.Failures[:min(2, len(final.Failures))])
	})
}

// waitingRequests wait for an endpoint in different ways while their cluster goes.
var waitingRequests = []struct {
	name string
	// begin starts the balancer with an endpoint that serves no request more until proceed is called.
	begin func(t *testing.T, r *replacement) (proceed func())
	// waits tells whether all of waiters wait.
	waits func(t *testing.T, r *replacement) bool
}{
	{"for a connection that others use", heldEndpoint, func(t *testing.T, r *replacement) bool {
		return r.b.Metric(t, "envoy_cluster_circuit_breakers_default_rq_pending_open", `envoy_cluster_name="before"`) == 1
	}},
	{"for a connection that is being made", unacceptingEndpoint, func(t *testing.T, r *replacement) bool {
		name := "envoy_cluster_upstream_rq_active"
		if r.b.IsEnvoy() {
			name = "envoy_cluster_upstream_rq_pending_active"
		}
		return r.b.Metric(t, name, `envoy_cluster_name="before"`) == waiters
	}},
}

// waiters are clients of which each has a request that waits.
const waiters = 8

// replacement is a cluster, which reloads replace by others under other names.
type replacement struct {
	clients  *harness.Place
	service  netip.AddrPort
	start    func(endpoint netip.AddrPort, more fields)
	b        *harness.Balancer
	requests []*harness.Process
}

// ask has a client send a request; its answer may take long.
func (r *replacement) ask(t *testing.T, path string) {
	t.Helper()
	r.requests = append(r.requests, r.clients.Program(t, programs.ExchangeProgram, programs.ExchangeSpec{
		Address: r.service.String(), Timeout: 4 * patience, Steps: getAndReceive(path),
	}))
}

// config leads to a cluster with that endpoint.
func (r *replacement) config(cluster string, endpoint netip.AddrPort, more fields) harness.Config {
	table := fields{"name": "table", "validate_clusters": false, "virtual_hosts": []any{fields{"name": "all", "domains": []any{"*"}, "routes": []any{
		fields{"match": fields{"path": "/generation"}, "direct_response": fields{"status": 200, "body": inline(cluster)}},
		fields{"match": fields{"prefix": "/"}, "route": fields{"cluster": cluster, "timeout": "0s"}},
	}}}}
	return harness.Config{
		Listeners: []harness.Listener{{Address: r.service, Table: table}}, Drain: 2 * patience,
		Clusters: []harness.Cluster{{Name: cluster, Endpoints: []netip.AddrPort{endpoint}, Fields: more}},
	}
}

// replace puts a cluster in the place of the one before, and waits until requests come to its endpoint.
func (r *replacement) replace(t *testing.T, cluster string, endpoint netip.AddrPort) {
	t.Helper()
	r.b.Reload(t, r.config(cluster, endpoint, nil))
	harness.Eventually(t, patience, cluster+" is in force", func() bool {
		report := runExchange(t, r.clients, r.service, patience, getAndReceive("/generation")...)
		return len(report.Replies) == 1 && report.Replies[0].Body == cluster
	})
	// Of Envoy's files that of listeners may be read before that of clusters.
	harness.Eventually(t, patience, "requests come to "+cluster, func() bool {
		report := runExchange(t, r.clients, r.service, patience, getAndReceive("/")...)
		return len(report.Replies) == 1 && report.Replies[0].Body == "after"
	})
}

// heldEndpoint has one connection, on which a request is held.
func heldEndpoint(t *testing.T, r *replacement) (proceed func()) {
	origin := r.clients.Origin(t, "before")
	r.start(origin.Address, fields{"circuit_breakers": fields{"thresholds": []any{
		fields{"max_connections": 1, "max_pending_requests": waiters},
	}}})
	r.ask(t, "/hold")
	harness.Eventually(t, patience, "the endpoint holds a request", func() bool { return origin.State(t).Held == 1 })
	return func() { origin.Release(t) }
}

// unacceptingEndpoint does not accept connections, and has no room for more of them: the kernel leaves those that come without an answer.
func unacceptingEndpoint(t *testing.T, r *replacement) (proceed func()) {
	listener := fullListener(t)
	r.start(netip.MustParseAddrPort(listener.Addr().String()), fields{"connect_timeout": "60s"})
	return func() {
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "before") })}
		t.Cleanup(func() { _ = server.Close() })
		go func() { _ = server.Serve(listener) }()
	}
}

// fullListener has a queue of one connection, which is there.
func fullListener(t *testing.T) net.Listener {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "listener")
	defer file.Close()
	if err := errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	listener, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return listener
}

// Requests that wait for an endpoint while reloads put other clusters in the place of theirs are answered by that endpoint or refused, never by an endpoint
// of the others, and no cluster has them in its count behind that.
func TestRequestsThatWaitForAClusterThatGoesComeToNoOther(t *testing.T) {
	harness.Beside(t)
	const reloads = 5
	for _, tt := range waitingRequests {
		t.Run(tt.name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				r := &replacement{clients: harness.SameHost(t), service: harness.Service()}
				r.start = func(endpoint netip.AddrPort, more fields) {
					r.b = harness.Start(t, mode, r.config("before", endpoint, more), r.clients)
				}
				proceed := tt.begin(t, r)
				if r.b.IsEnvoy() && len(r.requests) > 0 {
					t.Skip("each of Envoy's workers has a connection of its own")
				}
				for range waiters {
					r.ask(t, "/")
				}
				harness.Eventually(t, patience, "requests wait", func() bool { return tt.waits(t, r) })
				after := r.clients.Origin(t, "after").Address
				for n := range reloads {
					r.replace(t, fmt.Sprintf("after-%d", n), after)
				}
				proceed()
				r.requireOwnAnswers(t)
			})
		})
	}
}

func (r *replacement) requireOwnAnswers(t *testing.T) {
	t.Helper()
	const ofOwn = "its endpoint"
	answers := map[string]int{}
	for _, p := range r.requests {
		var report programs.ExchangeReport
		p.Next(t, &report)
		switch {
		case len(report.Replies) != 1:
			t.Errorf("no answer: %s", report.Error)
		case report.Replies[0].Status == http.StatusServiceUnavailable:
			answers["503"]++
		case report.Replies[0].Status == http.StatusOK && report.Replies[0].Body == "before":
			answers[ofOwn]++
		default:
			violation.Errorf(t, "a request to a cluster that has gone was answered %d %q", report.Replies[0].Status, report.Replies[0].Body)
		}
	}
	t.Logf("answers: %v", answers)
	// One was held there when the others began to wait, or all had been on their way to it.
	if answers[ofOwn] == 0 {
		t.Errorf("none of %d requests was answered by the endpoint of the cluster that they were for", len(r.requests))
	}
	if r.b.IsEnvoy() {
		return
	}
	await.Quiet(t, func() string {
		return countedInFlight(t, r.b)
	})
}
