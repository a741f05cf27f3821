// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/config"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/views"
	"github.com/xlb-project/xlb/test/await"
)

func viewsAt(dir string) *views.File {
	return &views.File{Views: []views.View{
		{View: model.View{Number: 1, Name: "shop"}, Config: filepath.Join(dir, "shop.yaml"), Select: []views.Selector{{Cgroup: "/shop"}}},
		{View: model.View{Number: 2, Name: "bank"}, Config: filepath.Join(dir, "bank.yaml"), Select: []views.Selector{{Netns: "bank"}}},
	}}
}

// A bootstrap that cannot be used keeps the daemon from starting, and the error says of which view it is.
func TestTheBootstrapsOfAllViewsAreRead(t *testing.T) {
	const empty = "dynamic_resources: {lds_config: {resource_api_version: V3, path_config_source: {path: /nowhere}}}\nnode: {id: a, cluster: b}\n"
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	o := Options{ConfigPath: write("envoy.yaml", empty), Views: viewsAt(dir)}
	write("shop.yaml", empty)
	if err := Validate(o); err == nil || !strings.Contains(err.Error(), "view bank: ") {
		t.Errorf("without the file of view bank: %v", err)
	}
	write("bank.yaml", "admin: {}\n"+empty)
	if err := Validate(o); err == nil || !strings.Contains(err.Error(), "view bank: ") || !strings.Contains(err.Error(), "admin") {
		t.Errorf("with an admin API in view bank: %v", err)
	}
	write("bank.yaml", empty)
	boot, err := o.load(t.Context())
	if err != nil || len(boot.others) != 2 {
		t.Fatalf("got %+v, %v, want a bootstrap of each view", boot, err)
	}
}

// What names the daemon to its control plane names no view: two views with one name would be one node there. Such a view has to name itself.
func TestTheDaemonsNodeIsNoViews(t *testing.T) {
	const control = "dynamic_resources: {ads_config: {api_type: GRPC, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: control}}]}, lds_config: {ads: {}, resource_api_version: V3}}\n" +
		"static_resources: {clusters: [{name: control, typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: " +
		"{'@type': type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions, explicit_http_config: {http2_protocol_options: {}}}}, " +
		"load_assignment: {cluster_name: control, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 1}}}}]}]}}]}\n"
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{ConfigPath: filepath.Join(dir, "envoy.yaml"), Node: config.NodeName{ID: "daemon", Cluster: "host"}, Views: viewsAt(dir)}
	for _, name := range []string{"envoy.yaml", "shop.yaml", "bank.yaml"} {
		write(name, control)
	}
	err := Validate(o)
	if err == nil || !strings.Contains(err.Error(), "view shop: ") || !strings.Contains(err.Error(), "node: needs id and cluster") {
		t.Errorf("views without a node of their own: %v", err)
	}
	for _, name := range []string{"shop", "bank"} {
		write(name+".yaml", control+"node: {id: "+name+", cluster: views}\n")
	}
	if err := Validate(o); err != nil {
		t.Errorf("views with a node of their own: %v", err)
	}
}

// While views wait for what they read the files of others are read again on SIGHUP all the same.
func TestSignalsReachAllWhileOneIsBusy(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	from, busy, free, ended := make(chan os.Signal), make(chan os.Signal, 1), make(chan os.Signal, 1), make(chan struct{})
	go func() { defer close(ended); copySignals(ctx, from, busy, free) }()
	for range 3 {
		from <- os.Interrupt
		if got := await.Next(t, free, "signal"); got != os.Interrupt {
			t.Errorf("got %v", got)
		}
	}
	end()
	<-ended
	if len(busy) != 1 {
		t.Errorf("%d signals wait, want 1", len(busy))
	}
}
