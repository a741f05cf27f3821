// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/explain"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// third is the endpoint of the view's cluster.
var third = netip.MustParseAddrPort("10.0.0.3:80")

// views has listeners, routes and clusters of the names that the shared view has in another view too.
type views struct{ state }

func (s *views) Config() Config {
	c := s.state.Config()
	shop := model.View{Number: 1, Name: "shop"}
	l := *c.Model.Listeners[0]
	l.View, l.Routes = shop, &model.RouteTable{Name: "shop", VirtualHosts: []*model.VirtualHost{{
		Name: "own", Domains: []string{"*"}, Routes: []*model.Route{{Path: matcher.PathMatch{Value: "/"}, Clusters: []model.WeightedCluster{{Name: "web", Weight: 1}}}},
	}}}
	c.Model.Listeners = append(c.Model.Listeners, &l)
	c.Model.Clusters = append(c.Model.Clusters, &model.Cluster{
		View: shop, Name: "web", ConnectTimeout: 3 * time.Second, Targets: []model.Target{{Host: "10.0.0.3", Port: 80, Weight: 1}}, LeftOut: []model.LeftOut{{Reason: model.LeftOutTLS}},
	})
	c.Model.Passed = []model.Passed{{View: shop, Listener: "virtualInbound", Address: second}}
	c.Model.Local = &model.Local{Cluster: "web"}
	c.Views = []string{"empty", "shop"}
	// The shared view has this one statically, the other by xDS.
	c.Dynamic = func() *Dynamic { return &Dynamic{Clusters: []Resource{{Name: "dns", Version: "shared"}}} }
	c.DescribeView = func(view string, c *Config) {
		c.Dynamic = func() *Dynamic { return &Dynamic{Clusters: []Resource{{Name: "web", Version: view}}} }
	}
	return c
}

func (s *views) Notes() []Note { return []Note{{Path: "access_log"}} }

func (s *views) Snapshot() (*metrics.Snapshot, error) {
	all, err := s.state.Snapshot()
	all.Clusters = append(all.Clusters, metrics.ClusterSnapshot{View: "shop", Name: "web", Requests: 7, Endpoints: []metrics.EndpointSnapshot{
		{Address: third, Weight: 1, State: metrics.StateHealthy, HealthFlags: "healthy", Healthy: true, Requests: 7, Pool: metrics.Pool{Idle: 2}, Connections: 2},
	}})
	return all, err
}

func (s *views) Explain(q *explain.Query) (*explain.Answer, error) {
	c := s.Config()
	state := explain.Compiled(c.Model)
	state.Views = c.Views
	return explain.Explain(state, q)
}

func askViews(t *testing.T, target string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	NewHandler(&views{}, http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, http.NoBody))
	return w.Code, w.Body.String()
}

// viewRow has what the rows of several pages have in common.
type viewRow struct {
	Name, Listener, Cluster, View string
}

func TestRowsNameTheirView(t *testing.T) {
	for _, tt := range []struct {
		path string
		want []viewRow
	}{
		{"/xlb/listeners", []viewRow{{Name: "shop"}, {Name: "shop", View: "shop"}, {Name: "virtualInbound", View: "shop"}}},
		{"/xlb/routes", []viewRow{{Listener: "shop"}, {Listener: "shop"}, {Listener: "shop", View: "shop"}}},
		{"/xlb/clusters", []viewRow{{Name: "web"}, {Name: "web", View: "shop"}}},
		{"/xlb/endpoints", []viewRow{{Cluster: "web"}, {Cluster: "web"}, {Cluster: "web", View: "shop"}}},
		{"/xlb/pools", []viewRow{{Cluster: "web"}, {Cluster: "web"}, {Cluster: "web", View: "shop"}}},
	} {
		t.Run(tt.path, func(t *testing.T) {
			_, body := askViews(t, tt.path)
			var got []viewRow
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatalf("%v\n%s", err, body)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	var clusters []Cluster
	_, body := askViews(t, "/xlb/clusters")
	if err := json.Unmarshal([]byte(body), &clusters); err != nil || clusters[1].Endpoints != 1 || clusters[1].LeftOut == "" || clusters[0].LeftOut != "" {
		t.Errorf("clusters: %v, %+v", err, clusters)
	}
}

// textOfView is the page of a view's cluster.
const textOfView = `web::observability_name::web
web::added_via_api::false
web::10.0.0.3:80::cx_active::2
web::10.0.0.3:80::rq_active::0
web::10.0.0.3:80::rq_error::0
web::10.0.0.3:80::rq_success::0
web::10.0.0.3:80::rq_total::7
web::10.0.0.3:80::health_flags::healthy
web::10.0.0.3:80::weight::1
web::10.0.0.3:80::region::
web::10.0.0.3:80::zone::
web::10.0.0.3:80::sub_zone::
web::10.0.0.3:80::priority::0
`

func TestEnvoysPagesShowOneView(t *testing.T) {
	_, alone := ask(t, &state{}, http.MethodGet, "/clusters")
	_, aloneInJSON := ask(t, &state{}, http.MethodGet, "/clusters?format=json")
	const known = `view "bank": unknown; there are empty, shop; leave the view out for the shared one` + "\n"
	for _, tt := range []struct {
		name, target string
		status       int
		want         string
	}{
		{"clusters of the shared one", "/clusters", 200, alone},
		{"in JSON", "/clusters?format=json", 200, aloneInJSON},
		{"clusters of a view", "/clusters?view=shop", 200, textOfView},
		{"listeners of the shared one", "/listeners", 200, "shop::127.80.0.1:8080\n"},
		{"listeners of a view", "/listeners?view=shop", 200, "shop::127.80.0.1:8080\n"},
		{"one with nothing", "/listeners?view=empty", 200, ""},
		{"unknown clusters", "/clusters?view=bank", 400, known},
		{"unknown listeners", "/listeners?view=bank", 400, known},
		{"unknown dump", "/config_dump?view=bank", 400, known},
		{"unknown account", "/xlb/explain?url=http://127.80.0.1:8080/&view=bank", 400, known},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if status, body := askViews(t, tt.target); status != tt.status || body != tt.want {
				t.Errorf("got %d\n%s\nwant %d\n%s", status, body, tt.status, tt.want)
			}
		})
	}
	_, body := askViews(t, "/xlb/explain?url=http://127.80.0.1:8080/&view=shop")
	var a explain.Answer
	if err := json.Unmarshal([]byte(body), &a); err != nil || a.View != "shop" || a.VirtualHost.Name != "own" {
		t.Errorf("account: %v\n%s", err, body)
	}
}

// dumped is what a test looks at in a dump.
type dumped struct {
	// Static and Dynamic are the clusters, Endpoints assignments, by name or version; Hosts are the virtual hosts of the static tables.
	Static, Dynamic, Endpoints, Hosts []string
	HasLocal, HasRemarks              bool
	// Health is of how many endpoints it is shown.
	Health int
}

func dumpOf(t *testing.T, target string) (d dumped) {
	t.Helper()
	_, body := askViews(t, target)
	var whole struct {
		Configs []json.RawMessage
		Notes   []Note `json:"xlb_notes"`
	}
	var bootstrap struct {
		Bootstrap struct {
			Manager *struct{} `json:"cluster_manager"`
		}
	}
	var clusters struct {
		Static []struct {
			Cluster struct {
				Name    string
				Timeout string `json:"connect_timeout"`
			}
		} `json:"static_clusters"`
		Dynamic []struct {
			Version string    `json:"version_info"`
			Error   *struct{} `json:"error_state"`
		} `json:"dynamic_active_clusters"`
	}
	var endpoints struct {
		Static []struct {
			Config struct {
				Name string `json:"cluster_name"`
			} `json:"endpoint_config"`
		} `json:"static_endpoint_configs"`
	}
	var tables struct {
		Static []struct {
			Config struct {
				Hosts []struct{ Name string } `json:"virtual_hosts"`
			} `json:"route_config"`
		} `json:"static_route_configs"`
	}
	read := func(text json.RawMessage, into any) {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	read(json.RawMessage(body), &whole)
	read(whole.Configs[0], &bootstrap)
	read(whole.Configs[1], &clusters)
	read(whole.Configs[2], &endpoints)
	read(whole.Configs[4], &tables)
	for _, c := range clusters.Static {
		d.Static = append(d.Static, c.Cluster.Name)
	}
	for _, c := range clusters.Dynamic {
		d.Dynamic = append(d.Dynamic, c.Version)
		if c.Error != nil {
			d.Dynamic = append(d.Dynamic, "left out")
		}
	}
	for _, e := range endpoints.Static {
		d.Endpoints = append(d.Endpoints, e.Config.Name)
	}
	for _, x := range tables.Static {
		d.Hosts = append(d.Hosts, x.Config.Hosts[0].Name)
	}
	d.Health = strings.Count(string(whole.Configs[2]), `"health_status"`)
	d.HasLocal, d.HasRemarks = bootstrap.Bootstrap.Manager != nil, len(whole.Notes) > 0
	return d
}

func TestConfigDumpHasOneView(t *testing.T) {
	want := dumped{Static: []string{"web"}, Dynamic: []string{"shared"}, Endpoints: []string{"web"}, Hosts: []string{"all"}, HasLocal: true, HasRemarks: true, Health: 2}
	if diff := cmp.Diff(want, dumpOf(t, "/config_dump")); diff != "" {
		t.Errorf("the shared one (-want +got):\n%s", diff)
	}
	want = dumped{Dynamic: []string{"shop", "left out"}, Hosts: []string{"own"}}
	if diff := cmp.Diff(want, dumpOf(t, "/config_dump?view=shop")); diff != "" {
		t.Errorf("of a view (-want +got):\n%s", diff)
	}
	if got := dumpOf(t, "/config_dump?view=empty"); len(got.Hosts) > 0 || !slices.Equal(got.Dynamic, []string{"empty"}) {
		t.Errorf("of one with nothing: %+v", got)
	}
}

// What was read from a view's file is shown as static, with the health of its own endpoints.
func TestConfigDumpOfAViewWithoutDescription(t *testing.T) {
	c := (&views{}).Config()
	c.DescribeView, c.Bootstrap, c.Control, c.Secrets = nil, json.RawMessage(`{}`), json.RawMessage(`{}`), []Secret{{Name: "ca"}}
	if c = c.of("shop"); c.Dynamic != nil || c.Bootstrap != nil || c.Control != nil || c.Secrets != nil {
		t.Errorf("it has what is the shared one's: %+v", c)
	}
	s, _ := (&views{}).Snapshot()
	s.Clusters[1].Endpoints[0].State = metrics.StateEjected
	text, err := json.Marshal(dump(c, healthOf(c.clustersOf(s))))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"connect_timeout":"3s"`, `"health_status":"UNHEALTHY"`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("the dump lacks %s:\n%s", part, text)
		}
	}
}
