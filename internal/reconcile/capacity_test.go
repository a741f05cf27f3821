// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// crowd is a cluster of so many endpoints.
func crowd(name string, net byte, n int) *model.Cluster {
	c := &model.Cluster{Name: name}
	for i := range n {
		c.Endpoints = append(c.Endpoints, model.Endpoint{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, net, byte(i >> 8), byte(i)}), 80), Weight: 1})
	}
	return c
}

// crowds is a configuration of clusters that one route each leads to; more is a further route.
func crowds(more string, clusters ...*model.Cluster) *model.Config {
	host := &model.VirtualHost{Name: "all", Domains: []string{"*"}}
	add := func(path, cluster string) {
		host.Routes = append(host.Routes, &model.Route{Path: matcher.PathMatch{Kind: matcher.PathExact, Value: path}, Clusters: []model.WeightedCluster{{Name: cluster, Weight: 1}}})
	}
	for _, c := range clusters {
		add("/"+c.Name, c.Name)
	}
	add(more, clusters[0].Name)
	return &model.Config{
		Listeners: []*model.Listener{{Name: "l", Address: netip.MustParseAddrPort("127.80.0.1:80"), Routes: &model.RouteTable{Name: "t", VirtualHosts: []*model.VirtualHost{host}}}},
		Clusters:  clusters,
	}
}

// What there is no room for takes none, and keeps nothing that comes after it from being put in force.
func TestTooManyEndpointsLeaveRoomForWhatComesNext(t *testing.T) {
	g := newRig(t)
	a, small := crowd("a", 1, 100), crowd("b", 2, 10)
	g.mustApply(crowds("/1", a, small))
	room := g.r.indices.clusters.Endpoints.Left()
	for name, apply := range map[string]func(*compile.Image) error{
		"applied":  func(im *compile.Image) error { _, err := g.r.Apply(im); return err },
		"switched": g.r.Switch,
	} {
		for range 3 {
			im, _ := compile.Compile(crowds("/1", a, crowd("b", 3, 200)))
			err := apply(im)
			full, is := errors.AsType[*FullError](err)
			if !is || full.Cluster != model.SharedCluster("b") || full.New != 200 || full.Most != 200 || full.Left != int(room) {
				t.Fatalf("%s: got %v, want to hear of 200 new endpoints, and of room for %d", name, err, room)
			}
			if left := g.r.indices.clusters.Endpoints.Left(); left != room {
				t.Fatalf("%s: %d indices are left, %d were before", name, left, room)
			}
		}
	}
	for i := range 3 {
		g.mustApply(crowds(fmt.Sprintf("/next/%d", i), a, small))
	}
	g.mustApply(crowds("/1", a, small, crowd("c", 4, int(room))))
}
