// SPDX-License-Identifier: Apache-2.0

package sds

import (
	"context"
	"errors"
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"google.golang.org/grpc"

	"github.com/xlb-project/xlb/internal/limits"
)

// deltas speaks of differences. A secret that the server removes stays, as in Envoy.
func (c *Client) deltas(ctx context.Context, conn *grpc.ClientConn) (heard bool, err error) {
	stream, err := c.openDeltas(ctx, conn)
	if err != nil {
		return false, err
	}
	said := receive(ctx, stream.Recv)
	told := c.wanted()
	request := &discoveryv3.DeltaDiscoveryRequest{Node: c.c.Node, TypeUrl: typeURL, ResourceNamesSubscribe: told, InitialResourceVersions: c.versionsOf(told)}
	for {
		if err := stream.Send(request); err != nil {
			return heard, endOf(said, err)
		}
		request, err = c.next(ctx, said, &told)
		if err != nil {
			return heard, err
		}
		heard = heard || request.GetResponseNonce() != ""
	}
}

// next is what to tell the server next. Told are the names that it knows of.
func (c *Client) next(ctx context.Context, said <-chan incoming[*discoveryv3.DeltaDiscoveryResponse], told *[]string) (*discoveryv3.DeltaDiscoveryRequest, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.wake:
		before, now := *told, c.wanted()
		*told = now
		for _, name := range without(before, now) {
			delete(c.versions, name)
		}
		return &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: without(now, before), ResourceNamesUnsubscribe: without(before, now)}, nil
	case in := <-said:
		if in.err != nil {
			return nil, in.err
		}
		return &discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: in.response.GetNonce(), ErrorDetail: detail(c.takeDelta(in.response))}, nil
	}
}

func (c *Client) openDeltas(ctx context.Context, conn *grpc.ClientConn) (secretv3.SecretDiscoveryService_DeltaSecretsClient, error) {
	limit := grpc.MaxCallRecvMsgSize(limits.Secrets.BodyBytes)
	if c.c.Aggregated {
		return discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx, limit)
	}
	return secretv3.NewSecretDiscoveryServiceClient(conn).DeltaSecrets(ctx, limit)
}

func (c *Client) takeDelta(response *discoveryv3.DeltaDiscoveryResponse) error {
	var faults []error
	names := c.wanted()
	for _, r := range response.GetResources() {
		if _, asked := slices.BinarySearch(names, r.GetName()); asked {
			faults = append(faults, c.take(r.GetName(), r.GetResource().GetValue(), r.GetVersion()))
		}
	}
	return errors.Join(faults...)
}

// versionsOf are those of the secrets that have come before, on another stream.
func (c *Client) versionsOf(names []string) map[string]string {
	out := map[string]string{}
	for _, name := range names {
		if version, known := c.versions[name]; known {
			out[name] = version
		}
	}
	return out
}

// without are the names that are not among others.
func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}
