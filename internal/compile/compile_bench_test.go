// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"fmt"
	"slices"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
)

// BenchmarkCompile measures one virtual host of 10,000 routes, and 1,000 of ten.
func BenchmarkCompile(b *testing.B) {
	const n = 10000
	for _, kind := range []struct {
		name  string
		hosts int
		route func(i int) *model.Route
	}{
		{"exact", 1, func(i int) *model.Route { return exactRoute(fmt.Sprintf("/api/v1/service%05d/users", i), "c") }},
		{"prefix", 1, func(i int) *model.Route { return prefixRoute(fmt.Sprintf("/api/v1/service%05d/", i), "c") }},
		{"header", 1, func(i int) *model.Route {
			return prefixRoute("/", "c", exactHeader("x-tenant", fmt.Sprintf("tenant-%05d", i)))
		}},
		{"hosts", n / 10, func(i int) *model.Route { return prefixRoute(fmt.Sprintf("/api/v1/service%05d/", i), "c") }},
	} {
		b.Run(kind.name, func(b *testing.B) {
			rt := &model.RouteTable{}
			for h := range kind.hosts {
				vh := &model.VirtualHost{Name: fmt.Sprintf("vh%d", h), Domains: []string{fmt.Sprintf("vh%d.example.com", h)}}
				for i := range n / kind.hosts {
					vh.Routes = append(vh.Routes, kind.route(h*n/kind.hosts+i))
				}
				rt.VirtualHosts = append(rt.VirtualHosts, vh)
			}
			cfg := &model.Config{Listeners: []*model.Listener{{Name: "l", Routes: rt}}, Clusters: []*model.Cluster{{Name: "c"}}}
			b.ReportAllocs()
			for b.Loop() {
				Compile(cfg)
			}
		})
	}
}

// BenchmarkOneViewOfMany has one route of one of 60 views of 1,000 change.
func BenchmarkOneViewOfMany(b *testing.B) {
	cfg := &model.Config{}
	for v := range 60 {
		view := model.View{Number: uint32(v), Name: fmt.Sprintf("v%d", v)}
		vh := &model.VirtualHost{Name: "vh", Domains: []string{"*"}}
		for i := range 1000 {
			vh.Routes = append(vh.Routes, prefixRoute(fmt.Sprintf("/api/v1/service%05d/", i), "c"))
		}
		cfg.Listeners = append(cfg.Listeners, &model.Listener{View: view, Name: "l", Routes: &model.RouteTable{VirtualHosts: []*model.VirtualHost{vh}}})
		cfg.Clusters = append(cfg.Clusters, &model.Cluster{View: view, Name: "c"})
	}
	compiler := NewCompiler()
	compiler.Compile(cfg)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		next := *cfg
		next.Listeners = slices.Clone(cfg.Listeners)
		changed := *cfg.Listeners[i*7%60]
		next.Listeners[i*7%60] = &changed
		compiler.Compile(&next)
		cfg = &next
		i++
	}
}
