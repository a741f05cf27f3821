// SPDX-License-Identifier: Apache-2.0

package xds

import "fmt"

// Kind is a type of resource that this package asks for.
type Kind uint8

const (
	// Clusters are envoy.config.cluster.v3.Cluster (CDS).
	Clusters Kind = iota
	// Assignments are envoy.config.endpoint.v3.ClusterLoadAssignment (EDS).
	Assignments
	// Listeners are envoy.config.listener.v3.Listener (LDS).
	Listeners
	// Routes are envoy.config.route.v3.RouteConfiguration (RDS).
	Routes

	kinds = iota
)

// every lists the kinds in the order in which a stream asks for them: what refers to others comes before them, and clusters
// come before routes, as Envoy asks.
var every = [kinds]Kind{Clusters, Assignments, Listeners, Routes}

var typeURLs = [kinds]string{
	Clusters:    "type.googleapis.com/envoy.config.cluster.v3.Cluster",
	Assignments: "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
	Listeners:   "type.googleapis.com/envoy.config.listener.v3.Listener",
	Routes:      "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
}

// TypeURL is the type's name in requests, responses and bodies.
func (k Kind) TypeURL() string { return typeURLs[k] }

// String is a word for logs.
func (k Kind) String() string {
	if k >= kinds {
		return fmt.Sprintf("kind %d", uint8(k))
	}
	return [kinds]string{"clusters", "assignments", "listeners", "routes"}[k]
}

// isRoot says whether the kind is asked for as a whole. The others are asked for by name.
func (k Kind) isRoot() bool { return k == Clusters || k == Listeners }

// child is the kind that a root's resources refer to.
func (k Kind) child() Kind {
	if k == Listeners {
		return Routes
	}
	return Assignments
}

// kindOf is the kind with that type URL.
func kindOf(typeURL string) (Kind, bool) {
	for _, k := range every {
		if typeURLs[k] == typeURL {
			return k, true
		}
	}
	return 0, false
}
