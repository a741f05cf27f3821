// SPDX-License-Identifier: Apache-2.0

package limits_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/dns"
	"github.com/xlb-project/xlb/internal/health"
	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/internal/xds"
	"github.com/xlb-project/xlb/internal/xds/sds"
	"github.com/xlb-project/xlb/test/proxytest"
)

// ---- admin API ----

func serveAdmin(t *testing.T) (address string) {
	t.Helper()
	l, err := admin.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = admin.Serve(t.Context(), l, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.Copy(io.Discard, r.Body)
			if err == nil {
				_, _ = io.WriteString(w, "here")
			}
		}), discard)
	}()
	return l.Addr().String()
}

func crowdOfVisitors(t *testing.T) {
	address := serveAdmin(t)
	for range 4 * limits.Admin.Connections {
		open(t, address, "GET / HTTP/1.1\r\n", nil)
	}
	client := &http.Client{Timeout: patience}
	within(t, limits.Admin.Whole, "a page beside them", func() {
		answer, err := client.Get("http://" + address)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if text, _ := io.ReadAll(answer.Body); string(text) != "here" {
			t.Errorf("got %q", text)
		}
	})
}

// ---- control plane and secrets ----

// plane is a control plane that sends too much, or ends each stream.
type plane struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	secretv3.UnimplementedSecretDiscoveryServiceServer
	header, body int
	ends         bool
}

func (p *plane) StreamAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return p.serve(stream)
}

func (p *plane) StreamSecrets(stream secretv3.SecretDiscoveryService_StreamSecretsServer) error {
	return p.serve(stream)
}

func (p *plane) serve(stream interface {
	grpc.ServerStream
	Send(*discoveryv3.DiscoveryResponse) error
}) error {
	if p.ends {
		return nil
	}
	err := stream.SetHeader(metadata.Pairs("x", strings.Repeat("a", p.header)))
	err = errors.Join(err, stream.Send(&discoveryv3.DiscoveryResponse{Nonce: "1", Resources: []*anypb.Any{{Value: make([]byte, p.body)}}}))
	<-stream.Context().Done()
	return err
}

func (p *plane) listen(t *testing.T) xds.Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, p)
	secretv3.RegisterSecretDiscoveryServiceServer(s, p)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return xds.Server{Address: l.Addr().String()}
}

// requireNoResponse fails if anything is received, or nothing ends in time.
func requireNoResponse(t *testing.T, server xds.Server) {
	t.Helper()
	conn, err := xds.Dial(server)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	within(t, limits.ControlPlane.Connect, "the stream", func() {
		stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
		if err == nil {
			_, err = stream.Recv()
		}
		if err == nil || ctx.Err() != nil {
			t.Errorf("the stream goes on: %v", err)
		}
	})
}

func requireRefusedStream(t *testing.T, p *plane) { requireNoResponse(t, p.listen(t)) }

func silentControlPlane(t *testing.T) {
	requireNoResponse(t, xds.Server{Address: serveBytes(t, "", nil)})
}

func longSecret(t *testing.T) {
	p := &plane{body: limits.Secrets.BodyBytes + 1}
	var mu sync.Mutex
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(writer(func(b []byte) {
		mu.Lock()
		defer mu.Unlock()
		log.Write(b)
	}), nil))
	c := sds.New(sds.Config{Servers: []xds.Server{p.listen(t)}, Logger: logger, Update: func(string, []byte, string) error {
		t.Error("it was taken")
		return nil
	}})
	c.Want([]string{"a"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	within(t, 0, "the refusal", func() {
		for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			mu.Lock()
			refused := strings.Contains(log.String(), "larger than max")
			mu.Unlock()
			if refused {
				return
			}
		}
		t.Error("nothing was refused")
	})
	cancel()
	<-done
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }

// ---- health checks, names ----

// checkTimeout is a configuration's.
const checkTimeout = 500 * time.Millisecond

// requireUnsupported fails if an endpoint that says so much is found healthy, or is waited for longer than the check's timeout.
func requireUnsupported(t *testing.T, isHTTP bool, first string, then speak) {
	t.Helper()
	check := &model.HealthCheck{Timeout: checkTimeout, TCP: &model.TCPCheck{Send: []byte("PING"), Receive: [][]byte{[]byte("PONG")}}}
	if isHTTP {
		check = &model.HealthCheck{Timeout: checkTimeout, HTTP: &model.HTTPCheck{Path: "/", Method: "GET", Expected: []model.StatusRange{{First: 200, Behind: 201}}}}
	}
	p := health.NewProbe(check, "c", model.Endpoint{Address: addressOf(serveBytes(t, first, then))}, nil)
	defer p.Close()
	within(t, checkTimeout, "the attempt", func() {
		if r, err := p.Attempt(t.Context()); err == nil {
			t.Errorf("the endpoint is %q", r)
		}
	})
}

func requireNoName(t *testing.T, then speak) {
	t.Helper()
	// The answer is said to have 65,535 bytes.
	c := &dns.Client{Config: model.DNS{TCP: true, NoSearch: true, Servers: []netip.AddrPort{addressOf(serveBytes(t, "\xff\xff", then))}}}
	within(t, limits.DNS.Whole, "the look-up", func() {
		if answer, err := c.Lookup(t.Context(), "ip4", "name.test"); err == nil {
			t.Errorf("got %v", answer)
		}
	})
}

// ---- slow path ----

// nowhere is an endpoint to which no connection comes about.
const nowhere = "192.0.2.1:80"

type chosen struct{ address netip.AddrPort }

func (c chosen) Address() netip.AddrPort { return c.address }
func (chosen) Done(slowpath.Outcome)     {}

func (c chosen) Pick(_ *model.Cluster, _ model.Metadata, _ uint64, skip func(netip.AddrPort) bool) (slowpath.ChosenEndpoint, bool) {
	return c, !skip(c.address)
}

// serveSlowPath serves the routes of one cluster with an endpoint; empty: one that takes whatever comes and says nothing.
func serveSlowPath(t *testing.T, endpoint string) (address string) {
	t.Helper()
	if endpoint == "" {
		endpoint = serveBytes(t, "", func(c net.Conn) error { _, err := io.Copy(io.Discard, c); return err })
	}
	table := &model.RouteTable{VirtualHosts: []*model.VirtualHost{{Domains: []string{"*"}, Routes: []*model.Route{
		{Path: matcher.PathMatch{Value: "/"}, Clusters: []model.WeightedCluster{{Name: "c", Weight: 1}}},
	}}}}
	proxy := slowpath.New(slowpath.Config{
		Active: proxytest.Active(&model.Config{
			Listeners: []*model.Listener{{Name: "l", Routes: table}}, Clusters: []*model.Cluster{{Name: "c", ConnectTimeout: checkTimeout}},
		}),
		Balancer: chosen{addressOf(endpoint)},
		Dial: func(ctx context.Context, _ workload.ID, to netip.AddrPort) (net.Conn, error) {
			if to.String() == nowhere {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", to.String())
		},
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close(); proxy.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				for r := (slowpath.Result{Quiet: true}); r.Quiet; {
					r, _ = proxy.Serve(t.Context(), c, slowpath.Session{Listener: "l"})
				}
			}()
		}
	}()
	return l.Addr().String()
}
