// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/golden"
)

var shopView = model.View{Number: 7, Name: "shop-web"}

// isOfViews finds the refusals that only views have.
var isOfViews = regexp.MustCompile(`for all views; it belongs|a view has no|which have no view|a view's node is that of its own bootstrap`)

// texts are bootstraps by what they are: examples, and those of the other tests of this package.
func texts(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, c := range refusals {
		out["refused: "+c.name] = c.apply(t)
	}
	for i := range acceptances {
		out["accepted: "+acceptances[i].name] = acceptances[i].apply(t)
	}
	for _, c := range bootstrapRefusals {
		out["control plane: "+c.name] = changed(t, c.at, c.yaml)
	}
	for _, second := range []string{"to", "else"} {
		out["ORIGINAL_DST, the other to "+second] = []byte(strings.NewReplacer("SECOND", second, "OVERRIDE", "").Replace(originalFile))
	}
	for _, to := range []string{"10.0.0.1", "10.0.0.2"} {
		out["to a listener at "+to] = fmt.Appendf(nil, circleBootstrap, "", "load_assignment: {cluster_name: c, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: "+to+", port_value: 80}}}}]}]}")
	}
	files := examples(t)
	for _, pattern := range []string{"testdata/*.yaml", "testdata/*/envoy.yaml", "../../cmd/xlb/testdata/*.yaml", "../../test/*/*.yaml"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, more...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out[file], out[file+" without admin"] = text, withoutAdmin(t, text)
	}
	return out
}

func withoutAdmin(t *testing.T, text []byte) []byte {
	t.Helper()
	root := map[string]any{}
	if err := yaml.Unmarshal(text, &root); err != nil {
		return text
	}
	delete(root, "admin")
	out, err := yaml.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// requireViewOnly has every listener and every cluster be of the view, and takes that away.
func requireViewOnly(t *testing.T, cfg *model.Config) {
	t.Helper()
	if cfg == nil {
		return
	}
	for _, l := range cfg.Listeners {
		if l.View != shopView {
			t.Errorf("%s is of another view", l.FullName())
		}
		l.View = model.View{}
	}
	for i := range cfg.Passed {
		if cfg.Passed[i].View != shopView {
			t.Errorf("listener %s, which is left alone, is of another view", cfg.Passed[i].Listener)
		}
		cfg.Passed[i].View = model.View{}
	}
	for _, c := range cfg.Clusters {
		if c.View != shopView {
			t.Errorf("%s is of another view", c.Key())
		}
		c.View = model.View{}
		for _, s := range c.Sockets {
			if s.View != shopView.Name || !strings.HasSuffix(s.Key, "@"+shopView.Name) {
				t.Errorf("a context of %s has the secrets of view %q, and the key %q", c.Key(), s.View, s.Key)
			}
		}
	}
}

// requireSame has two configurations say the same, but for whose secrets a TLS context has.
func requireSame(t *testing.T, want, got *model.Config) {
	t.Helper()
	same := cmp.Options{
		cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }), cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(model.UpstreamTLS{}, "View", "Key"),
	}
	if diff := cmp.Diff(want, got, same); diff != "" {
		t.Errorf("(-shared +view)\n%s", diff)
	}
}

// requireSameRefusals has both refuse the same, beside what only views refuse. It reports whether there is any of that.
func requireSameRefusals(t *testing.T, shared, view error) (ofViews bool) {
	t.Helper()
	lines := func(err error) []string {
		if err == nil {
			return nil
		}
		return strings.Split(err.Error(), "\n")
	}
	want := lines(shared)
	for _, line := range lines(view) {
		switch {
		case isOfViews.MatchString(line):
			ofViews = true
		case !slices.Contains(want, line):
			t.Errorf("refused in a view alone: %s", line)
		}
	}
	if got := lines(view); !ofViews && !slices.Equal(want, got) {
		t.Errorf("refused: %q, in a view %q", want, got)
	}
	return ofViews
}

func TestBootstrapMeansInAViewWhatItMeansInTheDaemons(t *testing.T) {
	same := map[bool]int{}
	for name, text := range texts(t) {
		t.Run(name, func(t *testing.T) {
			shared, want, err := parse("f.yaml", text)
			view, got, errOfView := parse("f.yaml", text, ForView(shopView))
			if requireSameRefusals(t, err, errOfView) {
				return
			}
			same[err == nil]++
			requireViewOnly(t, got)
			requireSame(t, want, got)
			if err == nil && !slices.Equal(shared.Notes(), view.Notes()) {
				t.Errorf("notes: %v, in a view %v", shared.Notes(), view.Notes())
			}
		})
	}
	if same[true] < 150 || same[false] < 150 {
		t.Errorf("only %d were accepted and %d refused", same[true], same[false])
	}
}

// realResources are those of real control planes, by file.
func realResources(t *testing.T) map[string]map[string]*anypb.Any {
	t.Helper()
	paths, err := filepath.Glob("testdata/resources/*.json")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]*anypb.Any{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]json.RawMessage{}
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatal(err)
		}
		out[path] = map[string]*anypb.Any{}
		for name, one := range all {
			out[path][name] = resource(t, kindOfFile(path), one)
		}
	}
	return out
}

func kindOfFile(path string) Kind {
	parts := strings.Split(strings.TrimSuffix(path, ".json"), ".")
	if strings.Contains(path, "Listener-0") {
		return Listeners
	}
	return kindsByFile[parts[len(parts)-1]]
}

func TestResourcesMeanInAViewWhatTheyMeanInTheDaemons(t *testing.T) {
	shared, errShared := ParseBootstrap("b.yaml", []byte(dynamicBase))
	view, errView := ParseBootstrap("b.yaml", []byte(dynamicBase), ForView(shopView))
	if errShared != nil || errView != nil {
		t.Fatal(errShared, errView)
	}
	all := Resources{Clusters: map[string]*anypb.Any{}, Listeners: map[string]*anypb.Any{}}
	for path, list := range realResources(t) {
		kind := kindOfFile(path)
		for name, body := range list {
			want, errShared := shared.CheckResource(kind, name, body)
			got, errView := view.CheckResource(kind, name, body)
			if ofViews := requireSameRefusals(t, errShared, errView); ofViews || errView != nil {
				continue
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s needs (-shared +view)\n%s", name, diff)
			}
			switch kind {
			case Clusters:
				all.Clusters[name] = body
			case Listeners:
				all.Listeners[name] = body
			}
		}
	}
	if len(all.Clusters) < 20 || len(all.Listeners) < 7 {
		t.Errorf("only %d clusters and %d listeners can be compared", len(all.Clusters), len(all.Listeners))
	}
	for range 2 { // the second time what is the same is not made again
		want, errShared := shared.Assemble(all)
		got, errView := view.Assemble(all)
		if requireSameRefusals(t, errShared, errView) {
			t.Errorf("refused in a view alone: %v", errView)
		}
		requireKeys(t, got)
		again := *got
		again.Clusters, again.Listeners = copies(got.Clusters), copies(got.Listeners)
		requireViewOnly(t, &again)
		requireSame(t, want, &again)
	}
}

func copies[T any](list []*T) []*T {
	out := make([]*T, len(list))
	for i := range list {
		one := *list[i]
		out[i] = &one
	}
	return out
}

// requireKeys has all that secures endpoints of a view be told from that of other views.
func requireKeys(t *testing.T, cfg *model.Config) {
	t.Helper()
	for _, c := range cfg.Clusters {
		for i := range c.Endpoints {
			if s := c.Endpoints[i].TLS; s != nil && !slices.Contains(c.Sockets, s) {
				t.Errorf("%s: %s is secured by what is not among the sockets of the cluster", c.Key(), c.Endpoints[i].Address)
			}
		}
	}
}

// tlsFrom is a cluster's transport socket whose authority comes from there.
func tlsFrom(source string) string {
	return "{transport_socket: {name: tls, typed_config: {" + tlsContext + ", common_tls_context: {validation_context_sds_secret_config: {name: default, sds_config: " + source + "}}}}}"
}

const apiSource = "{api_config_source: {api_type: GRPC, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: secrets}}]}}"

// viewRefusals are accepted in the bootstrap of the daemon.
var viewRefusals = []change{
	{"admin API", "", "{admin: {address: {socket_address: {address: 127.0.0.1, port_value: 9901}}}}"},
	{"limit of connections", "", "{overload_manager: {resource_monitors: [{name: envoy.resource_monitors.global_downstream_max_connections, typed_config: {'@type': type.googleapis.com/" +
		"envoy.extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig, max_active_downstream_connections: 7}}]}}"},
	{"zone-aware routing", "", "{node: {locality: {zone: z}}, cluster_manager: {local_cluster_name: b}}"},
	{"listener for connections from outside", "$listener.address.socket_address", "{address: 0.0.0.0}"},
	{"listener for connections from outside over both families", "$listener.address.socket_address", "{address: '::', ipv4_compat: true}"},
	{"additional address for connections from outside", "$listener", "{additional_addresses: [{address: {socket_address: {address: 127.80.0.2, port_value: 80}}}, {address: {socket_address: {address: '::', port_value: 80}}}]}"},
}

func TestWhatIsTheHostsIsRefusedInAView(t *testing.T) {
	var got strings.Builder
	refuse := func(name string, text []byte) {
		if _, err := ParseBootstrap("b.yaml", text); err != nil {
			t.Errorf("%s: the daemon's is refused: %v", name, err)
		}
		_, err := ParseBootstrap("b.yaml", text, ForView(shopView))
		if err == nil {
			t.Errorf("%s: accepted", name)
			return
		}
		got.WriteString("# " + name + "\n" + err.Error() + "\n\n")
	}
	for _, c := range viewRefusals {
		refuse(c.name, c.apply(t))
	}
	golden.Compare(t, "testdata/views_refused.golden", got.String())
}

func TestWhatIsTheHostsIsRefusedBesideWhatCannotBeDecoded(t *testing.T) {
	_, err := ParseBootstrap("b.yaml", []byte("admin: {address: {socket_address: {address: 127.0.0.1, port_value: 1}}}\nbogus: 1\n"), ForView(shopView))
	if err == nil || !strings.Contains(err.Error(), "b.yaml: admin: not supported: ") || !strings.Contains(err.Error(), "bogus: unknown field") {
		t.Errorf("%v", err)
	}
}

// A view has a control plane, and servers of secrets, where the daemon may have them; what its bootstrap says of node is who it is for them.
func TestAViewHasServersOfItsOwn(t *testing.T) {
	secrets := change{at: "static_resources.clusters", yaml: "+ {name: secrets, load_assignment: {cluster_name: secrets, endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: {path: /run/sds}}}}]}]}}"}
	for name, text := range map[string][]byte{
		"everything from the control plane": changed(t, "", "{}"),
		"endpoints from the control plane":  changed(t, "$fixed", "{type: EDS, load_assignment: null, eds_cluster_config: {eds_config: {ads: {}, resource_api_version: V3}}}"),
		"routes from the control plane":     changed(t, "static_resources", "{listeners: ["+httpListener("web", "127.0.0.1", rdsManager)+"]}"),
		"a secret from the control plane":   changed(t, "$fixed", tlsFrom("{ads: {}}")),
		"a secret from a server":            secrets.applyTo(t, change{"", "$cluster", tlsFrom(apiSource)}.apply(t)),
	} {
		t.Run(name, func(t *testing.T) {
			shared, _, errShared := parse("b.yaml", text)
			view, got, errView := parse("b.yaml", text, ForView(shopView))
			if errShared != nil || errView != nil {
				t.Fatal(errShared, errView)
			}
			requireViewOnly(t, got)
			if !proto.Equal(shared.Asker(), view.Asker()) {
				t.Errorf("node: %v, in a view %v", shared.Asker(), view.Asker())
			}
			if shared.Dynamic == nil {
				return
			}
			if view.Dynamic.Node.GetId() == "" || !proto.Equal(shared.Dynamic.Node, view.Dynamic.Node) || !reflect.DeepEqual(shared.Dynamic, view.Dynamic) {
				t.Errorf("asks %+v, in a view %+v", shared.Dynamic, view.Dynamic)
			}
		})
	}
}

// Without a node of its own a view would be another one to its control plane.
func TestAViewsControlPlaneIsToldWhoAsks(t *testing.T) {
	for _, node := range []string{"null", "{id: a, cluster: null}", "{id: null, cluster: b}"} {
		_, err := ParseBootstrap("b.yaml", changed(t, "", "{node: "+node+"}"), ForView(shopView))
		if err == nil || !strings.Contains(err.Error(), "b.yaml: node: needs id and cluster") || !strings.Contains(err.Error(), "add them here: a view's node is that of its own bootstrap") {
			t.Errorf("node %s: %v", node, err)
		}
	}
}

func TestTheSharedViewChangesNothing(t *testing.T) {
	text := viewRefusals[0].apply(t)
	want, err := Parse("f.yaml", text)
	got, errOfView := Parse("f.yaml", text, ForView(model.View{}))
	if err != nil || errOfView != nil {
		t.Fatal(err, errOfView)
	}
	requireSame(t, want, got)
}

// viewFiles are the bootstrap of a view with all that files may hold.
func viewFiles(t *testing.T) (dir string, write func(file, text string)) {
	t.Helper()
	dir = t.TempDir()
	write = func(file, text string) {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(strings.ReplaceAll(text, "@/", dir+"/")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("envoy.yaml", fromTwoFiles)
	write("cds.yaml", "resources: [{"+clusterIs+", name: shop, type: EDS, eds_cluster_config: {eds_config: {path_config_source: {path: @/eds.yaml}}}}, {"+clusterIs+", name: through, type: ORIGINAL_DST, lb_policy: CLUSTER_PROVIDED}]\n")
	write("eds.yaml", "resources: {'@type': type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment, cluster_name: shop, "+
		"endpoints: {lb_endpoints: {endpoint: {address: {socket_address: {address: 127.0.0.7, port_value: 7}}}}}}\n")
	write("lds.yaml", "resources: ["+listenerAt("web", "127.80.0.1", "@/rds.yaml")+"]\n")
	write("rds.yaml", "resources: {'@type': type.googleapis.com/envoy.config.route.v3.RouteConfiguration, name: table, virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: shop}}]}]}\n")
	return dir, write
}

func TestFilesOfAViewAreTheViews(t *testing.T) {
	dir, write := viewFiles(t)
	check := func() (*model.Config, error) {
		b, err := LoadBootstrap(filepath.Join(dir, "envoy.yaml"), ForView(shopView))
		if err != nil {
			t.Fatal(err)
		}
		return b.CheckFiles()
	}
	cfg, err := check()
	if err != nil {
		t.Fatal(err)
	}
	if shop := cfg.In(shopView).Cluster("shop"); shop == nil || len(shop.Endpoints) != 1 || cfg.In(shopView).Cluster("through") == nil || len(cfg.Listeners) != 1 {
		t.Errorf("%+v", cfg)
	}
	requireViewOnly(t, cfg)

	for _, tt := range []struct{ file, text, want string }{
		{"lds.yaml", "resources: [" + listenerAt("web", "0.0.0.0", "@/rds.yaml") + "]\n", "lds.yaml: resources[0].address: 0.0.0.0:80 takes connections from outside"},
	} {
		write(tt.file, tt.text)
		if _, err := check(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.file, err, tt.want)
		}
		write("lds.yaml", "resources: []\n")
	}
}

// Each view reads its secrets for itself, so that a connection which one of them has secured is not another's.
func TestWhatSecuresEndpointsIsToldApartByItsView(t *testing.T) {
	text := change{"", "$cluster", tlsFrom("{path_config_source: {path: /sds.yaml}}")}.apply(t)
	keys := map[string]string{}
	for _, v := range []model.View{{}, shopView, {Number: 8, Name: "shop-api"}} {
		for range 2 {
			b, cfg, err := parse("f.yaml", text, ForView(v))
			if err != nil {
				t.Fatal(err)
			}
			key := cfg.In(v).Cluster("a").Sockets[0].Key
			if other, known := keys[key]; known && other != v.Name {
				t.Errorf("views %q and %q have the key %s", other, v.Name, key)
			}
			keys[key] = v.Name
			body, err := anypb.New(b.message.GetStaticResources().GetClusters()[0])
			if err != nil {
				t.Fatal(err)
			}
			if warming := b.Secured(body); len(warming) != 1 || warming[0].Key != key {
				t.Errorf("view %q: %v while it warms, want the key %s", v.Name, warming, key)
			}
		}
	}
	if len(keys) != 3 {
		t.Errorf("got %v, want one key for each view", slices.Sorted(maps.Keys(keys)))
	}
}
