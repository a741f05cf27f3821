// SPDX-License-Identifier: Apache-2.0

// Package proxytest serves configurations with the slow path alone, in the test's own process.
package proxytest

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath"
)

// Start serves each listener of the configuration at a loopback address, until the test ends. It returns the addresses in the order of the
// listeners.
func Start(t testing.TB, cfg *model.Config, balancer slowpath.Balancer) []netip.AddrPort {
	t.Helper()
	tables := map[string]*model.RouteTable{}
	for _, l := range cfg.Listeners {
		tables[l.Name] = l.Routes
	}
	proxy := slowpath.New(slowpath.Config{
		Table:    func(name string) (*model.RouteTable, bool) { table, ok := tables[name]; return table, ok },
		Cluster:  cfg.Cluster,
		Balancer: balancer,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var calls sync.WaitGroup
	t.Cleanup(calls.Wait)
	var addresses []netip.AddrPort
	for _, l := range cfg.Listeners {
		listening, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			cancel()
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listening.Close() })
		addresses = append(addresses, netip.MustParseAddrPort(listening.Addr().String()))
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
	return addresses
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
