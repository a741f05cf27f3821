// SPDX-License-Identifier: Apache-2.0

package handback

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/internal/selection"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/workload"
)

// oneEndpoint is a balancer and its only endpoint.
type oneEndpoint struct{}

func (e oneEndpoint) Pick(*model.Cluster, model.Metadata, uint64, func(netip.AddrPort) bool) (slowpath.ChosenEndpoint, bool) {
	return e, true
}
func (oneEndpoint) Address() netip.AddrPort { return netip.MustParseAddrPort("192.0.2.1:80") }
func (oneEndpoint) Done(slowpath.Outcome)   {}

// justTCP is a configuration whose listeners forward connections to a cluster.
type justTCP struct{ slowpath.Configuration }

func (justTCP) TCP(string) *model.TCPProxy {
	return &model.TCPProxy{Clusters: []model.WeightedCluster{{Name: "c", Weight: 1}}}
}

func (justTCP) HasListener(string) bool { return true }

func (justTCP) View(string) model.View { return model.View{} }

func (justTCP) Key(v model.View, name string) model.ClusterKey {
	return new(model.Config).In(v).Key(name)
}

func (justTCP) Cluster(key model.ClusterKey) *model.Cluster { return &model.Cluster{Name: key.Name} }

func TestClientsAreServedFromTheirWorkload(t *testing.T) {
	const of workload.ID = 7
	from := workload.Host
	proxy := slowpath.New(slowpath.Config{
		Active:   func() slowpath.Configuration { return justTCP{} },
		Balancer: oneEndpoint{},
		Dial: func(_ context.Context, id workload.ID, _ netip.AddrPort) (net.Conn, error) {
			from = id
			return nil, net.ErrClosed
		},
	})
	defer proxy.Close()
	h := New(Config{
		Selector: selection.New(selection.Config{Generation: func() *generation.Generation { return &generation.Generation{} }}),
		Proxy:    proxy, Scheduler: shares.NewScheduler(shares.Limits{AtWork: 1, Waiting: 1}),
		Logger: slog.New(slog.DiscardHandler),
	})
	near, far := net.Pipe()
	defer far.Close()
	h.Serve(t.Context(), near, anchor.Boundary{}, anchor.Session{Workload: of, Endpoint: anchor.NoEndpoint})
	if from != of {
		t.Errorf("the endpoint was connected to from workload %d, want %d", from, of)
	}
}

// noListeners is a kernel without listeners and clusters.
type noListeners struct{}

func (noListeners) Clusters() []reconcile.ClusterEntry { return nil }

func (noListeners) ListenerNumbers() map[model.ListenerName]uint32 { return nil }

// The address of a listener whose routes are not kept any more may be served under another number: the client finds that one by a new connection alone.
func TestConnectionToAListenerThatIsNotKnownCloses(t *testing.T) {
	now := generation.Empty().Next(&generation.Input{Config: &model.Config{}, Changes: &reconcile.Changes{}, Kernel: noListeners{}})
	proxy := slowpath.New(slowpath.Config{Active: func() slowpath.Configuration { return now }})
	defer proxy.Close()
	active := func() *generation.Generation { return now }
	h := New(Config{
		Generation: active, Selector: selection.New(selection.Config{Generation: active}),
		Proxy: proxy, Scheduler: shares.NewScheduler(shares.Limits{AtWork: 1, Waiting: 1}),
		Logger: slog.New(slog.DiscardHandler),
	})
	near, far := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		h.Serve(t.Context(), near, anchor.Boundary{}, anchor.Session{Listener: 1, Endpoint: anchor.NoEndpoint})
	}()
	if _, err := io.WriteString(far, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(far), nil)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusNotFound || !response.Close {
		t.Errorf("status %d, the connection closes: %t; want 404, and that it closes", response.StatusCode, response.Close)
	}
	far.Close()
	<-served
}
