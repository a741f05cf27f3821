// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"slices"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// corsSplit is the routes of a virtual host with those that have a CORS policy in two: one for requests with an Origin header, which
// the slow path serves, and behind it one for the others, to whom no policy does anything.
type corsSplit struct {
	routes []*model.Route
	// positions of the routes in the virtual host; nil where none is split.
	positions []int
}

func splitByCORS(routes []*model.Route) corsSplit {
	if !slices.ContainsFunc(routes, hasCORSSplit) {
		return corsSplit{routes: routes}
	}
	var d corsSplit
	add := func(position int, r *model.Route) {
		d.routes = append(d.routes, r)
		d.positions = append(d.positions, position)
	}
	for i, r := range routes {
		if hasCORSSplit(r) {
			add(i, withOrigin(r))
			r = withoutPolicy(r)
		}
		add(i, r)
	}
	return d
}

// position in the virtual host of one of the routes.
func (d *corsSplit) position(i int) int {
	if d.positions == nil {
		return i
	}
	return d.positions[i]
}

// hasCORSSplit reports whether a route does nothing that the kernel cannot do but for its CORS policy.
func hasCORSSplit(r *model.Route) bool {
	return r.Beyond() != "" && withoutPolicy(r).Beyond() == ""
}

// withOrigin leaves a route to requests that have the header.
func withOrigin(r *model.Route) *model.Route {
	out := *r
	out.Headers = append(slices.Clip(r.Headers), matcher.HeaderMatch{Name: "origin", Kind: matcher.HeaderPresent})
	return &out
}

func withoutPolicy(r *model.Route) *model.Route {
	out := *r
	out.Filters.CORS = nil
	out.Clusters = slices.Clone(r.Clusters)
	for i := range out.Clusters {
		if own := out.Clusters[i].Filters; own != nil {
			out.Clusters[i].Filters = &model.RouteFilters{Fault: own.Fault, Session: own.Session}
		}
	}
	return &out
}
