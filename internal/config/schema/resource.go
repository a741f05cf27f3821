// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"net/netip"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rawv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/xlb-project/xlb/internal/model"
)

// dynamicFields are all that is particular to resources that are not in the bootstrap.
var dynamicFields = resourceFields.merge(transportSocketFields).merge(meshFields)

// transportSocketFields are of clusters that are not in the bootstrap. What control planes send is taken although some endpoints cannot be served: the others
// are, and requests that no endpoint is left for are answered with 503. A file that says so is refused.
var transportSocketFields = fieldTable{
	ClusterMessage: {
		"filters":                  translateIt,
		"transport_socket":         translateIt,
		"transport_socket_matches": translateIt,
		"http2_protocol_options":   passOver(leavesOut),
		"upstream_bind_config":     limit("the kernel chooses the source address; remove the field", isInbound),
	},
	"envoy.config.cluster.v3.Filter": {
		"name":             ignore("the type of typed_config decides"),
		"typed_config":     translateIt,
		"config_discovery": refuse(noDelta),
	},
	"envoy.extensions.upstreams.http.v3.HttpProtocolOptions.ExplicitHttpConfig": {
		"http2_protocol_options": passOver(leavesOut),
	},
}

// inboundSources are where Istio has a sidecar's connections to its own application come from. Nobody else's cluster is taken whose endpoints all
// have to be left out for that: the server had better know.
var inboundSources = []string{"127.0.0.6", "::6"}

func isInbound(_ protoreflect.FieldDescriptor, v protoreflect.Value) bool {
	bind, ok := v.Message().Interface().(*corev3.BindConfig)
	return ok && slices.Contains(inboundSources, bind.GetSourceAddress().GetAddress())
}

const leavesOut = "decides which endpoints are left out"

// ownBuffers: who writes a file can leave the field out, a control plane often cannot.
const ownBuffers = "when Envoy stops reading; XLB has bounds of its own"

// ownBodies is of listeners, where Envoy goes by it in retries, too.
const ownBodies = "when Envoy stops reading, and up to which length of its body it retries a request; XLB has bounds of its own: 1 MiB of a body"

// unwrittenLog: requests that the kernel serves are not seen by any process.
const unwrittenLog = "XLB writes no access log: no process sees the requests that the kernel serves; /metrics has what is counted"

// resourceFields is for resources that are not in the bootstrap.
var resourceFields = fieldTable{
	ClusterMessage: {"per_connection_buffer_limit_bytes": ignore(ownBuffers)},
	"envoy.config.listener.v3.Listener": {
		"per_connection_buffer_limit_bytes": passOver(ownBodies),
		"access_log":                        noted(unwrittenLog),
	},
	// What control planes write by default. Whoever writes a bootstrap by hand is told to leave it out.
	"envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager": {
		"access_log":             noted(unwrittenLog),
		"http2_protocol_options": noted("clients speak HTTP/1.1 here: one that begins with HTTP/2 is refused"),
		"use_remote_address": withEnvoyHeaders(rule{
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

// LeavesAlone reports a listener that takes connections from outside, which a firewall has sent to it. Nothing of it is looked at.
func LeavesAlone(l *listenerv3.Listener) bool {
	address, err := netip.ParseAddr(l.GetAddress().GetSocketAddress().GetAddress())
	return l.GetTrafficDirection() == corev3.TrafficDirection_INBOUND && err == nil && address.IsUnspecified()
}

// LeftOut is nil for a transport socket that passes bytes as they are; none does.
func LeftOut(s *corev3.TransportSocket) *model.LeftOut {
	content := s.GetTypedConfig()
	switch {
	case s == nil, content.MessageIs(&rawv3.RawBuffer{}):
		return nil
	case content.MessageIs(&tlsv3.UpstreamTlsContext{}):
		return &model.LeftOut{Reason: model.LeftOutTLS}
	}
	url, _ := TypeOf(content)
	return &model.LeftOut{Reason: model.LeftOutSocket, Socket: cmp.Or(NameOf(url), s.GetName())}
}
