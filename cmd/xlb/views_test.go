// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/explain"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// viewed is what the admin API shows where a pod has a view.
type viewed struct{ daemon }

func (d viewed) Config() admin.Config {
	c := d.daemon.Config()
	view := model.View{Number: 1, Name: "carts"}
	c.Views = []string{view.Name}
	c.Model.Listeners = append(c.Model.Listeners, &model.Listener{View: view, Name: "shop", Address: shop, Routes: &model.RouteTable{Name: "carts", VirtualHosts: []*model.VirtualHost{{
		Name: "carts", Domains: []string{"*"}, Routes: []*model.Route{{Path: matcher.PathMatch{Value: "/"}, Clusters: []model.WeightedCluster{{Name: "web", Weight: 1}}}},
	}}}})
	c.Model.Clusters = append(c.Model.Clusters, &model.Cluster{View: view, Name: "web"})
	return c
}

func (d viewed) Snapshot() (*metrics.Snapshot, error) {
	s, err := d.daemon.Snapshot()
	s.Clusters = append(s.Clusters, metrics.ClusterSnapshot{View: "carts", Name: "web", Endpoints: []metrics.EndpointSnapshot{{Address: one, Weight: 1, State: metrics.StateHealthy, Healthy: true}}})
	return s, err
}

func (d viewed) Workloads() []admin.Workload {
	list := d.daemon.Workloads()
	for i := range list {
		if list[i].PodUID == webUID {
			list[i].View = "carts"
		}
	}
	return list
}

func (d viewed) Connections(limit int) ([]admin.Connection, error) {
	list, err := d.daemon.Connections(limit)
	list[0].View = "carts"
	return list, err
}

func (d viewed) Origins() []admin.Origin {
	list := d.daemon.Origins()
	refused := list[1]
	refused.View, refused.From = "carts", "/etc/xlb/carts.yaml"
	return append(list, refused)
}

func (d viewed) Notes() []admin.Note {
	return append(d.daemon.Notes(), admin.Note{View: "carts", Path: "stats_sinks", Reason: "XLB has none"})
}

func (d viewed) Explain(q *explain.Query) (*explain.Answer, error) { return explainTo(d, q) }

func viewedAPI(t *testing.T) string {
	t.Helper()
	return serving(t, admin.NewHandler(viewed{daemon{new(slog.LevelVar), new(atomic.Bool)}}, http.NotFoundHandler()).ServeHTTP)
}

func TestTablesHaveViewsWhereThereAreSome(t *testing.T) {
	address := viewedAPI(t)
	for _, name := range []string{"listeners", "routes", "clusters", "endpoints", "pools", "connections", "workloads", "config", "notes"} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := call(t, "get", name, "--admin", address)
			if code != exitOK || stderr != "" {
				t.Fatalf("code %d, stderr %q", code, stderr)
			}
			compareOutput(t, "get-"+name+"-views.txt", stdout)
		})
	}
}

func TestExplainOfAView(t *testing.T) {
	address := viewedAPI(t)
	for _, tt := range []struct {
		name string
		args []string
		view string
	}{
		{"shared", nil, ""},
		{"named", []string{"--view", "carts"}, "carts"},
		{"of a pod", []string{"--pod", webUID}, "carts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"explain", "GET", "http://127.80.0.1:8080/cart", "--draw", "57", "--admin", address}, tt.args...)
			code, stdout, stderr := call(t, args...)
			if code != exitOK || stderr != "" {
				t.Fatalf("code %d, stderr %q", code, stderr)
			}
			if got := strings.Contains(stdout, "\nview          carts\n"); got != (tt.view != "") {
				t.Errorf("view is shown: %v\n%s", got, stdout)
			}
			var a explain.Answer
			decode(t, &a, append(args, "-o", "json")...)
			if a.View != tt.view {
				t.Errorf("JSON: got view %q, want %q", a.View, tt.view)
			}
		})
	}
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"unknown", []string{"--view", "cart", "--admin", address}, `view "cart": unknown; there are carts; leave the view out for the shared one`},
		{"of a file", []string{"--view", "carts", "--config", "testdata/explain.yaml"},
			"explain: --view: not with --config, which names the file of one view: name that of the view with --config, or leave --config out to ask a daemon"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := call(t, append([]string{"explain", "GET", "http://127.80.0.1:8080/"}, tt.args...)...)
			if code != exitRefused || stdout != "" || stderr != "xlb: "+tt.want+"\n" {
				t.Errorf("code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
		})
	}
}
