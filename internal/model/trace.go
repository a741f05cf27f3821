// SPDX-License-Identifier: Apache-2.0

package model

import "github.com/xlb-project/xlb/internal/model/matcher"

// Trace is how a request came to its route.
type Trace struct {
	// VirtualHost is nil when no domain matches the authority.
	VirtualHost *VirtualHost
	// Domain of the virtual host that matched.
	Domain string
	// Lost says, for each route of the virtual host before the one that matched, or
	// for all when none did, what did not hold.
	Lost []Unmet
	// Route is what Match returns.
	Route *Route
}

// Trace matches as Match does, and tells how.
func (t *RouteTable) Trace(r *matcher.Request) Trace {
	var trace Trace
	trace.Route = t.match(r, &trace)
	return trace
}

// UnmetKind says which part of a route's match did not hold.
type UnmetKind uint8

const (
	// UnmetNothing: the route matches.
	UnmetNothing UnmetKind = iota
	// UnmetPath is the path, or CONNECT where the other was asked for.
	UnmetPath
	// UnmetFraction is the draw.
	UnmetFraction
	// UnmetGRPC is the content type.
	UnmetGRPC
	// UnmetHeader is one of Route.Headers.
	UnmetHeader
	// UnmetQuery is one of Route.Query.
	UnmetQuery
	// UnmetCookie is one of Route.Cookies.
	UnmetCookie
)

// Unmet is the first condition of a route that a request does not satisfy. The zero
// value is none: conditions are tried in the order of the kinds.
type Unmet struct {
	Kind UnmetKind
	// Index into the route's list of that kind.
	Index int
}

// Seen returns what the request has where the condition looks: several values of a
// repeated header, none of what does not occur.
func (u Unmet) Seen(route *Route, r *matcher.Request) []string {
	switch u.Kind {
	case UnmetGRPC:
		return r.Header("content-type")
	case UnmetHeader:
		return r.Header(route.Headers[u.Index].Name)
	case UnmetQuery:
		return found(r.QueryValue(route.Query[u.Index].Name))
	case UnmetCookie:
		return found(r.Cookie(route.Cookies[u.Index].Name))
	default:
		return nil
	}
}

func found(value string, ok bool) []string {
	if !ok {
		return nil
	}
	return []string{value}
}

// Possible returns the routes that a request may take, whatever its draw: more than
// one where fractions decide. orNone says that it may take none of them.
func (t *RouteTable) Possible(r *matcher.Request) (routes []*Route, orNone bool) {
	// A fraction that ever holds does so for 0.
	lucky := *r
	lucky.Draw = 0
	vh, _ := t.virtualHost(r.Authority)
	if vh == nil {
		return nil, true
	}
	path := t.ComparedPath(r)
	for _, route := range vh.Routes {
		if route.unmet(&lucky, path) != (Unmet{}) {
			continue
		}
		routes = append(routes, route)
		if route.Fraction.Always() {
			return routes, false
		}
	}
	return routes, true
}
