// SPDX-License-Identifier: Apache-2.0

package sds

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/xds"
	"github.com/xlb-project/xlb/test/await"
)

// patience bounds every wait of these tests.
const patience = await.Patience

// ask is what a client says, in either form of the protocol.
type ask struct {
	typeURL, node, nonce, fault string
	// names are all of the state of the world, or those that a difference adds; dropped are those that it takes away.
	names, dropped []string
	// version is that of the state of the world, known are those at the beginning of a stream of differences.
	version string
	known   map[string]string
}

// answer is what the server says: secrets by name, each with what its certificate chain is to be.
type answer struct {
	version, nonce string
	secrets        map[string]string
	removed        []string
}

// stream is one that a client has opened.
type stream struct {
	asks chan ask
	say  func(answer) error
	end  chan struct{}
}

// next is what the client says next.
func (s *stream) next(t *testing.T) ask {
	t.Helper()
	select {
	case a, ok := <-s.asks:
		if !ok {
			t.Fatal("the client has closed the stream")
		}
		if a.typeURL != typeURL {
			t.Errorf("asks for %q", a.typeURL)
		}
		return a
	case <-time.After(patience):
		t.Fatal("the client says nothing")
	}
	return ask{}
}

// tell says something, and returns what the client replies.
func (s *stream) tell(t *testing.T, a answer) ask {
	t.Helper()
	if err := s.say(a); err != nil {
		t.Fatal(err)
	}
	reply := s.next(t)
	if reply.nonce != a.nonce {
		t.Errorf("reply to the nonce %q: got %q", a.nonce, reply.nonce)
	}
	return reply
}

// server is one of secrets alone, and one of everything.
type server struct {
	secretv3.UnimplementedSecretDiscoveryServiceServer
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	streams chan *stream
}

func (s *server) StreamSecrets(w secretv3.SecretDiscoveryService_StreamSecretsServer) error {
	return s.states(w)
}

func (s *server) StreamAggregatedResources(w discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return s.states(w)
}

func (s *server) DeltaSecrets(w secretv3.SecretDiscoveryService_DeltaSecretsServer) error {
	return s.deltas(w)
}

func (s *server) DeltaAggregatedResources(w discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return s.deltas(w)
}

func (s *server) states(w grpc.BidiStreamingServer[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse]) error {
	return s.serve(w.Context(), func(a answer) error {
		return w.Send(&discoveryv3.DiscoveryResponse{TypeUrl: typeURL, VersionInfo: a.version, Nonce: a.nonce, Resources: bodies(a)})
	}, func() (ask, error) {
		r, err := w.Recv()
		return ask{
			typeURL: r.GetTypeUrl(), node: r.GetNode().GetId(), nonce: r.GetResponseNonce(), fault: r.GetErrorDetail().GetMessage(),
			names: r.GetResourceNames(), version: r.GetVersionInfo(),
		}, err
	})
}

func (s *server) deltas(w grpc.BidiStreamingServer[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]) error {
	return s.serve(w.Context(), func(a answer) error {
		m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: a.nonce, RemovedResources: a.removed}
		for i, body := range bodies(a) {
			m.Resources = append(m.Resources, &discoveryv3.Resource{Name: namesOf(a)[i], Version: a.version, Resource: body})
		}
		return w.Send(m)
	}, func() (ask, error) {
		r, err := w.Recv()
		return ask{
			typeURL: r.GetTypeUrl(), node: r.GetNode().GetId(), nonce: r.GetResponseNonce(), fault: r.GetErrorDetail().GetMessage(),
			names: r.GetResourceNamesSubscribe(), dropped: r.GetResourceNamesUnsubscribe(), known: r.GetInitialResourceVersions(),
		}, err
	})
}

// serve has a stream until the test or the client ends it.
func (s *server) serve(ctx context.Context, say func(answer) error, next func() (ask, error)) error {
	one := &stream{asks: make(chan ask, 64), say: say, end: make(chan struct{})}
	go func() {
		defer close(one.asks)
		for {
			a, err := next()
			if err != nil {
				return
			}
			one.asks <- a
		}
	}()
	s.streams <- one
	select {
	case <-one.end:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *server) accept(t *testing.T) *stream {
	t.Helper()
	select {
	case one := <-s.streams:
		return one
	case <-time.After(patience):
		t.Fatal("no stream is opened")
		return nil
	}
}

func namesOf(a answer) (names []string) {
	for name := range a.secrets {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func bodies(a answer) (out []*anypb.Any) {
	for _, name := range namesOf(a) {
		chain := &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: a.secrets[name]}}
		secret := &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{CertificateChain: chain}}}
		value, err := proto.Marshal(secret)
		if err != nil {
			panic(err)
		}
		out = append(out, &anypb.Any{TypeUrl: typeURL, Value: value})
	}
	return out
}

// taken is a secret that the client has handed out.
type taken struct{ name, chain, version string }

// bad is the text of a certificate chain that is refused, and why is the reason.
const (
	bad = "bad"
	why = "no certificate in it"
)

// talk is a client and its server.
type talk struct {
	*server
	client *Client
	taken  chan taken
}

// beginAsked is begin, and the stream on which the client has asked.
func beginAsked(t *testing.T, f form, names ...string) (*talk, *stream) {
	t.Helper()
	x := begin(t, f, names...)
	s := x.accept(t)
	s.next(t)
	return x, s
}

// begin runs a client that asks for these secrets, until the test ends.
func begin(t *testing.T, f form, names ...string) *talk {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{streams: make(chan *stream, 64)}
	serving := grpc.NewServer()
	secretv3.RegisterSecretDiscoveryServiceServer(serving, s)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(serving, s)
	go func() { _ = serving.Serve(l) }()
	t.Cleanup(serving.Stop)

	x := &talk{server: s, taken: make(chan taken, 64)}
	x.client = New(Config{
		Servers: []xds.Server{{Address: "unix:" + path}}, Node: &corev3.Node{Id: "me"}, Delta: f.delta, Aggregated: f.aggregated,
		Update: x.update, Logger: slog.New(slog.DiscardHandler),
	})
	x.client.Want(names)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); x.client.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return x
}

func (x *talk) update(name string, body []byte, version string) error {
	secret := &tlsv3.Secret{}
	if err := proto.Unmarshal(body, secret); err != nil {
		return err
	}
	chain := secret.GetTlsCertificate().GetCertificateChain().GetInlineString()
	if chain == bad {
		return errors.New(why)
	}
	x.taken <- taken{name, chain, version}
	return nil
}

// mustHaveTaken compares with what the client has handed out since this was asked last. All that has been answered to is there.
func (x *talk) mustHaveTaken(t *testing.T, want ...taken) {
	t.Helper()
	var got []taken
	for len(x.taken) > 0 {
		got = append(got, <-x.taken)
	}
	if !slices.Equal(got, want) {
		t.Errorf("secrets handed out: got %v, want %v", got, want)
	}
}
