// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"maps"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/config/document"
	"github.com/xlb-project/xlb/internal/problem"
)

// Kind is a kind of dynamic resources.
type Kind uint8

// The kinds, in the order in which they are put in force.
const (
	Clusters Kind = iota
	Assignments
	Listeners
	Routes
	kinds = iota
)

// String returns the plural, which begins the paths of problems.
func (k Kind) String() string {
	return [kinds]string{"clusters", "assignments", "listeners", "routes"}[k]
}

// newMessage returns an empty resource.
func (k Kind) newMessage() proto.Message {
	switch k {
	case Clusters:
		return &clusterv3.Cluster{}
	case Assignments:
		return &endpointv3.ClusterLoadAssignment{}
	case Listeners:
		return &listenerv3.Listener{}
	default:
		return &routev3.RouteConfiguration{}
	}
}

// Resources are dynamic resources by name.
type Resources struct {
	// Clusters, Assignments of endpoints by the name of the service, Listeners, and Routes.
	Clusters, Assignments, Listeners, Routes map[string]*anypb.Any
	// Files are what files of Assignments and Routes hold, by name. Each has one resource; where that is another one than the configuration asks for,
	// the one before stays beside it.
	Files map[File]map[string]*anypb.Any
}

// ownBuffers: who writes a file can leave the field out, a control plane often cannot.
const ownBuffers = "when Envoy stops reading; XLB has bounds of its own"

// ownBodies is of listeners, where Envoy goes by it in retries, too.
const ownBodies = "when Envoy stops reading, and up to which length of its body it retries a request; XLB has bounds of its own: 1 MiB of a body"

// unwrittenLog: requests that the kernel serves are not seen by any process.
const unwrittenLog = "XLB writes no access log: no process sees the requests that the kernel serves; /metrics has what is counted"

// resourceFields is for resources that are not in the bootstrap.
var resourceFields = fieldTable{
	clusterMessage: {"per_connection_buffer_limit_bytes": ignore(ownBuffers)},
	"envoy.config.listener.v3.Listener": {
		"per_connection_buffer_limit_bytes": passOver(ownBodies),
		"access_log":                        noted(unwrittenLog),
	},
	// What control planes write by default. Whoever writes a bootstrap by hand is told to leave it out.
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager": {
		"access_log":             noted(unwrittenLog),
		"http2_protocol_options": noted("clients speak HTTP/1.1 here: one that begins with HTTP/2 is refused"),
		"use_remote_address": ofHop(rule{
			use: cosmetic, noted: true, differs: true, allows: boolean(true),
			reason: "requests are passed on without X-Forwarded-For and what else Envoy adds; with --envoy-headers they have it, and are served in user space",
		}),
	},
	"envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy": {
		"access_log": noted(unwrittenLog),
	},
	"envoy.config.route.v3.RouteConfiguration": {
		"validate_clusters": limit("XLB answers requests to a cluster that does not exist with 503, or cluster_not_found_response_code; remove the field", boolean(false)),
	},
}

// Needs are what a resource has from elsewhere: a cluster its assignment, a listener its route tables.
type Needs struct {
	// References are names that the control plane has to be asked for, in order.
	References []string
	// Files are in order, too.
	Files []File
}

// CheckResource says whether XLB can serve a resource, on its own, all of it. The error joins its problems, one line each, with the path of the
// field inside the resource.
func (b *Bootstrap) CheckResource(kind Kind, name string, body *anypb.Any) (Needs, error) {
	m := kind.newMessage()
	if !body.MessageIs(m) {
		return Needs{}, errors.New("not a resource of this type: " + body.GetTypeUrl())
	}
	if err := body.UnmarshalTo(m); err != nil {
		return Needs{}, errors.New(document.Reason(err))
	}
	if b.static[kind][name] {
		return Needs{}, nil
	}
	p := problem.NewList()
	if own := nameOf(m); own != name {
		p.Add("name", "%q, and the resource is named %q", own, name)
	}
	w := &walker{p: p, options: b.options, table: dynamicFields, leavesOut: true}
	w.check(m)
	t := newTranslator(p, b)
	t.dynamicPart, t.alone = true, true
	switch m := m.(type) {
	case *clusterv3.Cluster:
		t.cluster(m, "")
	case *endpointv3.ClusterLoadAssignment:
		t.checkAssignment(m)
	case *listenerv3.Listener:
		t.listeners(m, "")
	case *routev3.RouteConfiguration:
		t.lenient = true
		t.routeTable(m, routeOwner{upgrades: upgrades{}}, "")
	}
	if err := p.Joined(); err != nil {
		return Needs{}, err
	}
	return Needs{References: slices.Sorted(maps.Keys(t.references)), Files: slices.SortedFunc(maps.Keys(t.files), File.compare)}, nil
}

func nameOf(m proto.Message) string {
	switch m := m.(type) {
	case *endpointv3.ClusterLoadAssignment:
		return m.GetClusterName()
	case interface{ GetName() string }:
		return m.GetName()
	}
	return ""
}

// bodies are resources that have been decoded, so that those which stay are not decoded again.
type bodies map[*anypb.Any]proto.Message

// get decodes a resource that CheckResource has seen. Next takes what is used.
func (b bodies) get(kind Kind, body *anypb.Any, next bodies) (proto.Message, error) {
	m, known := b[body]
	if !known {
		m = kind.newMessage()
		if err := body.UnmarshalTo(m); err != nil {
			return nil, errors.New(document.Reason(err))
		}
	}
	next[body] = m
	return m, nil
}
