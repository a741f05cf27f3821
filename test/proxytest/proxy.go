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
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/slowpath"
)

// configuration is one whose listeners are all of HTTP, without names of the kernel's.
type configuration struct {
	*model.Config
	tables map[string]*model.RouteTable
}

// Active has a configuration in force, by the names of its listeners.
func Active(cfg *model.Config) func() slowpath.Configuration {
	c := configuration{cfg, map[string]*model.RouteTable{}}
	for _, l := range cfg.Listeners {
		c.tables[l.Name] = l.Routes
	}
	return func() slowpath.Configuration { return c }
}

// Routes implements slowpath.Configuration.
func (c configuration) Routes(listener string) (*model.RouteTable, bool) {
	table, ok := c.tables[listener]
	return table, ok
}

// Match implements slowpath.Configuration.
func (configuration) Match(t *model.RouteTable, r *matcher.Request, _ func() (gone bool)) *model.Route {
	return t.Match(r)
}

// TCP implements slowpath.Configuration.
func (configuration) TCP(string) *model.TCPProxy { return nil }

// Inspection implements slowpath.Configuration.
func (configuration) Inspection(string) *model.Inspection { return nil }

// Key implements slowpath.Configuration.
func (configuration) Key(v model.View, name string) model.ClusterKey {
	return new(model.Config).In(v).Key(name)
}

// HasListener implements slowpath.Configuration.
func (c configuration) HasListener(listener string) bool { return c.tables[listener] != nil }

// View implements slowpath.Configuration.
func (configuration) View(string) model.View { return model.View{} }

// Start serves each listener of the configuration at a loopback address, until the test ends. It returns the addresses in the order of the
// listeners.
func Start(t testing.TB, cfg *model.Config, balancer slowpath.Balancer) []netip.AddrPort {
	t.Helper()
	proxy := slowpath.New(slowpath.Config{Active: Active(cfg), Balancer: balancer})
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
