// SPDX-License-Identifier: Apache-2.0

// Package sds asks servers for secrets (secret discovery service), one stream for each, as Envoy does.
package sds

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/xlb-project/xlb/internal/xds"
)

// typeURL is that of secrets.
const typeURL = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"

// Between two attempts to reach a server.
const (
	firstPause   = 200 * time.Millisecond
	longestPause = 10 * time.Second
)

// Config says whom to ask for which secret, and who wants to know.
type Config struct {
	// Servers are tried in their order.
	Servers []xds.Server
	Node    *corev3.Node
	Name    string
	// Aggregated servers have everything (ADS). Delta asks for changes.
	Aggregated, Delta bool
	// Update takes the text of a secret, or refuses it with a reason, which the server is told.
	Update func(body []byte, version string) error
	Logger *slog.Logger
}

// Run keeps a stream until ctx ends. A secret that has come stays, whatever becomes of the stream.
func Run(ctx context.Context, c Config) {
	version := ""
	for pause := firstPause; ctx.Err() == nil; pause = min(2*pause, longestPause) {
		for _, server := range c.Servers {
			heard, err := c.converse(ctx, server, &version)
			if ctx.Err() != nil {
				return
			}
			c.Logger.Warn("stream of a secret has ended; it is opened again", "secret", c.Name, "server", server.Address, "err", err)
			if heard {
				pause = firstPause
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// converse has one stream. Version is that of the secret that was taken last.
func (c *Config) converse(ctx context.Context, server xds.Server, version *string) (heard bool, err error) {
	conn, err := xds.Dial(server)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if c.Delta {
		return c.deltas(ctx, conn, version)
	}
	return c.states(ctx, conn, version)
}

// states speaks of the state of the world.
func (c *Config) states(ctx context.Context, conn *grpc.ClientConn, version *string) (heard bool, err error) {
	stream, err := c.openStates(ctx, conn)
	if err != nil {
		return false, err
	}
	request := &discoveryv3.DiscoveryRequest{Node: c.Node, TypeUrl: typeURL, ResourceNames: []string{c.Name}, VersionInfo: *version}
	for {
		if err := stream.Send(request); err != nil {
			return heard, err
		}
		response, err := stream.Recv()
		if err != nil {
			return heard, err
		}
		heard = true
		err = nil
		for _, r := range response.GetResources() {
			if err == nil {
				err = c.take(r.GetValue(), response.GetVersionInfo())
			}
		}
		if err == nil {
			*version = response.GetVersionInfo()
		}
		request = &discoveryv3.DiscoveryRequest{
			TypeUrl: typeURL, ResourceNames: []string{c.Name}, VersionInfo: *version, ResponseNonce: response.GetNonce(), ErrorDetail: detail(err),
		}
	}
}

func (c *Config) openStates(ctx context.Context, conn *grpc.ClientConn) (secretv3.SecretDiscoveryService_StreamSecretsClient, error) {
	if c.Aggregated {
		return discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	}
	return secretv3.NewSecretDiscoveryServiceClient(conn).StreamSecrets(ctx)
}

// deltas speaks of differences.
func (c *Config) deltas(ctx context.Context, conn *grpc.ClientConn, version *string) (heard bool, err error) {
	stream, err := c.openDeltas(ctx, conn)
	if err != nil {
		return false, err
	}
	request := &discoveryv3.DeltaDiscoveryRequest{Node: c.Node, TypeUrl: typeURL, ResourceNamesSubscribe: []string{c.Name}}
	if *version != "" {
		request.InitialResourceVersions = map[string]string{c.Name: *version}
	}
	for {
		if err := stream.Send(request); err != nil {
			return heard, err
		}
		response, err := stream.Recv()
		if err != nil {
			return heard, err
		}
		heard = true
		err = nil
		for _, r := range response.GetResources() {
			if r.GetName() != c.Name || err != nil {
				continue
			}
			if err = c.take(r.GetResource().GetValue(), r.GetVersion()); err == nil {
				*version = r.GetVersion()
			}
		}
		request = &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: response.GetNonce(), ErrorDetail: detail(err)}
	}
}

func (c *Config) openDeltas(ctx context.Context, conn *grpc.ClientConn) (secretv3.SecretDiscoveryService_DeltaSecretsClient, error) {
	if c.Aggregated {
		return discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	}
	return secretv3.NewSecretDiscoveryServiceClient(conn).DeltaSecrets(ctx)
}

func (c *Config) take(body []byte, version string) error {
	err := c.Update(body, version)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	return nil
}

func detail(err error) *statuspb.Status {
	if err == nil {
		return nil
	}
	return &statuspb.Status{Code: int32(codes.InvalidArgument), Message: err.Error()}
}
