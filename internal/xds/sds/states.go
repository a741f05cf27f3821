// SPDX-License-Identifier: Apache-2.0

package sds

import (
	"context"
	"errors"
	"fmt"
	"slices"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/xlb-project/xlb/internal/limits"
)

// states speaks of the state of the world.
func (c *Client) states(ctx context.Context, conn *grpc.ClientConn) (heard bool, err error) {
	stream, err := c.openStates(ctx, conn)
	if err != nil {
		return false, err
	}
	said := receive(ctx, stream.Recv)
	request := &discoveryv3.DiscoveryRequest{Node: c.c.Node}
	told := c.wanted()
	for {
		names := c.wanted()
		if len(without(names, told)) > 0 {
			// It may have been sent before, and forgotten since: who is said to have it would not get it again.
			c.version = ""
		}
		told = names
		request.TypeUrl, request.ResourceNames, request.VersionInfo = typeURL, names, c.version
		if err := stream.Send(request); err != nil {
			return heard, endOf(said, err)
		}
		select {
		case <-ctx.Done():
			return heard, ctx.Err()
		case <-c.wake:
			request = &discoveryv3.DiscoveryRequest{ResponseNonce: request.GetResponseNonce()}
		case in := <-said:
			if in.err != nil {
				return heard, in.err
			}
			heard = true
			err := c.takeState(in.response)
			if err == nil {
				c.version = in.response.GetVersionInfo()
			}
			request = &discoveryv3.DiscoveryRequest{ResponseNonce: in.response.GetNonce(), ErrorDetail: detail(err)}
		}
	}
}

// endOf is why a stream has ended that cannot be written to: only its reading tells.
func endOf[T any](said <-chan incoming[T], err error) error {
	if in := <-said; in.err != nil {
		return in.err
	}
	return err
}

func (c *Client) openStates(ctx context.Context, conn *grpc.ClientConn) (secretv3.SecretDiscoveryService_StreamSecretsClient, error) {
	limit := grpc.MaxCallRecvMsgSize(limits.Secrets.BodyBytes)
	if c.c.Aggregated {
		return discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx, limit)
	}
	return secretv3.NewSecretDiscoveryServiceClient(conn).StreamSecrets(ctx, limit)
}

// takeState takes the secrets of a response that are asked for. Its error is for the server.
func (c *Client) takeState(response *discoveryv3.DiscoveryResponse) error {
	var faults []error
	names, found := c.wanted(), false
	for _, r := range response.GetResources() {
		name := nameOf(r.GetValue())
		if _, asked := slices.BinarySearch(names, name); !asked {
			continue
		}
		found = true
		faults = append(faults, c.take(name, r.GetValue(), response.GetVersionInfo()))
	}
	if !found && len(response.GetResources()) > 0 && len(names) > 0 {
		return fmt.Errorf("none of the secrets in it is asked for, which are %q", names)
	}
	return errors.Join(faults...)
}

// nameOf is empty for what is no secret, which nobody asks for.
func nameOf(body []byte) string {
	secret := &tlsv3.Secret{}
	if proto.Unmarshal(body, secret) != nil {
		return ""
	}
	return secret.GetName()
}

func (c *Client) take(name string, body []byte, version string) error {
	if err := c.c.Update(name, body, version); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	c.versions[name] = version
	return nil
}

func detail(err error) *statuspb.Status {
	if err == nil {
		return nil
	}
	return &statuspb.Status{Code: int32(codes.InvalidArgument), Message: err.Error()}
}
