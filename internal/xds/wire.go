// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"context"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// request is what a server is told, in either form of the protocol.
type request struct {
	typeURL string
	node    *corev3.Node // on a stream's first request only
	nonce   string
	fault   string // why the response with that nonce was refused

	// For the state of the world: the version in force, and all names.
	version string
	names   []string

	// For deltas: what has changed about the names, and what is known at the beginning of a stream.
	subscribe, unsubscribe []string
	known                  map[string]string
}

func (r *request) detail() *statuspb.Status {
	if r.fault == "" {
		return nil
	}
	return &statuspb.Status{Code: int32(codes.InvalidArgument), Message: r.fault}
}

// wire is a stream in one form of the protocol. send and receive may be called at the same time.
type wire interface {
	send(*request) error
	receive() (*response, error)
}

// open begins a stream.
func open(ctx context.Context, conn *grpc.ClientConn, delta bool) (wire, error) {
	service := discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
	if delta {
		stream, err := service.DeltaAggregatedResources(ctx)
		return deltaWire{stream}, err
	}
	stream, err := service.StreamAggregatedResources(ctx)
	return wholeWire{stream}, err
}

// wholeWire speaks of the state of the world.
type wholeWire struct {
	stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
}

func (w wholeWire) send(r *request) error {
	return w.stream.Send(&discoveryv3.DiscoveryRequest{
		TypeUrl: r.typeURL, Node: r.node, ResponseNonce: r.nonce, ErrorDetail: r.detail(), VersionInfo: r.version, ResourceNames: r.names,
	})
}

func (w wholeWire) receive() (*response, error) {
	m, err := w.stream.Recv()
	if err != nil {
		return nil, err
	}
	return fromWhole(m), nil
}

// deltaWire speaks of differences.
type deltaWire struct {
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
}

func (w deltaWire) send(r *request) error {
	return w.stream.Send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: r.typeURL, Node: r.node, ResponseNonce: r.nonce, ErrorDetail: r.detail(),
		ResourceNamesSubscribe: r.subscribe, ResourceNamesUnsubscribe: r.unsubscribe, InitialResourceVersions: r.known,
	})
}

func (w deltaWire) receive() (*response, error) {
	m, err := w.stream.Recv()
	if err != nil {
		return nil, err
	}
	return fromDelta(m), nil
}
