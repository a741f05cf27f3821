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

	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/xds"
)

// Path is the prefix of the service's methods over HTTP/2.
const Path = "/envoy.service.status.v3.ClientStatusDiscoveryService/"

// Resource is a resource with its kind.
type Resource struct {
	Kind xds.Kind
	xds.ResourceStatus
}

// Client is one that asks a control plane.
type Client struct {
	// Node is what it has told the control plane of itself.
	Node *corev3.Node
	// Scope tells it from the other clients of this process (ClientConfig.client_scope); empty: the first one.
	Scope     string
	Resources func() []Resource
}

type server struct {
	statusv3.UnimplementedClientStatusDiscoveryServiceServer

	clients func() []Client
	streams streams
	// silence is how long a stream stays open on which nothing is asked.
	silence time.Duration
}

// NewHandler serves the resources of clients, in their order. Requests have to come by HTTP/2.
func NewHandler(clients func() []Client) http.Handler {
	return newHandler(&server{clients: clients, silence: limits.ClientStatus.Idle})
}

func newHandler(of *server) http.Handler {
	s := grpc.NewServer(grpc.MaxRecvMsgSize(limits.ClientStatus.BodyBytes))
	statusv3.RegisterClientStatusDiscoveryServiceServer(s, of)
	fetches := make(chan struct{}, maxFetches)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		// A stream may stay open, whatever time a page has: it has limits of its own. What has no deadlines needs none lifted.
		if r.URL.Path == statusv3.ClientStatusDiscoveryService_StreamClientStatus_FullMethodName {
			_, _ = c.SetReadDeadline(time.Time{}), c.SetWriteDeadline(time.Time{})
			s.ServeHTTP(&patient{w, c}, r)
			return
		}
		select {
		case fetches <- struct{}{}:
			defer func() { <-fetches }()
			s.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})
}

// FetchClientStatus answers once.
func (s *server) FetchClientStatus(_ context.Context, in *statusv3.ClientStatusRequest) (*statusv3.ClientStatusResponse, error) {
	return s.answer(in)
}

// StreamClientStatus answers each request of the stream.
func (s *server) StreamClientStatus(stream statusv3.ClientStatusDiscoveryService_StreamClientStatusServer) error {
	own := s.streams.begin()
	defer s.streams.end(own)
	said := receive(stream)
	quiet := time.NewTimer(s.silence)
	defer quiet.Stop()
	for {
		select {
		case <-own.ended:
			return status.Errorf(codes.ResourceExhausted, "%d streams are open, and this one was silent for the longest time; open another when it is needed", limits.ClientStatus.Streams)
		case <-quiet.C:
			return status.Errorf(codes.DeadlineExceeded, "nothing was asked for %s; open another stream when it is needed", s.silence)
		case in := <-said:
			if errors.Is(in.err, io.EOF) {
				return nil
			}
			if in.err != nil {
				return in.err
			}
			s.streams.asked(own)
			out, err := s.answer(in.request)
			if err != nil {
				return err
			}
			if err := stream.Send(out); err != nil {
				return err
			}
			quiet.Reset(s.silence)
		}
	}
}

// incoming is what a client says next.
type incoming struct {
	request *statusv3.ClientStatusRequest
	err     error
}

// receive hands on what a client says, until the stream has ended.
func receive(stream statusv3.ClientStatusDiscoveryService_StreamClientStatusServer) <-chan incoming {
	out := make(chan incoming)
	go func() {
		for {
			request, err := stream.Recv()
			select {
			case out <- incoming{request, err}:
			case <-stream.Context().Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return out
}

func (s *server) answer(in *statusv3.ClientStatusRequest) (*statusv3.ClientStatusResponse, error) {
	if len(in.GetNodeMatchers()) > 0 {
		return nil, status.Error(codes.InvalidArgument, "node_matchers: not supported: the clients here are those of one daemon; leave the field out")
	}
	out := &statusv3.ClientStatusResponse{}
	for _, c := range s.clients() {
		client := &statusv3.ClientConfig{Node: c.Node, ClientScope: c.Scope}
		for _, r := range c.Resources() {
			client.GenericXdsConfigs = append(client.GenericXdsConfigs, describe(&r, in.GetExcludeResourceContents()))
		}
		out.Config = append(out.Config, client)
	}
	return out, nil
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
