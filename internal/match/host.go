// SPDX-License-Identifier: Apache-2.0

package match

import (
	"slices"
	"sync"

	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// host is a virtual host.
type host struct {
	model *model.VirtualHost
	// paths is the index, which is made when it is first asked for, unless it takes automata: of thousands of virtual hosts most never are.
	paths func() *paths
}

func newHost(vh *model.VirtualHost, compiler *dfa.Compiler) *host {
	hasExpression := slices.ContainsFunc(vh.Routes, func(r *model.Route) bool { return isExpression(r.Path) })
	if !hasExpression {
		return &host{vh, sync.OnceValue(func() *paths { return newPaths(vh.Routes, nil) })}
	}
	made := newPaths(vh.Routes, compiler)
	return &host{vh, func() *paths { return made }}
}

func (h *host) match(t *Table, r *matcher.Request, at *pace) *model.Route {
	p := h.paths()
	if r.Connect {
		return h.first(p.connects, r, at)
	}
	path := t.model.ComparedPath(r)
	c, ok := p.candidates(path, at)
	if !ok {
		return nil
	}
	v := verdicts{paths: p, lazies: t.lazies, path: path, at: at}
	for position, sure, ok := c.next(); ok && !at.gone; position, sure, ok = c.next() {
		route := h.model.Routes[position]
		if !sure && !v.of(position, &route.Path, c.unsure) {
			continue
		}
		if done, found := decide(route, r, at); done {
			return found
		}
	}
	return nil
}

// decide asks whether all but the path match of a route holds. The match is done when it does, or when the client has gone: then no route is found.
func decide(route *model.Route, r *matcher.Request, at *pace) (done bool, found *model.Route) {
	holds := route.ConditionsHold(r)
	// Each condition may read all of the path; header fields are counted as they are read.
	if !at.goOn(lookUp + (len(route.Headers)+len(route.Query))*(lookUp+len(r.Path))) {
		return true, nil
	}
	if holds {
		return true, route
	}
	return false, nil
}

func (h *host) first(positions []uint32, r *matcher.Request, at *pace) *model.Route {
	for _, position := range positions {
		if done, found := decide(h.model.Routes[position], r, at); done {
			return found
		}
	}
	return nil
}
