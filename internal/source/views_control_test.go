// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	controlplane "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/certtest"
)

// plane is a control plane that has other resources for each node, and says nothing to a node that it has none for.
type plane struct {
	address string
	cache   cache.SnapshotCache

	mu sync.Mutex
	// asked are the nodes that have asked, by type URL; refused are error details by node. Guarded by mu.
	asked   map[string]map[string]bool
	refused map[string][]string
}

func newPlane(t *testing.T) *plane {
	t.Helper()
	p := &plane{cache: cache.NewSnapshotCache(true, cache.IDHash{}, nil), asked: map[string]map[string]bool{}, refused: map[string][]string{}}
	server := grpc.NewServer()
	nodes := map[int64]string{}
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, controlplane.NewServer(t.Context(), p.cache, controlplane.CallbackFuncs{
		StreamRequestFunc: func(stream int64, r *discoveryv3.DiscoveryRequest) error {
			p.mu.Lock()
			defer p.mu.Unlock()
			if id := r.GetNode().GetId(); id != "" {
				nodes[stream] = id
			}
			node := nodes[stream]
			if p.asked[r.GetTypeUrl()] == nil {
				p.asked[r.GetTypeUrl()] = map[string]bool{}
			}
			p.asked[r.GetTypeUrl()][node] = true
			if fault := r.GetErrorDetail().GetMessage(); fault != "" {
				p.refused[node] = append(p.refused[node], fault)
			}
			return nil
		},
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.address = l.Addr().String()
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return p
}

// nodes have asked for resources of a type, sorted.
func (p *plane) nodes(typeURL string) (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for node := range p.asked[typeURL] {
		all = append(all, node)
	}
	slices.Sort(all)
	return all
}

func (p *plane) refusals(node string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.refused[node])
}

// say gives a node these resources, by type URL.
func (p *plane) say(t *testing.T, node, version string, all map[string][]types.Resource) {
	t.Helper()
	for _, kind := range []string{resource.ClusterType, resource.ListenerType} {
		all[kind] = append([]types.Resource{}, all[kind]...) // an empty list is an answer, too
	}
	snapshot, err := cache.NewSnapshot(version, all)
	if err == nil {
		err = p.cache.SetSnapshot(t.Context(), node, snapshot)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// toPort are the resources of a node: its cluster b, as that of ofView, has its endpoint at that port.
func toPort(t *testing.T, port int) map[string][]types.Resource {
	t.Helper()
	return map[string][]types.Resource{resource.ClusterType: {message[*clusterv3.Cluster](t, fmt.Sprintf("{name: b, connect_timeout: 1s, type: STATIC, load_assignment: "+
		"{cluster_name: b, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 10.0.0.2, port_value: %d}}}}]}]}}", port))}}
}

// message reads one in YAML.
func message[M proto.Message](t *testing.T, text string) M {
	t.Helper()
	var zero M
	m := zero.ProtoReflect().New().Interface()
	body, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = protojson.Unmarshal(body, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m.(M)
}

// fromServer is a bootstrap that has all from a control plane.
const fromServer = `
node: {id: %q, cluster: all}
dynamic_resources:
  ads_config: {api_type: GRPC, transport_api_version: V3, grpc_services: [{envoy_grpc: {cluster_name: control}}]}
  cds_config: {ads: {}, resource_api_version: V3, initial_fetch_timeout: %s}
  lds_config: {ads: {}, resource_api_version: V3, initial_fetch_timeout: %s}
static_resources:
  clusters:
  - name: control
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment: {cluster_name: control, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %s}}}}]}]}
`

// controlled are the sources of the shared view, which is in a file, and of views that have a control plane, each with its name as its node's id.
type controlled struct {
	t *testing.T
	*Sources

	log lockedBuffer
	mu  sync.Mutex
	// active is what was put in force last. Guarded by mu.
	active *model.Config
}

type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// patience of each view, by its name, is its initial_fetch_timeout.
func newControlled(t *testing.T, p *plane, patience map[string]string) *controlled {
	t.Helper()
	c := &controlled{t: t}
	_, port, err := net.SplitHostPort(p.address)
	if err != nil {
		t.Fatal(err)
	}
	load := func(v model.View, text []byte) *Bootstrap {
		b, err := Load(t.Context(), File{View: v, Path: v.Name + ".yaml", Text: text})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	shared := load(model.View{}, fmt.Appendf(nil, ofView, 8000))
	var others []*Bootstrap
	for i, name := range []string{"blue", "red"} {
		others = append(others, load(model.View{Number: uint32(i) + 1, Name: name}, fmt.Appendf(nil, fromServer, name, patience[name], patience[name], port)))
	}
	var running sync.WaitGroup
	c.Sources = NewSources(Config{
		Logger: slog.New(slog.NewTextHandler(&c.log, nil)), Cluster: c.activeOf, Spawn: func(f func()) { running.Go(f) },
		Activate: func(cfg *model.Config) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.active = cfg
			return nil
		},
	}, shared, others...)
	if err := c.Activate(); err != nil {
		t.Fatal(err)
	}
	c.Begin(shared, others...)
	ctx, cancel := context.WithCancel(t.Context())
	c.Start(ctx)
	t.Cleanup(func() {
		cancel()
		c.Stop()
		c.Close()
		running.Wait()
	})
	return c
}

// activeOf is a cluster of a view as it was put in force.
func (c *controlled) activeOf(v model.View, name string) *model.Cluster {
	if active := c.last(); active != nil {
		return active.In(v).Cluster(name)
	}
	return nil
}

func (c *controlled) last() *model.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.active
}

// awaitPorts waits until the clusters b of views have endpoints at these ports, and no other view has one.
func (c *controlled) awaitPorts(want map[string]uint16) {
	c.t.Helper()
	await.Within(c.t, await.Patience, func() string {
		if got := ports(c.last()); fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Sprintf("ports %v, want %v", got, want)
		}
		return ""
	})
}

// Each view is a node of its own: one server has something else for each under the same name, and what it changes for one changes nothing of another.
func TestAViewGetsFromAControlPlaneWhatItsOwnNodeGets(t *testing.T) {
	p := newPlane(t)
	p.say(t, "blue", "1", toPort(t, 8100))
	p.say(t, "red", "1", toPort(t, 8200))
	c := newControlled(t, p, map[string]string{"blue": "0s", "red": "0s"})
	c.Await(t.Context(), func(error) {})
	c.awaitPorts(map[string]uint16{"": 8000, "blue": 8100, "red": 8200})
	if got := p.nodes(resource.ClusterType); !slices.Equal(got, []string{"blue", "red"}) {
		t.Errorf("the nodes %v have asked, want that of each view", got)
	}
	red := c.last().In(model.View{Number: 2, Name: "red"}).Cluster("b")
	p.say(t, "blue", "2", toPort(t, 9100))
	c.awaitPorts(map[string]uint16{"": 8000, "blue": 9100, "red": 8200})
	if now := c.last().In(model.View{Number: 2, Name: "red"}).Cluster("b"); now != red {
		t.Error("the other view has another cluster now")
	}
	versions := map[string]string{}
	for _, o := range c.Origins() {
		if o.Kind == "clusters" {
			versions[o.View] = o.Version
		}
	}
	if want := map[string]string{"blue": "2", "red": "1"}; fmt.Sprint(versions) != fmt.Sprint(want) {
		t.Errorf("versions %v, want %v", versions, want)
	}
	if stats := c.DynamicStats(); stats["control_plane.connected_state"] != 1 || stats["cluster_manager.cds.update_success"] != 3 {
		t.Errorf("statistics of all views: %v", stats)
	}
}

// What is refused of one view's control plane is refused to that view's node, and shown of that view; another view's is taken as before.
func TestARefusalOfOneViewsControlPlaneIsNoOtherViews(t *testing.T) {
	p, c := newBlueAndRed(t)
	wrong := toPort(t, 9100)
	wrong[resource.ClusterType][0].(*clusterv3.Cluster).LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	p.say(t, "blue", "2", wrong)
	await.Within(t, await.Patience, func() string {
		if len(p.refusals("blue")) == 0 {
			return "nothing is refused"
		}
		return ""
	})
	p.say(t, "red", "2", toPort(t, 9200))
	c.awaitPorts(map[string]uint16{"": 8000, "blue": 8100, "red": 9200})
	if got := p.refusals("red"); len(got) != 0 {
		t.Errorf("refused to the other node: %q", got)
	}
	refused := map[string]*admin.Refusal{}
	for _, o := range c.Origins() {
		if o.Refusal != nil {
			refused[o.View+" "+o.Kind] = o.Refusal
		}
	}
	if len(refused) != 1 || refused["blue clusters"] == nil {
		t.Errorf("refused: %v, want clusters of view blue", refused)
	}
}

// A view whose server says nothing has nothing in force, and is waited for as long as its own initial_fetch_timeout; those beside it have theirs at once.
func TestAViewWithASilentServerIsWaitedForInItsOwnTime(t *testing.T) {
	p := newPlane(t)
	p.say(t, "blue", "1", toPort(t, 8100))
	c := newControlled(t, p, map[string]string{"blue": "0s", "red": "0.2s"})
	var last error
	c.Await(t.Context(), func(err error) { last = err })
	c.awaitPorts(map[string]uint16{"": 8000, "blue": 8100})
	if want := "view red: starting: waiting for clusters and listeners from " + p.address; last == nil || last.Error() != want {
		t.Errorf("the last report is %v, want %s", last, want)
	}
	if text := c.log.String(); !strings.Contains(text, "going on without a part of the configuration") || !strings.Contains(text, "view=red") {
		t.Errorf("the log says\n%s", text)
	}
	p.say(t, "red", "1", toPort(t, 8200))
	c.awaitPorts(map[string]uint16{"": 8000, "blue": 8100, "red": 8200})
}

// No view keeps others waiting without end, whatever its bootstrap says; the shared one, which is the daemon's own, does.
func TestTheStartWaitsForOtherViewsForALimitedTime(t *testing.T) {
	const forEver = "node: {id: a, cluster: b}\ndynamic_resources: {lds_config: {resource_api_version: V3, path_config_source: {path: /nowhere}, initial_fetch_timeout: 0s}}\n"
	inFile := fmt.Sprintf(ofView, 8000)
	for _, tt := range []struct {
		name         string
		shared, blue string
		waits        bool
	}{
		{"for another view", inFile, forEver, false},
		{"for the shared view", forEver, inFile, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				load := func(v model.View, text string) *Bootstrap {
					b, err := Load(t.Context(), File{View: v, Path: "b.yaml", Text: []byte(text)})
					if err != nil {
						t.Fatal(err)
					}
					return b
				}
				shared, blue := load(model.View{}, tt.shared), load(model.View{Number: 1, Name: "blue"}, tt.blue)
				s := NewSources(Config{Logger: slog.New(slog.DiscardHandler), Activate: func(*model.Config) error { return nil }}, shared, blue)
				defer s.Close()
				s.Begin(shared, blue)
				defer s.Stop()
				ctx, cancel := context.WithTimeout(t.Context(), 100*viewPatience)
				defer cancel()
				begun := time.Now()
				s.Await(ctx, func(error) {})
				if took := time.Since(begun); tt.waits && ctx.Err() == nil || !tt.waits && took != viewPatience {
					t.Errorf("waited for %s", took)
				}
			})
		})
	}
}

// Who a view is to its control plane stays until the daemon starts anew: its stream goes on under the node that it has named.
func TestAViewsNodeStaysUntilARestart(t *testing.T) {
	p, c := newBlueAndRed(t)
	_, port, err := net.SplitHostPort(p.address)
	if err != nil {
		t.Fatal(err)
	}
	blue := c.of("blue")
	for node, want := range map[string]error{"blue": nil, "red": errOtherSources} {
		b, err := Load(t.Context(), File{View: blue.cfg.File.View, Path: "blue.yaml", Text: fmt.Appendf(nil, fromServer, node, "0s", "0s", port)})
		if err != nil {
			t.Fatal(err)
		}
		if err := blue.replaceBootstrap(b); !errors.Is(err, want) {
			t.Errorf("as node %s: got %v, want %v", node, err, want)
		}
	}
	p.say(t, "blue", "2", toPort(t, 9100))
	c.awaitPorts(map[string]uint16{"": 8000, "blue": 9100, "red": 8200})
}

// Secrets of one name of two views are two: each comes by its own view's stream, to its own view's connections.
func TestSecretsOfOneNameAreEachViewsOwn(t *testing.T) {
	p := newPlane(t)
	authorities := map[string]string{}
	secured := func(view string, port int) {
		authority := certtest.Sign(t, certtest.Authority(), nil)
		authorities[view] = authority.PEM()
		all := toPort(t, port)
		all[resource.ClusterType][0].(*clusterv3.Cluster).TransportSocket = message[*corev3.TransportSocket](t, "{name: tls, typed_config: {'@type': "+
			"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, common_tls_context: {validation_context_sds_secret_config: {name: default, sds_config: {ads: {}, resource_api_version: V3}}}}}")
		all[resource.SecretType] = []types.Resource{&tlsv3.Secret{Name: "default", Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
			TrustedCa: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: authority.PEM()}},
		}}}}
		p.say(t, view, "of "+view, all)
	}
	secured("blue", 8100)
	secured("red", 8200)
	c := newControlled(t, p, map[string]string{"blue": "0s", "red": "0s"})
	c.awaitPorts(map[string]uint16{"": 8000, "blue": 8100, "red": 8200})
	if got := p.nodes(resource.SecretType); !slices.Equal(got, []string{"blue", "red"}) {
		t.Errorf("the nodes %v have asked for secrets, want that of each view", got)
	}
	keys := map[string]bool{}
	for _, cl := range c.last().Clusters {
		if cl.Name != "b" || cl.View.Name == "" {
			continue
		}
		socket := cl.Sockets[0]
		keys[socket.Key] = true
		held := c.of(socket.View).secrets.Store().Held()
		if socket.View != cl.View.Name || len(held) != 1 || held[0].Secret == nil || held[0].Version != "of "+cl.View.Name {
			t.Fatalf("%s: view %q holds %+v", cl.Key(), socket.View, held)
		}
		if got := held[0].Secret.Validation.CA; string(got.Inline) != authorities[cl.View.Name] {
			t.Errorf("%s: another view's authority", cl.Key())
		}
	}
	if len(keys) != 2 {
		t.Errorf("connections of both views have the keys %v, want two", keys)
	}
	_, secrets := c.Subscriptions()
	if len(secrets) != 2 {
		t.Errorf("%d subscriptions of secrets, want 2, which the metrics join", len(secrets))
	}
}

// Tools see each view as a client of its own, by its name and its node.
func TestEachViewIsAClientOfItsControlPlane(t *testing.T) {
	_, c := newBlueAndRed(t)
	server := httptest.NewUnstartedServer(c.WithClientStatus(http.NotFoundHandler()))
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	conn, err := grpc.NewClient(server.Listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	out, err := statusv3.NewClientStatusDiscoveryServiceClient(conn).FetchClientStatus(t.Context(), &statusv3.ClientStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, client := range out.GetConfig() {
		one := client.GetClientScope() + "=" + client.GetNode().GetId()
		for _, r := range client.GetGenericXdsConfigs() {
			cluster := &clusterv3.Cluster{}
			if r.GetName() != "b" || r.GetXdsConfig().UnmarshalTo(cluster) != nil {
				continue
			}
			one += fmt.Sprint(" ", cluster.GetLoadAssignment().GetEndpoints()[0].GetLbEndpoints()[0].GetEndpoint().GetAddress().GetSocketAddress().GetPortValue())
		}
		got = append(got, one)
	}
	if want := []string{"blue=blue 8100", "red=red 8200"}; !slices.Equal(got, want) {
		t.Errorf("clients %q, want %q", got, want)
	}
}
