// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

// BenchmarkMerge has one cluster of one view change, of some views with many equal clusters each: alone, which makes it wait, and together with all others.
func BenchmarkMerge(b *testing.B) {
	for _, size := range []struct{ views, clusters int }{{5, 10000}, {60, 1000}} {
		many := func(view int, port uint16) *model.Config {
			p := &model.Config{}
			for i := range size.clusters {
				p.Clusters = append(p.Clusters, cluster(viewNumber(view), fmt.Sprintf("service%05d", i), port))
			}
			return p
		}
		parts := make([]*model.Config, size.views)
		for v := range parts {
			parts[v] = many(v, 1)
		}
		changed := func(view int) *model.Config {
			p := *parts[view]
			p.Clusters = slices.Clone(p.Clusters)
			p.Clusters[77] = cluster(viewNumber(view), "service00077", 2)
			return &p
		}
		name := fmt.Sprintf("%d views of %d", size.views, size.clusters)
		b.Run(name+"/at first", func(b *testing.B) {
			for b.Loop() {
				New(Times{Patience: patience}).Merge(parts, start)
			}
		})
		alone, together := slices.Clone(parts), make([]*model.Config, size.views)
		alone[1] = changed(1)
		for v := range together {
			together[v] = changed(v)
		}
		for _, of := range []struct {
			name string
			to   []*model.Config
		}{{"alone", alone}, {"together", together}} {
			b.Run(name+"/"+of.name, func(b *testing.B) {
				m := New(Times{Patience: patience})
				m.Accept(m.Merge(parts, start))
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					i++
					now := m.Merge([][]*model.Config{of.to, parts}[i%2], start)
					m.Accept(now)
				}
			})
		}
	}
}

// BenchmarkReread has a view's file of 10,000 routes be read again: with the same content, and with other endpoints of a cluster that two views share, where it is to be
// known whether the routes are the same.
func BenchmarkReread(b *testing.B) {
	for _, port := range []uint16{1, 2} {
		read := func(view int, port uint16) *model.Config {
			v := viewNumber(view)
			return &model.Config{Listeners: []*model.Listener{routed(v, 10000)}, Clusters: []*model.Cluster{cluster(v, "service", port)}}
		}
		before := []*model.Config{read(0, 1), read(1, 1)}
		now := []*model.Config{before[0], read(1, port)}
		b.Run(map[uint16]string{1: "the same", 2: "other endpoints"}[port], func(b *testing.B) {
			m := New(Times{Patience: patience})
			m.Accept(m.Merge(before, start))
			for b.Loop() {
				m.Merge(now, start)
			}
		})
	}
}

// routed is a listener with so many routes, each with a header to match and one to add.
func routed(v model.View, routes int) *model.Listener {
	table := &model.RouteTable{Name: "table", VirtualHosts: []*model.VirtualHost{{Name: "all", Domains: []string{"*"}}}}
	for i := range routes {
		name := fmt.Sprintf("route%05d", i)
		table.VirtualHosts[0].Routes = append(table.VirtualHosts[0].Routes, &model.Route{
			Path: matcher.PathMatch{Value: "/" + name}, Headers: []matcher.HeaderMatch{{Name: "x-of", String: matcher.StringMatch{Value: name}}},
			Clusters: []model.WeightedCluster{{Name: "service", Weight: 1}}, Changes: rewrite.HeaderLevel{Request: rewrite.HeaderChanges{Set: []rewrite.HeaderSetting{{Name: "x-route"}}}},
		})
	}
	table.OrderChanges()
	return &model.Listener{View: v, Name: "web", Address: netip.MustParseAddrPort("10.96.0.1:80"), Routes: table}
}

// BenchmarkPush has one cluster of many endpoints change, of which views hear one after another.
func BenchmarkPush(b *testing.B) {
	for _, views := range []int{5, 255} {
		parts := func(last uint16) []*model.Config {
			list := make([]*model.Config, views)
			for v := range list {
				list[v] = &model.Config{Clusters: []*model.Cluster{wide(viewNumber(v), last)}}
			}
			return list
		}
		before, next := parts(1), parts(2)
		b.Run(fmt.Sprintf("%d views", views), func(b *testing.B) {
			m := New(Times{Patience: patience})
			m.Accept(m.Merge(before, start))
			for b.Loop() {
				now := slices.Clone(before)
				for v := range now {
					now[v] = next[v]
					m.Accept(m.Merge(now, start))
				}
				m.Accept(m.Merge(before, start))
			}
		})
	}
}

func wide(v model.View, last uint16) *model.Cluster {
	c := cluster(v, "service", last)
	for i := range 1000 {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 80)
		c.Endpoints = append(c.Endpoints, model.Endpoint{Address: at, Weight: 1})
	}
	return c
}
