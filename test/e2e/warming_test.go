// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// warmingWorld has a service of a plain cluster, and servers of which one is behind a sidecar.
type warmingWorld struct {
	w       world
	d       delivery
	place   *harness.Place
	a       *trust
	v       *vault
	service netip.AddrPort
	plain   []netip.AddrPort
	secured netip.AddrPort
	// chain and key are what the sidecar accepts.
	chain, key string
}

func newWarmingWorld(t *testing.T, d delivery, place *harness.Place) *warmingWorld {
	t.Helper()
	_, servers := origins(t, place, "plain", "more", "meshed")
	x := &warmingWorld{w: world{}, d: d, place: place, a: newTrust(t), v: newVault(t), service: harness.Service(), plain: servers[:2]}
	x.secured, _ = x.a.sidecar(t, place, servers[2])
	x.chain, x.key = x.a.issue(t, callerIdentity)
	x.w.put(assignmentType, "shop-1", assignmentOf("shop-1", x.plain[0]))
	x.w.put(clusterType, "shop", edsCluster(d, "shop", "shop-1"))
	x.w.put(listenerType, "web", rdsListener(d, "web", x.service, "table"))
	x.w.put(routesType, "table", tableOf("table", routeTo("/new", "new", nil), routeTo("/", "shop", nil)))
	d.deliver(t, x.w)
	return x
}

// bootstrap has the server of secrets, for both balancers.
func (x *warmingWorld) bootstrap() harness.Config {
	fields := x.d.fields()
	static := fields["static_resources"].(map[string]any)
	clusters, _ := static["clusters"].([]any)
	own := x.v.cluster()
	server := map[string]any{"name": own.Name, "type": "STATIC", "connect_timeout": "1s"}
	for k, f := range own.Fields {
		server[k] = f
	}
	static["clusters"] = append(clusters, server)
	return harness.Config{Fields: fields}
}

// secure has a cluster of the sidecar, with secrets that come from there, in so long a time.
func (x *warmingWorld) secure(name, service, patience string, secret func(name string) map[string]any) {
	cluster := edsCluster(x.d, name, service)
	socket := meshSocketWith(webIdentity, func(name string) map[string]any {
		s := secret(name)
		s["sds_config"].(map[string]any)["initial_fetch_timeout"] = patience
		return s
	})
	cluster["transport_socket"] = socket
	x.w.put(assignmentType, service, assignmentOf(service, x.secured))
	x.w.put(clusterType, name, cluster)
}

func (x *warmingWorld) supply(t *testing.T) {
	t.Helper()
	x.v.put(t, certificateSecret(x.chain, x.key))
	x.v.put(t, rootSecret(x.a.pem))
}

// answer is a status and a body.
func (x *warmingWorld) answer(t *testing.T, path string) string {
	t.Helper()
	r := runExchange(t, x.place, x.service, 10*time.Second, getAndReceive(path)...).Replies[0]
	return fmt.Sprintf("%d %s", r.Status, r.Body)
}

func (x *warmingWorld) status(t *testing.T, path string) int {
	t.Helper()
	return runExchange(t, x.place, x.service, 10*time.Second, getAndReceive(path)...).Replies[0].Status
}

// A cluster that changes serves on as it was until the secrets of what it becomes have come, with the endpoints that it has meanwhile; one that is new is not
// there before. No request is lost.
func TestClustersWarmUntilTheirSecretsHaveCome(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	forDeliveries(t, func(t *testing.T, d delivery, start func(harness.Config) *harness.Balancer, place *harness.Place) {
		x := newWarmingWorld(t, d, place)
		b := start(x.bootstrap())
		load := place.Program(t, programs.LoadProgram, programs.LoadSpec{Address: x.service.String(), Connections: 4})
		awaitRequests(t, load, 100)

		x.secure("shop", "shop-2", "60s", secretOf)
		x.secure("new", "new-1", "0s", secretOf)
		d.deliver(t, x.w)
		harness.Eventually(t, patience, "the secrets are awaited", func() bool { return strings.Contains(b.Get(t, "/config_dump"), "dynamic_warming_secrets") })
		if got := x.answer(t, "/new"); got != "503 " {
			t.Errorf("a new cluster answers %q", got)
		}
		x.w.put(assignmentType, "shop-1", assignmentOf("shop-1", x.plain[1]))
		d.deliver(t, x.w)
		harness.Eventually(t, patience, "the endpoints change meanwhile", func() bool {
			return report(t, load).Served[0]["more"] > 50
		})
		if served := report(t, load).Served[0]; served["meshed"] > 0 {
			t.Errorf("without secrets: %v", served)
		}
		x.supply(t)
		harness.Eventually(t, patience, "the cluster has changed", func() bool { return report(t, load).Served[0]["meshed"] > 50 })
		harness.Eventually(t, patience, "the new cluster is there", func() bool { return x.status(t, "/new") == http.StatusOK })
		var final programs.LoadReport
		load.Finish(t, &final)
		requireClean(t, final)
		t.Logf("%d requests: %v", final.Total, final.Served)
	})
}

// When the time of the secrets is over, or one cannot be used, a cluster is put in force without them.
func TestClustersDoNotWarmForEver(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	forDeliveries(t, func(t *testing.T, d delivery, start func(harness.Config) *harness.Balancer, place *harness.Place) {
		x := newWarmingWorld(t, d, place)
		start(x.bootstrap())
		for _, c := range []struct {
			name, patience string
			before         func()
		}{
			{"time", "1s", func() {}},
			{"refused", "60s", func() {
				_, otherKey := x.a.issue(t, callerIdentity)
				x.v.put(t, certificateSecret(x.chain, otherKey))
				x.v.put(t, rootSecret(x.a.pem))
			}},
		} {
			x.w.put(clusterType, "shop", edsCluster(d, "shop", "shop-1"))
			d.deliver(t, x.w)
			harness.Eventually(t, patience, "the cluster is plain", func() bool { return x.status(t, "/") == http.StatusOK })
			c.before()
			x.secure("shop", "shop-2", c.patience, secretOf)
			// The balancer has the change before this process knows that it is delivered.
			begun := time.Now()
			d.deliver(t, x.w)
			harness.Eventually(t, patience, c.name+": the cluster has changed", func() bool { return x.status(t, "/") == http.StatusServiceUnavailable })
			took := time.Since(begun)
			t.Logf("%s: %s after %v", c.name, x.answer(t, "/"), took)
			if c.name == "time" && took < 900*time.Millisecond {
				t.Errorf("after %v", took)
			}
		}
		x.supply(t)
		harness.Eventually(t, patience, "the secrets have come", func() bool { return x.status(t, "/") == http.StatusOK })
	})
}
