// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/explain"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
)

var testAddress = netip.AddrPortFrom(netip.MustParseAddr("127.80.0.1"), Port)

// shown is an admin.Source of nothing but a configuration.
type shown struct{ cfg *model.Config }

func (s shown) Config() admin.Config                           { return admin.Config{Model: s.cfg} }
func (shown) Ready() error                                     { return nil }
func (shown) Guarded() []admin.Guarded                         { return nil }
func (shown) Capabilities() ([]admin.Capability, error)        { return nil, nil }
func (shown) Delegate() []admin.Delegate                       { return nil }
func (shown) Origins() []admin.Origin                          { return nil }
func (shown) Snapshot() (*metrics.Snapshot, error)             { return &metrics.Snapshot{}, nil }
func (shown) Notes() []admin.Note                              { return nil }
func (shown) Bound(*model.Listener) string                     { return "" }
func (shown) Intercepted(*model.Listener) (bool, error)        { return true, nil }
func (shown) Connections(int) ([]admin.Connection, error)      { return nil, nil }
func (shown) Quotas() []admin.Quota                            { return nil }
func (shown) Workloads() []admin.Workload                      { return nil }
func (shown) ReleaseWorkload(uint64) (admin.Workload, error)   { return admin.Workload{}, nil }
func (shown) JoinWorkload(uint64) (admin.Workload, error)      { return admin.Workload{}, nil }
func (shown) Explain(*explain.Query) (*explain.Answer, error)  { return nil, nil }
func (shown) LogLevel() slog.Level                             { return slog.LevelInfo }
func (shown) SetLogLevel(slog.Level)                           {}
func (shown) ServeHTTP(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }

// TestConfigDumpMeansWhatWasRead reads what /config_dump shows as a configuration: it has to be the one in force.
func TestConfigDumpMeansWhatWasRead(t *testing.T) {
	w := NewWorld(*seed)
	for range 25 {
		table := w.ActionTable()
		var clusters []any
		for _, name := range slices.Concat(ActionClusters, MirrorClusters) {
			clusters = append(clusters, clusterAt(name, testAddress))
		}
		read := parse(t, Object{"listeners": []any{ActionListener(table, "table", testAddress)}, "clusters": clusters})
		again := parse(t, resources(t, read))
		equal := cmpopts.EquateComparable(netip.AddrPort{}, netip.Prefix{})
		if diff := cmp.Diff(read, again, equal, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-read +shown):\n%s", diff)
		}
	}
}

// TestConfigDumpMeansTheHop likewise, for listeners that add headers unasked.
func TestConfigDumpMeansTheHop(t *testing.T) {
	w := NewWorld(*seed)
	for range 25 {
		listener := w.HeadersListener(&ActionTable{Config: Object{"name": "table"}}, "table", testAddress)
		read := parse(t, Object{"listeners": []any{listener}}, config.EnvoyHeaders(true))
		again := parse(t, resources(t, read), config.EnvoyHeaders(true))
		if diff := cmp.Diff(read.Listeners[0].Routes, again.Listeners[0].Routes, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-read +shown):\n%s", diff)
		}
	}
}

func parse(t *testing.T, static Object, change ...config.Option) *model.Config {
	t.Helper()
	text, err := json.Marshal(Object{"static_resources": static})
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("f.json", text, change...)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return cfg
}

// resources are what /config_dump shows, as static_resources.
func resources(t *testing.T, cfg *model.Config) Object {
	t.Helper()
	answer := httptest.NewRecorder()
	admin.NewHandler(shown{cfg}, shown{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/config_dump", nil))
	var dump struct {
		Configs []struct {
			Clusters  []Object `json:"static_clusters"`
			Listeners []Object `json:"static_listeners"`
		}
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &dump); err != nil {
		t.Fatal(err)
	}
	var clusters, listeners []any
	for _, c := range dump.Configs {
		clusters = append(clusters, contents(c.Clusters, "cluster")...)
		listeners = append(listeners, contents(c.Listeners, "listener")...)
	}
	return Object{"clusters": clusters, "listeners": listeners}
}

// contents takes what each element has below a name, without the type, which is known.
func contents(list []Object, name string) (found []any) {
	for _, element := range list {
		o := element[name].(Object)
		delete(o, "@type")
		found = append(found, o)
	}
	return found
}
