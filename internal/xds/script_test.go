// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// script is a server that plays one function per stream, the last one for all that follow.
type script struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	t     *testing.T
	plays []func(*dialogue)
	mu    sync.Mutex
	begun int
}

// play runs a server with a script.
func play(t *testing.T, plays ...func(*dialogue)) Server {
	return serve(t, &script{t: t, plays: plays})
}

func (s *script) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return s.run(stream.Context(), false, func() (ask, error) {
		m, err := stream.Recv()
		if err != nil {
			return ask{}, err
		}
		return ask{
			typeURL: m.TypeUrl, node: m.Node, nonce: m.ResponseNonce, fault: m.ErrorDetail.GetMessage(), code: m.ErrorDetail.GetCode(),
			version: m.VersionInfo, names: m.ResourceNames,
		}, nil
	}, func(m proto.Message) error { return stream.SendMsg(m) })
}

func (s *script) DeltaAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return s.run(stream.Context(), true, func() (ask, error) {
		m, err := stream.Recv()
		if err != nil {
			return ask{}, err
		}
		return ask{
			typeURL: m.TypeUrl, node: m.Node, nonce: m.ResponseNonce, fault: m.ErrorDetail.GetMessage(), code: m.ErrorDetail.GetCode(),
			subscribe: m.ResourceNamesSubscribe, unsubscribe: m.ResourceNamesUnsubscribe, known: m.InitialResourceVersions,
		}, nil
	}, func(m proto.Message) error { return stream.SendMsg(m) })
}

func (s *script) run(ctx context.Context, delta bool, receive func() (ask, error), send func(proto.Message) error) (err error) {
	s.mu.Lock()
	n := min(s.begun, len(s.plays)-1)
	s.begun++
	s.mu.Unlock()
	d := &dialogue{t: s.t, ctx: ctx, delta: delta, write: send, asks: map[string]chan ask{}}
	go func() {
		for {
			a, err := receive()
			if err != nil {
				return
			}
			d.queue(a.typeURL) <- a
		}
	}()
	defer func() {
		if r := recover(); r != nil {
			if ctx.Err() == nil {
				s.t.Errorf("stream %d: %v", n, r)
			}
			err = fmt.Errorf("%v", r)
		}
	}()
	s.plays[n](d)
	return nil
}

// ask is a request of the client.
type ask struct {
	typeURL, nonce, fault, version string
	code                           int32
	node                           *corev3.Node
	names, subscribe, unsubscribe  []string
	known                          map[string]string
}

// dialogue is the server's end of a stream.
type dialogue struct {
	t     *testing.T
	ctx   context.Context //nolint:containedctx // of one stream
	write func(proto.Message) error
	mu    sync.Mutex
	asks  map[string]chan ask
	delta bool
}

func (d *dialogue) queue(typeURL string) chan ask {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asks[typeURL] == nil {
		d.asks[typeURL] = make(chan ask, 4096)
	}
	return d.asks[typeURL]
}

// next is the client's next request for a kind.
func (d *dialogue) next(kind Kind) ask { return d.nextOf(kind.TypeURL()) }

func (d *dialogue) nextOf(typeURL string) ask {
	select {
	case a := <-d.queue(typeURL):
		return a
	case <-d.ctx.Done():
		panic("the client has ended the stream")
	case <-time.After(patience):
		panic("no request for " + typeURL)
	}
}

// none panics if a request for a kind comes within a moment.
func (d *dialogue) none(kind Kind) {
	select {
	case a := <-d.queue(kind.TypeURL()):
		panic(fmt.Sprintf("request %+v, want none", a))
	case <-time.After(50 * time.Millisecond):
	}
}

// expect panics unless a condition holds.
func (d *dialogue) expect(ok bool, what string, got any) {
	if !ok {
		panic(fmt.Sprintf("%s: got %+v", what, got))
	}
}

// stay keeps the stream until the client ends it.
func (d *dialogue) stay() { <-d.ctx.Done() }

func (d *dialogue) send(m proto.Message) {
	if err := d.write(m); err != nil {
		panic(err)
	}
}

// give sends a response in the stream's form.
func (d *dialogue) give(kind Kind, version, nonce string, resources ...proto.Message) {
	if d.delta {
		d.part(kind, version, nonce, nil, resources...)
		return
	}
	d.whole(kind, version, nonce, resources...)
}

// whole sends a response of the state of the world.
func (d *dialogue) whole(kind Kind, version, nonce string, resources ...proto.Message) {
	m := &discoveryv3.DiscoveryResponse{TypeUrl: kind.TypeURL(), VersionInfo: version, Nonce: nonce}
	for _, r := range resources {
		m.Resources = append(m.Resources, packed(r))
	}
	d.send(m)
}

// part sends an incremental response; all its resources have one version.
func (d *dialogue) part(kind Kind, version, nonce string, removed []string, resources ...proto.Message) {
	m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: kind.TypeURL(), SystemVersionInfo: version, Nonce: nonce, RemovedResources: removed}
	for _, r := range resources {
		m.Resources = append(m.Resources, named(r, version, 0))
	}
	d.send(m)
}

// named wraps a resource.
func named(r proto.Message, version string, ttl time.Duration) *discoveryv3.Resource {
	body := packed(r)
	name, err := nameOf(body)
	if err != nil {
		panic(err)
	}
	w := &discoveryv3.Resource{Name: name, Version: version, Resource: body}
	if ttl > 0 {
		w.Ttl = durationpb.New(ttl)
	}
	return w
}

func bodies(resources ...proto.Message) (all []*anypb.Any) {
	for _, r := range resources {
		all = append(all, packed(r))
	}
	return all
}
