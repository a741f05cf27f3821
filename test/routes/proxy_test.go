// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath"
)

// startProxy serves each listener of the configuration with the slow path, at an address of its own.
func startProxy(t testing.TB, cfg *model.Config) *peer {
	t.Helper()
	tables := map[string]*model.RouteTable{}
	for _, l := range cfg.Listeners {
		tables[l.Name] = l.Routes
	}
	proxy := slowpath.New(slowpath.Config{
		Table:    func(name string) (*model.RouteTable, bool) { table, ok := tables[name]; return table, ok },
		Cluster:  cfg.Cluster,
		Balancer: balancer{cfg},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var calls sync.WaitGroup
	p := &peer{conns: make([]*conn, len(cfg.Listeners))}
	for _, l := range cfg.Listeners {
		listening, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listening.Close() })
		p.addresses = append(p.addresses, listening.Addr().String())
		calls.Go(func() {
			for {
				c, err := listening.Accept()
				if err != nil {
					return
				}
				calls.Go(func() { serve(ctx, proxy, c, l.Name) })
			}
		})
	}
	t.Cleanup(func() { // before the listeners close: the last registered runs first
		cancel()
		proxy.Close()
	})
	return p
}

// serve answers until the connection has ended.
func serve(ctx context.Context, proxy *slowpath.Proxy, c net.Conn, listener string) {
	for {
		r, _ := proxy.Serve(ctx, c, slowpath.Session{Listener: listener}) // the client sees what went wrong
		if !r.Quiet {
			return
		}
	}
}

// balancer takes the first endpoint of a cluster.
type balancer struct{ cfg *model.Config }

type picked netip.AddrPort

func (p picked) Address() netip.AddrPort { return netip.AddrPort(p) }

func (picked) Done(slowpath.Outcome) {}

func (b balancer) Pick(cluster string, _ uint64, skip func(netip.AddrPort) bool) (slowpath.Picked, bool) {
	for _, e := range b.cfg.Cluster(cluster).Endpoints {
		if !skip(e.Address) {
			return picked(e.Address), true
		}
	}
	return nil, false
}
