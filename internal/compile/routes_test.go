// SPDX-License-Identifier: Apache-2.0

package compile

import "github.com/xlb-project/xlb/internal/model"

func prefixRoute(value, cluster string, headers ...model.HeaderMatch) *model.Route {
	return routeOf(model.PathMatch{Kind: model.PathPrefix, Value: value}, cluster, headers...)
}

func exactRoute(value, cluster string) *model.Route {
	return routeOf(model.PathMatch{Kind: model.PathExact, Value: value}, cluster)
}

func routeOf(m model.PathMatch, cluster string, headers ...model.HeaderMatch) *model.Route {
	return &model.Route{Path: m, Headers: headers, Clusters: []model.WeightedCluster{{Name: cluster, Weight: 1}}}
}

func oneHost(routes ...*model.Route) *model.RouteTable {
	return &model.RouteTable{VirtualHosts: []*model.VirtualHost{{Name: "vh", Domains: []string{"*"}, Routes: routes}}}
}

func exactHeader(name, value string) model.HeaderMatch {
	return model.HeaderMatch{Name: name, Kind: model.HeaderString, String: model.Exact(value)}
}
