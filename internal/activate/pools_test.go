// SPDX-License-Identifier: Apache-2.0

package activate

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/balance"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/pool"
	"github.com/xlb-project/xlb/internal/workload"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/generationtest"
	"github.com/xlb-project/xlb/test/mapstest"
)

// pooled has a pool follow.
func (b *balancing) pooled() (*Pools, *pool.Pool) {
	b.t.Helper()
	var i *pool.Pool
	pools := NewPools(PoolsConfig{
		FastPath: false, Shared: b.kernel.Shared, Reconciler: b.kernel.Reconciler, Pool: func() *pool.Pool { return i }, KeepConnections: func(_, _ []netip.AddrPort) {},
		EndpointsLeave: func() {
			if b.leaves != nil {
				b.leaves()
			}
		},
	})
	sockets := maps.NewSockets(nil, nil, nil, nil, nil, nil, nil, nil, nil, nil)
	sockets.Peers = mapstest.NewFakeTable[maps.PeerKey, uint32](nil)
	sockets.Pools = mapstest.NewFakeTable[maps.PoolKey, uint32](nil)
	p, err := pool.New(pool.Config{Shared: b.kernel.Shared, Sockets: sockets, Own: workload.Own(0), Logger: slog.New(slog.DiscardHandler), Released: pools.Closed})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			b.t.Error(err)
		}
	})
	i = p
	return pools, p
}

// knows reports whether an index stands for an endpoint.
func (b *balancing) knows(index uint32) bool {
	for _, e := range b.kernel.Endpoints() {
		if e.Index == index {
			return true
		}
	}
	return false
}

// It was removed, came back while a request held it, and is removed again: its number must not become another's before its i-socks have closed.
func TestEndpointThatHasComeBackIsNotGivenUpBeforeItsPool(t *testing.T) {
	const with, without = 2, 1
	both, one := generationtest.PortsOf(1, without, with), generationtest.PortsOf(1, without)
	b := newBalancing(t, both)
	pools, p := b.pooled()
	index, ok := b.Generation().IndexOf(model.SharedCluster("web"), "127.0.0.1:2")
	if !ok {
		t.Fatal("the endpoint is not known")
	}
	picker := balance.New(b.kernel.Shared)
	picker.Claim(index)
	b.use(one)
	pools.Closed(index)
	pools.Release()
	b.use(both)
	p.Change([]pool.Endpoint{{Index: index, Address: netip.MustParseAddrPort("127.0.0.1:2"), ConnectTimeout: time.Second}}, nil)
	b.use(one)
	picker.Done(index)
	pools.Release()
	if !b.knows(index) {
		t.Error("the number of an endpoint that the pool knows may be another's")
	}
	p.Change(nil, []uint32{index})
	await.Quiet(t, func() string {
		if pools.Release(); b.knows(index) {
			return "the number of an endpoint that has gone stands for it still"
		}
		return ""
	})
}

// What an endpoint has carried is counted before it is forgotten: nothing may have looked since it left the configuration.
func TestEndpointIsCountedBeforeItIsForgotten(t *testing.T) {
	both, one := generationtest.PortsOf(1, 1, 2), generationtest.PortsOf(1, 1)
	b := newBalancing(t, both)
	pools, _ := b.pooled()
	index, ok := b.Generation().IndexOf(model.SharedCluster("web"), "127.0.0.1:2")
	if !ok {
		t.Fatal("the endpoint is not known")
	}
	looks := 0
	b.leaves = func() {
		if looks++; !b.knows(index) {
			t.Error("the endpoint is forgotten before it is counted")
		}
	}
	b.use(one)
	if pools.Release(); looks != 0 {
		t.Errorf("looks while no endpoint is forgotten: %d", looks)
	}
	pools.Closed(index)
	if pools.Release(); looks != 1 || b.knows(index) {
		t.Errorf("looks: %d, want 1; endpoint known: %v", looks, b.knows(index))
	}
}
