// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"

	"github.com/xlb-project/xlb/internal/config/schema"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/golden"
)

const dynamicBase = `
node: {id: "1", cluster: c}
dynamic_resources:
  ads_config: {api_type: GRPC, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: control}}]}
  cds_config: {ads: {}, resource_api_version: V3}
  lds_config: {ads: {}, resource_api_version: V3}
static_resources:
  clusters:
  - name: control
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment: {cluster_name: control, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 18000}}}}]}]}
  - name: fixed
    load_assignment: {cluster_name: fixed, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 9}}}}]}]}
`

func dynamicBootstrap(t *testing.T) *Bootstrap {
	t.Helper()
	b, err := ParseBootstrap("b.yaml", []byte(dynamicBase))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// anyType decodes types that are not linked in as messages without fields.
type anyType struct{ *protoregistry.Types }

func (r anyType) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if m, err := protoregistry.GlobalTypes.FindMessageByURL(url); err == nil {
		return m, nil
	}
	full := protoreflect.FullName(url[strings.LastIndex(url, "/")+1:])
	pkg, name := string(full.Parent()), string(full.Name())
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: &url, Package: &pkg, MessageType: []*descriptorpb.DescriptorProto{{Name: &name}},
	}, nil)
	if err != nil {
		return nil, err
	}
	return dynamicpb.NewMessageType(file.Messages().Get(0)), nil
}

func (r anyType) FindMessageByName(protoreflect.FullName) (protoreflect.MessageType, error) {
	return nil, protoregistry.NotFound
}

// resource makes one of YAML or JSON, as a server would send it.
func resource(t *testing.T, kind Kind, text []byte) *anypb.Any {
	t.Helper()
	text, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	m := kind.newMessage()
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true, Resolver: anyType{}}).Unmarshal(text, m); err != nil {
		t.Fatal(err)
	}
	body, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

var kindsByFile = map[string]Kind{"Cluster": Clusters, "ClusterLoadAssignment": Assignments, "Listener": Listeners, "RouteConfiguration": Routes}

// What real control planes send, as sniffed from istiod 1.29 ("plain": without Istio's own filters and mutual TLS), Envoy Gateway 1.9.1, and
// istiod of what becomes 1.31 for sidecars without redirection (test/istiod; "upstream": likewise plain).
func TestResourcesOfRealControlPlanes(t *testing.T) {
	files, err := filepath.Glob("testdata/resources/*.json")
	if err != nil {
		t.Fatal(err)
	}
	b := dynamicBootstrap(t)
	var got strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all := map[string]json.RawMessage{}
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatal(err)
		}
		parts := strings.Split(strings.TrimSuffix(filepath.Base(file), ".json"), ".")
		kind := kindsByFile[strings.Split(parts[len(parts)-1], "-")[0]]
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if strings.Contains(file, "Listener-0") {
				kind = Listeners
			}
			needs, err := b.CheckResource(kind, name, resource(t, kind, all[name]))
			got.WriteString("# " + strings.TrimPrefix(file, "testdata/resources/") + ": " + name + "\n")
			if err != nil {
				got.WriteString(err.Error() + "\n\n")
				continue
			}
			got.WriteString("accepted; refers to: " + strings.Join(needs.References, ", ") + "\n\n")
		}
	}
	golden.Compare(t, "testdata/resources.golden", got.String())
}

const managerType = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"

// httpListener is a listener whose connection manager has those fields.
func httpListener(name, address, manager string) string {
	return "{name: " + name + ", address: {socket_address: {address: " + address + ", port_value: 80}}, filter_chains: [{filters: [{name: h, typed_config: {'@type': " +
		managerType + ", stat_prefix: s, http_filters: [" + router + "], " + manager + "}}]}]}"
}

const (
	edsCluster = "{name: shop, type: EDS, eds_cluster_config: {service_name: shop-1, eds_config: {ads: {}, resource_api_version: V3}}}"
	shopHosts  = "{cluster_name: shop-1, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.7, port_value: 7}}}}," +
		"{endpoint: {address: {socket_address: {address: 127.0.0.7, port_value: 7}}}, load_balancing_weight: 3}]}]}"
	rdsManager = "rds: {route_config_name: table, config_source: {ads: {}, resource_api_version: V3}}"
	table      = "{name: table, virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /lost}, route: {cluster: nowhere, cluster_not_found_response_code: NOT_FOUND}}, {match: {prefix: /}, route: {cluster: shop}}]}]}"
)

// resourceRefusals are what a server is told about resources.
var resourceRefusals = []struct {
	name string
	kind Kind
	yaml string
}{
	{"another name", Clusters, "{name: other}"},
	{"a type of cluster that XLB lacks", Clusters, "{name: shop, cluster_type: {name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.clusters.aggregate.v3.ClusterConfig, clusters: [a]}}}"},
	{"a filter of connections to endpoints", Clusters, "{name: shop, filters: [{name: x, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}]}"},
	{"metadata exchange by another protocol", Clusters, "{name: shop, filters: [{name: x, typed_config: {'@type': type.googleapis.com/udpa.type.v1.TypedStruct, type_url: type.googleapis.com/envoy.tcp.metadataexchange.config.MetadataExchange, value: {protocol: other}}}]}"},
	{"a filter of connections that is asked for", Clusters, "{name: shop, filters: [{name: x, config_discovery: {}}]}"},
	{"EDS by another protocol", Clusters, "{name: shop, type: EDS, eds_cluster_config: {eds_config: {api_config_source: {api_type: GRPC}}}}"},
	{"EDS without a source", Clusters, "{name: shop, type: EDS}"},
	{"EDS that is none", Clusters, "{name: shop, eds_cluster_config: {eds_config: {ads: {}}}}"},
	{"EDS with endpoints that stay", Clusters, "{name: shop, type: EDS, health_checks: [{" + everySecond + ", tcp_health_check: {}}], eds_cluster_config: {eds_config: {ads: {}}}}"},
	{"endpoint by name", Assignments, "{cluster_name: shop, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: localhost, port_value: 7}}}}]}]}"},
	{"endpoint weight 0", Assignments, "{cluster_name: shop, endpoints: [{lb_endpoints: [{load_balancing_weight: 0, endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 7}}}}]}]}"},
	{"scoped routes", Listeners, httpListener("shop", "127.0.0.1", "scoped_routes: {name: x}")},
	{"routes of nobody", Listeners, httpListener("shop", "127.0.0.1", "rds: {config_source: {ads: {}}}")},
	{"routes of itself", Listeners, httpListener("shop", "127.0.0.1", "rds: {route_config_name: x, config_source: {self: {}}}")},
	{"clusters validated", Routes, "{name: shop, validate_clusters: true}"},
	{"route to the control plane", Routes, "{name: shop, virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: control}}]}]}"},
	{"rate limits", Routes, "{name: shop, virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /}, route: {cluster: x, rate_limits: [{actions: [{remote_address: {}}]}]}}]}]}"},
	{"a header that a listener of the table may set", Routes, "{name: shop, virtual_hosts: [{name: v, domains: ['*'], routes: [{match: {prefix: /, headers: [{name: x-forwarded-proto, string_match: {exact: https}}]}, route: {cluster: x}}]}]}"},
	{"one domain twice", Routes, "{name: shop, virtual_hosts: [{name: v, domains: [a]}, {name: w, domains: [a]}]}"},
}

func TestRefusedResourcesAreToldByTheirFields(t *testing.T) {
	b := dynamicBootstrap(t)
	var got strings.Builder
	for _, c := range resourceRefusals {
		_, err := b.CheckResource(c.kind, "shop", resource(t, c.kind, []byte(c.yaml)))
		if err == nil {
			t.Errorf("%s: accepted", c.name)
			continue
		}
		got.WriteString("# " + c.name + "\n" + err.Error() + "\n\n")
	}
	golden.Compare(t, "testdata/resources_refused.golden", got.String())
}

func TestResourceOfAnotherTypeIsRefused(t *testing.T) {
	b := dynamicBootstrap(t)
	if _, err := b.CheckResource(Clusters, "shop", resource(t, Assignments, []byte(shopHosts))); err == nil {
		t.Error("an assignment was taken for a cluster")
	}
	if _, err := b.CheckResource(Clusters, "shop", &anypb.Any{TypeUrl: "type.googleapis.com/" + schema.ClusterMessage, Value: []byte{0xff}}); err == nil {
		t.Error("bytes that are no message were taken for a cluster")
	}
}

func TestReferencesOfResources(t *testing.T) {
	b := dynamicBootstrap(t)
	for _, c := range []struct {
		kind       Kind
		name, text string
		want       []string
		files      []File
	}{
		{Clusters, "shop", edsCluster, []string{"shop-1"}, nil},
		{Clusters, "shop", "{name: shop, type: EDS, eds_cluster_config: {eds_config: {ads: {}}}}", []string{"shop"}, nil},
		{Clusters, "shop", "{name: shop, type: EDS, eds_cluster_config: {eds_config: {path_config_source: {path: /x}}}}", nil, []File{{Kind: Assignments, Path: "/x"}}},
		{Clusters, "fixed", "{name: fixed, type: EDS}", nil, nil},
		{Listeners, "web", httpListener("web", "127.0.0.1", rdsManager), []string{"table"}, nil},
		{Routes, "table", table, nil, nil},
	} {
		got, err := b.CheckResource(c.kind, c.name, resource(t, c.kind, []byte(c.text)))
		if err != nil || !slices.Equal(got.References, c.want) || !slices.Equal(got.Files, c.files) {
			t.Errorf("%s: %v, %v; want %v and %v", c.text, got, err, c.want, c.files)
		}
	}
}

func bodiesOf(t *testing.T, kind Kind, texts map[string]string) map[string]*anypb.Any {
	t.Helper()
	out := map[string]*anypb.Any{}
	for name, text := range texts {
		out[name] = resource(t, kind, []byte(text))
	}
	return out
}

func TestAssembledConfigurationHasBothParts(t *testing.T) {
	b := dynamicBootstrap(t)
	r := Resources{
		Clusters:    bodiesOf(t, Clusters, map[string]string{"shop": edsCluster, "fixed": "{name: fixed, lb_policy: RANDOM}"}),
		Assignments: bodiesOf(t, Assignments, map[string]string{"shop-1": shopHosts}),
		Listeners:   bodiesOf(t, Listeners, map[string]string{"web": httpListener("web", "127.0.0.1", rdsManager), "bare": httpListener("bare", "127.0.0.2", strings.ReplaceAll(rdsManager, "table", "absent"))}),
		Routes:      bodiesOf(t, Routes, map[string]string{"table": table}),
	}
	var first *model.Config
	for range 2 { // the second time everything is known
		cfg, err := b.Assemble(r)
		if err != nil {
			t.Fatal(err)
		}
		first = cfg
		if cfg.Cluster(model.SharedCluster("control")) != nil {
			t.Error("the control plane's cluster is balanced")
		}
		if fixed := cfg.Cluster(model.SharedCluster("fixed")); fixed.Policy.String() != "ROUND_ROBIN" || len(fixed.Endpoints) != 1 {
			t.Errorf("the static cluster gave way to the dynamic one: %+v", fixed)
		}
		shop := cfg.Cluster(model.SharedCluster("shop"))
		if shop.Discovery.String() != "EDS" || len(shop.Endpoints) != 1 || shop.Endpoints[0].Weight != 1 {
			t.Errorf("endpoints of EDS: %+v", shop)
		}
		if len(cfg.Listeners) != 2 || len(cfg.Listeners[0].Routes.VirtualHosts) != 0 || cfg.Listeners[0].Routes.Name != "absent" {
			t.Fatalf("a listener without a route table: %+v", cfg.Listeners)
		}
		routes := cfg.Listeners[1].Routes.VirtualHosts[0].Routes
		if !routes[0].Clusters[0].Missing || routes[0].NotFound != 404 || routes[1].Clusters[0].Missing {
			t.Errorf("routes to clusters that are and are not there: %+v, %+v", routes[0], routes[1])
		}
	}
	again, err := b.Assemble(r)
	if err != nil || again.Cluster(model.SharedCluster("shop")) != first.Cluster(model.SharedCluster("shop")) || again.Listeners[1] != first.Listeners[1] {
		t.Errorf("what has not changed was made anew: %v", err)
	}
	r.Clusters["nowhere"] = resource(t, Clusters, []byte("{name: nowhere}"))
	if cfg, err := b.Assemble(r); err != nil || cfg.Listeners[1].Routes.VirtualHosts[0].Routes[0].Clusters[0].Missing {
		t.Errorf("a route to a cluster that has come: %v", err)
	}
	delete(r.Assignments, "shop-1")
	if cfg, err := b.Assemble(r); err != nil || len(cfg.Cluster(model.SharedCluster("shop")).Endpoints) != 0 {
		t.Errorf("without its assignment: %v, %v", cfg.Cluster(model.SharedCluster("shop")), err)
	}
}

func TestListenersThatCollideAreLeftOut(t *testing.T) {
	b := dynamicBootstrap(t)
	cfg, err := b.Assemble(Resources{Listeners: bodiesOf(t, Listeners, map[string]string{
		"a": httpListener("a", "127.0.0.1", rdsManager), "b": httpListener("b", "127.0.0.1", rdsManager),
	})})
	const want = `listeners["b"].address: 127.0.0.1:80 is the address of listeners["a"]; merge their virtual hosts`
	if err == nil || err.Error() != want || len(cfg.Listeners) != 1 {
		t.Errorf("%v, %v", cfg.Listeners, err)
	}
	cfg, err = b.Assemble(Resources{Listeners: bodiesOf(t, Listeners, map[string]string{
		"0": httpListener("\"0\"", "127.0.0.1", rdsManager), "a": httpListener("a", "127.0.0.1", rdsManager),
	})})
	if err == nil || len(cfg.Listeners) != 1 || cfg.Listeners[0].Name != "a" {
		t.Errorf("the listener that was there gave way to a new one: %v, %v", cfg.Listeners, err)
	}
}

func TestUnknownFieldsOfServersAreIgnored(t *testing.T) {
	b := dynamicBootstrap(t)
	body := resource(t, Clusters, []byte(edsCluster))
	body.Value = append(body.Value, 0xfa, 0xff, 0x3f, 1, 'x') // field 131071
	if _, err := b.CheckResource(Clusters, "shop", body); err != nil {
		t.Error(err)
	}
}

// FuzzCheckResource holds that bytes from a server are never more than refused, and that what passes can be assembled.
func FuzzCheckResource(f *testing.F) {
	files, err := filepath.Glob("testdata/resources/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		all := map[string]json.RawMessage{}
		if err := json.Unmarshal(text, &all); err != nil {
			f.Fatal(err)
		}
		parts := strings.Split(strings.TrimSuffix(filepath.Base(file), ".json"), ".")
		kind := kindsByFile[strings.Split(parts[len(parts)-1], "-")[0]]
		for _, one := range all {
			m := kind.newMessage()
			if (protojson.UnmarshalOptions{DiscardUnknown: true, Resolver: anyType{}}).Unmarshal(one, m) != nil {
				continue
			}
			if body, err := anypb.New(m); err == nil {
				f.Add(uint8(kind), body.Value)
			}
		}
	}
	b, err := ParseBootstrap("b.yaml", []byte(dynamicBase))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(_ *testing.T, number uint8, value []byte) {
		kind := Kind(number % kinds)
		m := kind.newMessage()
		if proto.Unmarshal(value, m) != nil {
			return
		}
		name := nameOf(m)
		body := &anypb.Any{TypeUrl: typePrefix + string(m.ProtoReflect().Descriptor().FullName()), Value: value}
		if _, err := b.CheckResource(kind, name, body); err != nil {
			return
		}
		r := Resources{}
		one := map[string]*anypb.Any{name: body}
		r.Clusters, r.Assignments, r.Listeners, r.Routes = map[string]*anypb.Any{}, one, map[string]*anypb.Any{}, one
		switch kind {
		case Clusters:
			r.Clusters, r.Assignments, r.Routes = one, nil, nil
		case Listeners:
			r.Listeners, r.Assignments, r.Routes = one, nil, nil
		case Assignments:
			r.Routes = nil
		case Routes:
			r.Assignments = nil
		}
		_, _ = b.Assemble(r)
	})
}

const typePrefix = "type.googleapis.com/"

// More endpoints than there is room for are refused by number, before anything is tried.
func TestTooManyEndpointsAreRefusedByNumber(t *testing.T) {
	var endpoints strings.Builder
	for i := range 17000 {
		fmt.Fprintf(&endpoints, "{endpoint: {address: {socket_address: {address: 10.0.%d.%d, port_value: 80}}}},", i>>8, i&255)
	}
	body := resource(t, Assignments, []byte("{cluster_name: shop, endpoints: [{lb_endpoints: ["+endpoints.String()+"]}]}"))
	_, err := dynamicBootstrap(t).CheckResource(Assignments, "shop", body)
	if err == nil || !strings.HasPrefix(err.Error(), "endpoints: 17000 endpoints; XLB has room for 16384") {
		t.Errorf("got %v", err)
	}
}
