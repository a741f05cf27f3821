// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"
	"time"

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
// endpoint of their own route or are refused, and leave nothing in the count of another cluster.
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
			for i, c := range b.Clusters(t) {
				if c.Active != 0 {
					return fmt.Sprintf("%d requests are counted at index %d, and none is in flight", int32(c.Active), i)
				}
			}
			return ""
		})
		t.Logf("%d requests, %v; statuses %v, %d failed, such as %v", final.Total, final.Served, final.Status, final.Failed, final.Failures[:min(2, len(final.Failures))])
	})
}
