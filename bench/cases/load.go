// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"slices"

	"github.com/xlb-project/xlb/bench/lab"
)

// Load is one kind of load at one number of connections.
type Load struct {
	Case        string `json:"case"`
	Connections int    `json:"connections"`
	// Message is the size of a message in bytes; WebSocket only.
	Message int `json:"message_bytes,omitempty"`
	// RouteKind and Routes are of the routes case only.
	RouteKind string `json:"route_kind,omitempty"`
	Routes    int    `json:"routes,omitempty"`
	// Choice and Rate, in requests a second, are of the least case only.
	Choice string `json:"choice,omitempty"`
	Rate   int    `json:"rate,omitempty"`
	// Generator of the keepalive case; empty stands for wrk.
	Generator string `json:"generator,omitempty"`
	Scaled
}

// KeptAlive has so many connections that stay open.
func KeptAlive(connections int) Load { return Load{Case: Keepalive, Connections: connections} }

// from is the same load of another generator.
func (l Load) from(generator string) Load {
	if generator != Wrk {
		l.Generator = generator
	}
	return l
}

// ShortLived has so many clients that connect for each request.
func ShortLived(connections int) Load { return Load{Case: Short, Connections: connections} }

// WithMessages sends messages of so many bytes over so many connections.
func WithMessages(connections, message int) Load {
	return Load{Case: WebSocket, Connections: connections, Message: message}
}

// ThroughRoutes asks for the routes of a table of n of one kind.
func ThroughRoutes(connections int, kind string, n int) Load {
	return Load{Case: Routes, Connections: connections, RouteKind: kind, Routes: n}
}

// LeastLoaded sends rate requests a second to endpoints of which one is slow.
func LeastLoaded(choice string, rate int) Load {
	return Load{Case: Least, Connections: LeastClients * leastClientConnections, Choice: choice, Rate: rate}
}

// UsedBy is a load of an application by so many users.
func UsedBy(name string, users int) Load { return Load{Case: name, Connections: users} }

// String names one load; no other has its name.
func (l Load) String() string {
	if l.IsScaled() {
		return l.scaledString()
	}
	switch l.Case {
	case Bookstore, Bank:
		return fmt.Sprintf("%s, %d users", l.Case, l.Connections)
	case Least:
		return fmt.Sprintf("%s of %s, %d requests/s from %d processes", l.Case, l.Choice, l.Rate, LeastClients)
	case WebSocket:
		return fmt.Sprintf("%s, messages of %d bytes, %d connections", l.Case, l.Message, l.Connections)
	case Routes:
		return fmt.Sprintf("%s, %s, %d in the table, %d connections", l.Case, l.RouteKind, l.Routes, l.Connections)
	}
	if l.Generator != "" {
		return fmt.Sprintf("%s by %s, %d connections", l.Case, l.Generator, l.Connections)
	}
	return fmt.Sprintf("%s, %d connections", l.Case, l.Connections)
}

// Spreads reports whether it matters under a load which endpoint a connection goes to, and any would do.
func (l Load) Spreads() bool {
	return slices.Contains([]string{Keepalive, Short, Setup, Connections, Sizes, Rate}, l.Case)
}

// IsApp reports whether a load is one of an application.
func (l Load) IsApp() bool { return slices.Contains(Apps, l.Case) }

// RunsIn reports whether a load is measured in a topology.
func (l Load) RunsIn(topology lab.Topology) bool {
	return topology == lab.SameHost || !slices.Contains([]string{Chain, Density, Rules, Changes}, l.Case)
}

// Compared puts loads together whose figures are compared with each other.
func Compared(loads []Load) [][]Load {
	var groups [][]Load
	for _, l := range loads {
		n := len(groups)
		if n > 0 && (l.Case == Routes && groups[n-1][0].RouteKind == l.RouteKind || l.ComparedWith(groups[n-1][0])) {
			groups[n-1] = append(groups[n-1], l)
			continue
		}
		groups = append(groups, []Load{l})
	}
	return groups
}
