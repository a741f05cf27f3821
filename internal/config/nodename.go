// SPDX-License-Identifier: Apache-2.0

package config

import (
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// NodeName is who the daemon is for a control plane.
type NodeName struct{ ID, Cluster, Zone string }

// AsNode returns the option that makes the daemon this node. As in Envoy what it says goes before what the bootstrap says.
func AsNode(n NodeName) Option { return func(o *options) { o.node = n } }

// nameNode changes a bootstrap accordingly.
func (o *options) nameNode(in *bootstrapv3.Bootstrap) {
	if o.node == (NodeName{}) {
		return
	}
	if in.GetNode() == nil {
		in.Node = &corev3.Node{}
	}
	if o.node.ID != "" {
		in.Node.Id = o.node.ID
	}
	if o.node.Cluster != "" {
		in.Node.Cluster = o.node.Cluster
	}
	if o.node.Zone == "" {
		return
	}
	if in.Node.GetLocality() == nil {
		in.Node.Locality = &corev3.Locality{}
	}
	in.Node.Locality.Zone = o.node.Zone
}
