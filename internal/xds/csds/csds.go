// SPDX-License-Identifier: Apache-2.0

// Package csds serves what is known of the resources of a control plane by gRPC: the Client Status Discovery Service, which tools for xDS
// clients read.
package csds

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/xlb-project/xlb/internal/xds"
)

// Path is the prefix of the service's methods over HTTP/2.
const Path = "/envoy.service.status.v3.ClientStatusDiscoveryService/"

// Resource is a resource with its kind.
type Resource struct {
	Kind xds.Kind
	xds.ResourceStatus
}

type server struct {
	statusv3.UnimplementedClientStatusDiscoveryServiceServer

	node      *corev3.Node
	resources func() []Resource
}

// NewHandler serves the resources of one client, which has told the control plane that it is node. Requests have to come by HTTP/2.
func NewHandler(node *corev3.Node, resources func() []Resource) http.Handler {
	s := grpc.NewServer()
	statusv3.RegisterClientStatusDiscoveryServiceServer(s, &server{node: node, resources: resources})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A stream may stay open, whatever time a page has. What has no deadlines needs none lifted.
		c := http.NewResponseController(w)
		_, _ = c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{})
		s.ServeHTTP(w, r)
	})
}

// FetchClientStatus answers once.
func (s *server) FetchClientStatus(_ context.Context, in *statusv3.ClientStatusRequest) (*statusv3.ClientStatusResponse, error) {
	return s.answer(in)
}

// StreamClientStatus answers each request of the stream.
func (s *server) StreamClientStatus(stream statusv3.ClientStatusDiscoveryService_StreamClientStatusServer) error {
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		out, err := s.answer(in)
		if err != nil {
			return err
		}
		if err := stream.Send(out); err != nil {
			return err
		}
	}
}

func (s *server) answer(in *statusv3.ClientStatusRequest) (*statusv3.ClientStatusResponse, error) {
	if len(in.GetNodeMatchers()) > 0 {
		return nil, status.Error(codes.InvalidArgument, "node_matchers: not supported: there is one client here; leave the field out")
	}
	client := &statusv3.ClientConfig{Node: s.node}
	for _, r := range s.resources() {
		client.GenericXdsConfigs = append(client.GenericXdsConfigs, describe(&r, in.GetExcludeResourceContents()))
	}
	return &statusv3.ClientStatusResponse{Config: []*statusv3.ClientConfig{client}}, nil
}

// configStatus is the control plane's side of a state; a client does not know what the server has not sent.
var configStatus = map[xds.State]statusv3.ConfigStatus{
	xds.Acked: statusv3.ConfigStatus_SYNCED, xds.Nacked: statusv3.ConfigStatus_ERROR,
}

func describe(r *Resource, bare bool) *statusv3.ClientConfig_GenericXdsConfig {
	out := &statusv3.ClientConfig_GenericXdsConfig{
		TypeUrl: r.Kind.TypeURL(), Name: r.Name, VersionInfo: r.Version,
		ClientStatus: adminv3.ClientResourceStatus(r.State), ConfigStatus: configStatus[r.State],
	}
	if !r.LastUpdate.IsZero() {
		out.LastUpdated = timestamppb.New(r.LastUpdate)
	}
	if r.Error != "" {
		out.ErrorState = &adminv3.UpdateFailureState{Details: r.Error, VersionInfo: r.FailedVersion, LastUpdateAttempt: timestamppb.New(r.FailedAt)}
	}
	if bare {
		return out
	}
	out.XdsConfig = r.Body
	if out.ErrorState != nil {
		out.ErrorState.FailedConfiguration = r.FailedBody
	}
	return out
}
