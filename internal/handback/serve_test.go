// SPDX-License-Identifier: Apache-2.0

package handback

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/model"
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
