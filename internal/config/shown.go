// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xlb-project/xlb/internal/config/schema"
)

// Shown is what the bootstrap says of this node and of where resources come from, for who asks what is in force. It has neither static
// resources nor secrets. version is that of this program.
func (b *Bootstrap) Shown(version string) *bootstrapv3.Bootstrap {
	in := b.message
	out := &bootstrapv3.Bootstrap{
		Node: nodeOf(in.GetNode()), DynamicResources: in.GetDynamicResources(), ClusterManager: in.GetClusterManager(), Admin: in.GetAdmin(),
	}
	if out.Node.GetUserAgentVersionType() == nil {
		out.Node.UserAgentVersionType = &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: buildVersion(version)}
	}
	return out
}

// buildVersion has the numbers of a version like v1.2.3, or zeros, and beside them the whole text.
func buildVersion(version string) *corev3.BuildVersion {
	v := &typev3.SemanticVersion{}
	if _, err := fmt.Sscanf(version, "v%d.%d.%d", &v.MajorNumber, &v.MinorNumber, &v.Patch); err != nil {
		v = &typev3.SemanticVersion{}
	}
	return &corev3.BuildVersion{Version: v, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"build.label": structpb.NewStringValue(version)}}}
}

// Control is the control plane's cluster without what secures it, nil where there is none.
func (b *Bootstrap) Control() *clusterv3.Cluster {
	c, ok := proto.Clone(clusterNamed(b.message, schema.ControlCluster(b.message))).(*clusterv3.Cluster)
	if !ok || c == nil || schema.ControlCluster(b.message) == "" {
		return nil
	}
	c.TransportSocket, c.TransportSocketMatches = nil, nil
	return c
}
