// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"strconv"
)

// Kind is what endpoints are. Loads of one kind share them.
type Kind int

// Kinds of endpoints.
const (
	// Nginxes answer with a body.
	Nginxes Kind = iota
	// Echoes return WebSocket messages.
	Echoes
	// Timed take their time to answer.
	Timed
	// Sinks answer when they have read a whole body.
	Sinks
	// Nothing is there: the load brings its own.
	Nothing
	// Applications bring their own, anew in each turn.
	Applications
)

// Endpoints is what a load needs.
func (l Load) Endpoints() Kind {
	if l.IsScaled() {
		return l.scaledEndpoints()
	}
	switch l.Case {
	case Bookstore, Bank:
		return Applications
	case WebSocket:
		return Echoes
	case Least:
		return Timed
	}
	return Nginxes
}

// scaledEndpoints is what a load of these cases needs.
func (l Load) scaledEndpoints() Kind {
	if l.Case == Chain || l.Case == Density || l.Case == Changes {
		return Nothing
	}
	if l.Case == Sizes && l.Way == WayRequest {
		return Sinks
	}
	return Nginxes
}

// PathOf is the request target of a load.
func (o Options) PathOf(l Load) string {
	if l.Case == Sizes {
		return pathOfSize(l.Size, l.Way)
	}
	return o.path()
}

// pathOfSize is where an endpoint answers with so many bytes. Sinks answer everywhere.
func pathOfSize(size int, way string) string {
	if size == 0 || way == WayRequest {
		return "/"
	}
	return "/" + strconv.Itoa(size)
}
