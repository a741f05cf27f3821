// SPDX-License-Identifier: Apache-2.0

package istiod

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/test/e2e/harness"
)

// istiod's view for gRPC clients without a sidecar has clusters for those alone who name them, and says nothing of the TLS that an endpoint expects. XLB, which asks
// for all clusters, would have none; and one that it asked for by name it would speak to in plain text. So it refuses to ask for this view.
func TestViewForGRPCClientsIsRefused(t *testing.T) {
	place := harness.SameHost(t)
	c := startIstiod(t, place, emptyKubernetes(t), "testdata/mesh-mtls.yaml", true)
	const port = "1"
	c.configure(t, "shop.yaml", map[string]string{"A": port, "B": port, "C": port, "NOBODY": port})
	c.configure(t, "meshed.yaml", map[string]string{"MESH": port})
	harness.Eventually(t, patience, "istiod has read its files", func() bool { return len(c.log.lines("Full push, new service")) >= 5 })
	time.Sleep(time.Second) // istiod gathers what changes for 100 ms

	const cluster, routes = "outbound|9080||meshed.default.svc.cluster.local", "outbound|9080||shop.default.svc.cluster.local"
	all := asGRPC(t, c, resource.ListenerType, nil, resource.ClusterType, nil, resource.RouteType, []string{routes})
	requireListeners(t, all[resource.ListenerType])
	if n := len(all[resource.ClusterType]); n != 0 {
		t.Errorf("istiod has %d clusters for who asks for all: the reason of the refusal has gone", n)
	}
	table := &routev3.RouteConfiguration{}
	unpack(t, all[resource.RouteType], table)
	if table.GetName() != routes || len(table.GetVirtualHosts()) != 1 {
		t.Errorf("routes: got %s with %d virtual hosts", table.GetName(), len(table.GetVirtualHosts()))
	}

	named := asGRPC(t, c, resource.ClusterType, []string{cluster}, resource.EndpointType, []string{cluster})
	got, assigned := &clusterv3.Cluster{}, &endpointv3.ClusterLoadAssignment{}
	unpack(t, named[resource.ClusterType], got)
	unpack(t, named[resource.EndpointType], assigned)
	if got.GetTransportSocket() != nil || len(got.GetTransportSocketMatches()) > 0 {
		t.Errorf("istiod says how TLS is made: %s", protojson.Format(got))
	}
	if text := protojson.Format(assigned); !strings.Contains(text, "tlsMode") {
		t.Errorf("the endpoint does not expect TLS: %s", text)
	}
	requireRefused(t, c)
}

// requireListeners demands one for each service, at its address, and with nothing that Envoy would serve at a socket.
func requireListeners(t *testing.T, all []*anypb.Any) {
	t.Helper()
	addresses := map[string]string{}
	for _, body := range all {
		l, manager := &listenerv3.Listener{}, &hcmv3.HttpConnectionManager{}
		unpack(t, []*anypb.Any{body}, l)
		unpack(t, []*anypb.Any{l.GetApiListener().GetApiListener()}, manager)
		addresses[l.GetName()] = l.GetAddress().GetSocketAddress().GetAddress()
		if len(l.GetFilterChains()) > 0 || manager.GetRds() == nil {
			t.Errorf("listener %s", protojson.Format(l))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(addresses)) {
		t.Logf("listener %s at %s", name, addresses[name])
	}
	for name, want := range map[string]string{shop + ":9080": "240.0.0.10", "meshed.default.svc.cluster.local:9080": "240.0.0.20"} {
		if addresses[name] != want {
			t.Errorf("listener %s: got %q, want %s", name, addresses[name], want)
		}
	}
}

// asGRPC asks as a gRPC client does, for kinds and names in turn; no names: for all. It ends with the first answer of the last kind, which comes behind the others.
func asGRPC(t *testing.T, c *control, asked ...any) map[string][]*anypb.Any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+c.grpc.String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(c.dial))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev3.Node{}
	fields, err := json.Marshal(grpcNode(c))
	if err == nil {
		err = protojson.Unmarshal(fields, node)
	}
	last := ""
	for i := 0; i < len(asked) && err == nil; i += 2 {
		kind, _ := asked[i].(string)
		names, _ := asked[i+1].([]string)
		err = stream.Send(&discoveryv3.DiscoveryRequest{Node: node, TypeUrl: kind, ResourceNames: names})
		last = kind
	}
	out := map[string][]*anypb.Any{}
	for err == nil && out[last] == nil {
		var r *discoveryv3.DiscoveryResponse
		if r, err = stream.Recv(); err == nil {
			out[r.GetTypeUrl()] = append(out[r.GetTypeUrl()], r.GetResources()...)
		}
	}
	if err != nil {
		t.Fatalf("%v; istiod said:\n%s", err, c.Stderr())
	}
	return out
}

// grpcNode is a node that asks for the view.
func grpcNode(c *control) object {
	node := c.bootstrap("xlb").Fields["node"].(object)
	node["metadata"].(object)["GENERATOR"] = "grpc"
	return node
}

// unpack decodes the only resource.
func unpack(t *testing.T, all []*anypb.Any, into proto.Message) {
	t.Helper()
	if len(all) != 1 {
		t.Fatalf("%T: got %d resources, want 1", into, len(all))
	}
	if err := all[0].UnmarshalTo(into); err != nil {
		t.Fatal(err)
	}
}

// requireRefused has XLB look at a bootstrap that asks for the view.
func requireRefused(t *testing.T, c *control) {
	t.Helper()
	config := c.bootstrap("xlb").Fields
	config["node"] = grpcNode(c)
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "xlb.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(harness.Binary(t), "check", "--config", file).CombinedOutput()
	if err == nil || !strings.Contains(string(said), "node.metadata.GENERATOR: istiod's view for gRPC clients") {
		t.Errorf("xlb check: %v: %s", err, said)
	}
}
