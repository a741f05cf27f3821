// SPDX-License-Identifier: Apache-2.0

package model

import (
	"net/netip"
	"runtime"
	"testing"
)

// manyRoutes is a listener with so many routes to one cluster, whose endpoint is the address of another listener.
func manyRoutes(routes int) *Config {
	address := netip.MustParseAddrPort("127.0.0.1:80")
	to := &Listener{Name: "to", Address: address, Routes: &RouteTable{VirtualHosts: []*VirtualHost{{Routes: []*Route{{Clusters: []WeightedCluster{{Name: "server"}}}}}}}}
	host := &VirtualHost{}
	for range routes {
		host.Routes = append(host.Routes, &Route{Clusters: []WeightedCluster{{Name: "inner"}}})
	}
	from := &Listener{Name: "from", Address: netip.MustParseAddrPort("127.0.0.1:81"), Routes: &RouteTable{VirtualHosts: []*VirtualHost{host}}}
	inner := &Cluster{Name: "inner", Endpoints: []Endpoint{{Address: address}}}
	server := &Cluster{Name: "server", Endpoints: []Endpoint{{Address: netip.MustParseAddrPort("127.0.0.1:82")}}}
	return &Config{Listeners: []*Listener{from, to}, Clusters: []*Cluster{inner, server}}
}

// A listener's routes are looked at one after another: 100,000 of them take no memory.
func TestCirclesOfManyRoutesTakeNoMemory(t *testing.T) {
	cfg := manyRoutes(20_000)
	in := InnerOf(cfg.Listeners)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if hops := cfg.Circles(in); len(hops) != 0 {
		t.Errorf("got %v, want no circle", hops)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("took %d MiB for 20,000 routes, want none for each", took>>20)
	}
}
