// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/http"
	"slices"

	healthcheckv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/health_check/v3"

	"github.com/xlb-project/xlb/internal/model"
)

// readyFilter translates the filter by which load balancers ask whether the listener serves: which requests it answers itself.
func (t *translator) readyFilter(in *healthcheckv3.HealthCheck, out *httpFilters, path string) {
	if out.ready != nil || len(out.order) > 0 {
		t.p.Add(path, "the health_check filter has to be the first one, and the only one of its type; move it to the front of http_filters")
	}
	if in.GetPassThroughMode() == nil {
		t.p.Add(path+".typed_config.pass_through_mode", "missing, which Envoy refuses; write false")
	}
	out.ready = &readiness{matches: t.headerMatches(in.GetHeaders(), path+".typed_config.headers")}
}

// readiness is a filter of the connection manager, which comes before all routes.
type readiness struct{ matches []model.HeaderMatch }

// addTo puts a route in front of those of every virtual host; hosts without one get one that has no other.
func (r *readiness) addTo(table *model.RouteTable) {
	if r == nil {
		return
	}
	answer := func() *model.Route {
		return &model.Route{
			Name: "health_check", Path: model.PathMatch{Kind: model.PathPrefix, Value: "/"}, Headers: r.matches,
			Direct: &model.DirectResponse{Status: http.StatusOK}, Timeout: model.DefaultRouteTimeout,
		}
	}
	all := false
	for _, vh := range table.VirtualHosts {
		vh.Routes = append([]*model.Route{answer()}, vh.Routes...)
		all = all || slices.Contains(vh.Domains, "*")
	}
	if !all {
		table.VirtualHosts = append(table.VirtualHosts, &model.VirtualHost{Name: "health_check", Domains: []string{"*"}, Routes: []*model.Route{answer()}})
	}
}
