// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

func prefixRoute(value, cluster string, headers ...matcher.HeaderMatch) *model.Route {
	return routeOf(matcher.PathMatch{Kind: matcher.PathPrefix, Value: value}, cluster, headers...)
}

func exactRoute(value, cluster string) *model.Route {
	return routeOf(matcher.PathMatch{Kind: matcher.PathExact, Value: value}, cluster)
}

func routeOf(m matcher.PathMatch, cluster string, headers ...matcher.HeaderMatch) *model.Route {
	return &model.Route{Path: m, Headers: headers, Clusters: []model.WeightedCluster{{Name: cluster, Weight: 1}}}
}

func oneHost(routes ...*model.Route) *model.RouteTable {
	return &model.RouteTable{VirtualHosts: []*model.VirtualHost{{Name: "vh", Domains: []string{"*"}, Routes: routes}}}
}

func exactHeader(name, value string) matcher.HeaderMatch {
	return matcher.HeaderMatch{Name: name, Kind: matcher.HeaderString, String: matcher.Exact(value)}
}
