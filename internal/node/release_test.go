// SPDX-License-Identifier: Apache-2.0

package node

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/balance"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/pool"
	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/generationtest"
)

// pooled gives the node a pool.
func (b *balancing) pooled() {
	b.t.Helper()
	sockets := maps.NewSockets(nil, nil, nil, nil, nil, nil, nil)
	sockets.Peers = maps.NewFakeTable[maps.PeerKey, uint32](nil)
	p, err := pool.New(pool.Config{Shared: b.kernel.Shared, Sockets: sockets, Logger: slog.New(slog.DiscardHandler), Released: b.released})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := p.Close(); err != nil {
			b.t.Error(err)
		}
	})
	b.pool, b.waiting = p, map[uint32]struct{}{}
}

// knows reports whether an index stands for an endpoint.
func (b *balancing) knows(index uint32) bool {
	for _, e := range b.reconcil.Endpoints() {
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
	b.pooled()
	index, ok := b.generation.Load().IndexOf("web", "127.0.0.1:2")
	if !ok {
		t.Fatal("the endpoint is not known")
	}
	picker := balance.New(b.kernel.Shared)
	picker.Claim(index)
	b.use(one)
	b.released(index)
	b.releaseWaiting()
	b.use(both)
	b.pool.Change([]pool.Endpoint{{Index: index, Address: netip.MustParseAddrPort("127.0.0.1:2"), ConnectTimeout: time.Second}}, nil)
	b.use(one)
	picker.Done(index)
	b.releaseWaiting()
	if !b.knows(index) {
		t.Error("the number of an endpoint that the pool knows may be another's")
	}
	b.pool.Change(nil, []uint32{index})
	await.Quiet(t, func() string {
		if b.releaseWaiting(); b.knows(index) {
			return "the number of an endpoint that has gone stands for it still"
		}
		return ""
	})
}
