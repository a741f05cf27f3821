// SPDX-License-Identifier: Apache-2.0

package match

import (
	"slices"
	"sync"

	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/model"
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

// lookEvery is how many bytes are compared between two looks at whether the client has gone: some
// milliseconds of work.
const lookEvery = 256 << 10

func (h *host) match(t *model.RouteTable, r *model.Request, gone func() bool) *model.Route {
	p := h.paths()
	if r.Connect {
		return h.first(p.connects, r)
	}
	path := t.ComparedPath(r)
	c := p.candidates(path)
	compared := 0
	for position, sure, ok := c.next(); ok; position, sure, ok = c.next() {
		route := h.model.Routes[position]
		if !sure {
			compared += len(path)
			if compared >= lookEvery && gone != nil {
				compared = 0
				if gone() {
					return nil
				}
			}
			if !route.Path.Matches(path) {
				continue
			}
		}
		if route.ConditionsHold(r) {
			return route
		}
	}
	return nil
}

func (h *host) first(positions []uint32, r *model.Request) *model.Route {
	for _, position := range positions {
		if route := h.model.Routes[position]; route.ConditionsHold(r) {
			return route
		}
	}
	return nil
}
