// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/routes"
)

// Random tables of every kind of matcher, some of which the kernel decides and some not: who answers is who the model says, on
// both paths. The model itself is compared with Envoy in test/routes.
func TestRandomRoutesAreThoseOfTheModel(t *testing.T) {
	harness.Beside(t)
	const tables, perTable, servers = 4, 150, 5
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		harness.OnlyXLB(t, "test/routes compares Envoy with the model")
		place := harness.SameHost(t)
		w := routes.NewWorld(11)
		config, all := randomTables(w, tables)
		names := harness.Identities(servers)
		_, addresses := origins(t, place, names...)
		for i := range config.Clusters {
			config.Clusters[i].Endpoints = addresses[i%servers : i%servers+1]
		}
		b := harness.Start(t, mode, config, place)
		for i, table := range all {
			requireRoutes(t, place, config.Listeners[i].Address, w, table, names, perTable)
		}
		fast, slow := b.Served(t)
		t.Logf("%.0f requests fast, %.0f slow", fast, slow)
		if mode.Fast && fast == 0 {
			t.Error("no request on the fast path")
		}
	})
}

// randomTables draws tables, each behind a listener, and names a cluster for each route's position: their endpoints are the caller's.
func randomTables(w routes.World, n int) (config harness.Config, all []*routes.Table) {
	for range n {
		table := w.Table()
		all = append(all, table)
		config.Listeners = append(config.Listeners, harness.Listener{Address: harness.Service(), Table: table.WithActions(toCluster), Manager: table.Manager})
		for i := len(config.Clusters); i < table.Routes(); i++ {
			config.Clusters = append(config.Clusters, harness.Cluster{Name: routes.ClusterOf(i)})
		}
	}
	return config, all
}

func toCluster(route int) routes.Object {
	return routes.Object{"route": routes.Object{"cluster": routes.ClusterOf(route)}}
}

// requireRoutes sends requests over one connection and compares who answers.
func requireRoutes(t *testing.T, place *harness.Place, service netip.AddrPort, w routes.World, table *routes.Table, names []string, n int) {
	t.Helper()
	rt, err := table.Model()
	if err != nil {
		t.Fatal(err)
	}
	var sent []*routes.Request
	var steps []programs.Step
	for len(sent) < n {
		if r := w.Request(table); isPlain(r) {
			sent = append(sent, r)
			steps = append(steps, programs.Step{Send: string(r.Bytes())}, programs.Step{Receive: true})
		}
	}
	report := runExchange(t, place, service, 30*time.Second, steps...)
	if report.Error != "" || len(report.Replies) != n {
		t.Fatalf("%d of %d replies: %s; then %q", len(report.Replies), n, report.Error, sent[min(len(report.Replies), n-1)].Bytes())
	}
	for i, r := range sent {
		want := "404"
		asked := r.Model(rt)
		if matcher.IsGRPC(asked.Values("content-type")) {
			want = "200" // with gRPC's status for it
		}
		if route := rt.Match(asked); route != nil {
			want = names[clusterNumber(t, route)%len(names)]
		}
		got := report.Replies[i].Identity
		if got == "" {
			got = fmt.Sprint(report.Replies[i].Status)
		}
		if got != want {
			t.Errorf("%q: answered by %s, want %s", r.Bytes(), got, want)
		}
	}
}

// isPlain leaves out what is refused before it is routed, what a program's
// description cannot hold, and answers without a body.
func isPlain(r *routes.Request) bool {
	return r.Method != http.MethodHead && utf8.Valid(r.Bytes()) && !strings.Contains(r.Target, "%") && !strings.HasPrefix(r.Target, "//")
}

func clusterNumber(t *testing.T, route *model.Route) int {
	t.Helper()
	var n int
	if _, err := fmt.Sscanf(route.Clusters[0].Name, "route-%d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}
