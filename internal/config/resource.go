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

	"github.com/xlb-project/xlb/internal/config/clusters"
	"github.com/xlb-project/xlb/internal/config/document"
	"github.com/xlb-project/xlb/internal/config/routes"
	"github.com/xlb-project/xlb/internal/config/schema"
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
	schema.CheckResource(p, m, b.options.schema)
	t := newTranslator(p, b)
	t.dynamicPart, t.alone = true, true
	switch m := m.(type) {
	case *clusterv3.Cluster:
		t.cluster(m, "")
	case *endpointv3.ClusterLoadAssignment:
		clusters.CheckAssignment(t.clusterScope(), m)
	case *listenerv3.Listener:
		t.listeners(m, "")
	case *routev3.RouteConfiguration:
		routes.Check(t.routeScope(), m)
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
