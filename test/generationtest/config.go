// SPDX-License-Identifier: Apache-2.0

package generationtest

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// Staged are endpoints at ports from 1 with a stage each, in the cluster "web" with subsets by stage.
func Staged(fallback model.SubsetFallback, stages ...string) *model.Cluster {
	c := &model.Cluster{Name: "web", Subsets: &model.Subsets{
		Selectors: []model.SubsetSelector{{Keys: []string{"stage"}, Fallback: model.ClusterFallback}}, Fallback: fallback, Default: Stage("prod"),
	}}
	for i, s := range stages {
		address := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(i+1))
		c.Endpoints = append(c.Endpoints, model.Endpoint{Address: address, Weight: 1, Metadata: Stage(s)})
	}
	return c
}

// Stage is the criteria of a stage.
func Stage(name string) model.Metadata { return model.NewMetadata(map[string]any{"stage": name}) }

// WithRoutes is a configuration of one cluster, with routes that have these criteria.
func WithRoutes(c *model.Cluster, criteria ...model.Metadata) *model.Config {
	vh := &model.VirtualHost{Name: "all", Domains: []string{"*"}}
	for i, asked := range criteria {
		vh.Routes = append(vh.Routes, &model.Route{
			Path:     matcher.PathMatch{Kind: matcher.PathExact, Value: fmt.Sprintf("/%d", i)},
			Clusters: []model.WeightedCluster{{Name: c.Name, Weight: 1, Criteria: asked}},
		})
	}
	return &model.Config{
		Listeners: []*model.Listener{{Name: "l", Address: netip.MustParseAddrPort("127.80.0.1:80"), Routes: &model.RouteTable{VirtualHosts: []*model.VirtualHost{vh}}}},
		Clusters:  []*model.Cluster{c},
	}
}

// PortsOf are endpoints at these ports, in the cluster "web", and some routes.
func PortsOf(routes int, ports ...uint16) *model.Config {
	c := &model.Cluster{Name: "web"}
	for _, port := range ports {
		address := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
		c.Endpoints = append(c.Endpoints, model.Endpoint{Address: address, Weight: 1})
	}
	return WithRoutes(c, slices.Repeat([]model.Metadata{""}, routes)...)
}
