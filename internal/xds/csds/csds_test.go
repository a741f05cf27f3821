// SPDX-License-Identifier: Apache-2.0

package csds_test

import (
	"net"
	"net/http"
	"testing"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/xlb-project/xlb/internal/xds"
	"github.com/xlb-project/xlb/internal/xds/csds"
)

var (
	accepted = time.Unix(1000, 0)
	refused  = time.Unix(2000, 0)
	old      = &anypb.Any{TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster", Value: []byte("\n\x04shop")}
	newer    = &anypb.Any{TypeUrl: "type.googleapis.com/envoy.config.cluster.v3.Cluster", Value: []byte("\n\x04newe")}
)

func resources() []csds.Resource {
	return []csds.Resource{
		{Kind: xds.Clusters, ResourceStatus: xds.ResourceStatus{
			Name: "shop", Version: "1", Body: old, LastUpdate: accepted, State: xds.Nacked, FailedVersion: "2", FailedBody: newer, Error: "lb_policy: not supported", FailedAt: refused,
		}},
		{Kind: xds.Routes, ResourceStatus: xds.ResourceStatus{Name: "table", State: xds.Requested}},
	}
}

func clients() []csds.Client {
	return []csds.Client{
		{Node: &corev3.Node{Id: "node-1"}, Resources: resources},
		{Node: &corev3.Node{Id: "node-2"}, Scope: "shop", Resources: func() []csds.Resource { return resources()[1:] }},
	}
}

// serverTimeout is shorter than a stream lasts.
const serverTimeout = 50 * time.Millisecond

func serve(t *testing.T) statusv3.ClientStatusDiscoveryServiceClient {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("POST "+csds.Path, csds.NewHandler(clients))
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: mux, Protocols: protocols, ReadTimeout: serverTimeout, WriteTimeout: serverTimeout}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		_ = s.Close()
	})
	return statusv3.NewClientStatusDiscoveryServiceClient(conn)
}

func want(contents bool) []*statusv3.ClientConfig_GenericXdsConfig {
	shop := &statusv3.ClientConfig_GenericXdsConfig{
		TypeUrl: xds.Clusters.TypeURL(), Name: "shop", VersionInfo: "1", LastUpdated: timestamppb.New(accepted),
		ConfigStatus: statusv3.ConfigStatus_ERROR, ClientStatus: adminv3.ClientResourceStatus_NACKED,
		ErrorState: &adminv3.UpdateFailureState{Details: "lb_policy: not supported", VersionInfo: "2", LastUpdateAttempt: timestamppb.New(refused)},
	}
	if contents {
		shop.XdsConfig, shop.ErrorState.FailedConfiguration = old, newer
	}
	table := &statusv3.ClientConfig_GenericXdsConfig{TypeUrl: xds.Routes.TypeURL(), Name: "table", ClientStatus: adminv3.ClientResourceStatus_REQUESTED}
	return []*statusv3.ClientConfig_GenericXdsConfig{shop, table}
}

func TestFetch(t *testing.T) {
	client := serve(t)
	for _, contents := range []bool{true, false} {
		out, err := client.FetchClientStatus(t.Context(), &statusv3.ClientStatusRequest{ExcludeResourceContents: !contents})
		if err != nil {
			t.Fatal(err)
		}
		wanted := []*statusv3.ClientConfig{
			{Node: &corev3.Node{Id: "node-1"}, GenericXdsConfigs: want(contents)},
			{Node: &corev3.Node{Id: "node-2"}, ClientScope: "shop", GenericXdsConfigs: want(contents)[1:]},
		}
		if diff := cmp.Diff(wanted, out.GetConfig(), protocmp.Transform()); diff != "" {
			t.Errorf("contents %t (-want +got):\n%s", contents, diff)
		}
	}
}

func TestStreamAnswersEachRequest(t *testing.T) {
	stream, err := serve(t).StreamClientStatus(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := stream.Send(&statusv3.ClientStatusRequest{}); err != nil {
			t.Fatal(err)
		}
		out, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want(true), out.GetConfig()[0].GetGenericXdsConfigs(), protocmp.Transform()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		time.Sleep(serverTimeout) // the deadlines of the server pass
	}
}

func TestMatchersAreRefused(t *testing.T) {
	_, err := serve(t).FetchClientStatus(t.Context(), &statusv3.ClientStatusRequest{NodeMatchers: []*matcherv3.NodeMatcher{{}}})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("a request with matchers: %v, want InvalidArgument", err)
	}
}
