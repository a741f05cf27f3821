// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"slices"

	"github.com/xlb-project/xlb/internal/model"
)

// division is the routes of a virtual host with those that have a CORS policy in two: one for requests with an Origin header, which
// the slow path serves, and behind it one for the others, to whom no policy does anything.
type division struct {
	routes []*model.Route
	// positions of the routes in the virtual host; nil where none is divided.
	positions []int
}

func divide(routes []*model.Route) division {
	if !slices.ContainsFunc(routes, isDivided) {
		return division{routes: routes}
	}
	var d division
	add := func(position int, r *model.Route) {
		d.routes = append(d.routes, r)
		d.positions = append(d.positions, position)
	}
	for i, r := range routes {
		if isDivided(r) {
			add(i, withOrigin(r))
			r = withoutPolicy(r)
		}
		add(i, r)
	}
	return d
}

// position in the virtual host of one of the routes.
func (d *division) position(i int) int {
	if d.positions == nil {
		return i
	}
	return d.positions[i]
}

// isDivided reports whether a route does nothing that the kernel cannot do but for its CORS policy.
func isDivided(r *model.Route) bool {
	return r.Beyond() != "" && withoutPolicy(r).Beyond() == ""
}

// withOrigin leaves a route to requests that have the header.
func withOrigin(r *model.Route) *model.Route {
	out := *r
	out.Headers = append(slices.Clip(r.Headers), model.HeaderMatch{Name: "origin", Kind: model.HeaderPresent})
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
