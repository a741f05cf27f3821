// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"strings"

	udpav1 "github.com/cncf/xds/go/udpa/type/v1"
	xdsv3 "github.com/cncf/xds/go/xds/type/v3"
	// Its fields are shown in /config_dump.
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_stats/v3"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// Filters that Istio puts in front of the router, or of connections to endpoints. They count, or prepare what concerns TLS alone: no request is
// answered, altered for its endpoint's application, or sent elsewhere because of them. What Istio calls metadata exchange adds headers about the
// client for the sidecar of the server, which labels its own counters with them; without them these say "unknown".
const (
	typeGRPCStats    = "envoy.extensions.filters.http.grpc_stats.v3.FilterConfig"
	typeALPN         = "istio.envoy.config.filter.http.alpn.v2alpha1.FilterConfig"
	typePeerMetadata = "io.istio.http.peer_metadata.Config"
	typeIstioStats   = "stats.PluginConfig"
	typeExchange     = "envoy.tcp.metadataexchange.config.MetadataExchange"
)

// ignoredHTTP are HTTP filters that are passed over, whatever they say.
var ignoredHTTP = map[string]bool{typeGRPCStats: true, typeALPN: true, typePeerMetadata: true, typeIstioStats: true}

// ignoredNetwork are likewise filters of connections: of metadata exchange that which only acts when TLS has agreed on its protocol.
var ignoredNetwork = map[string]bool{typeExchange: true, typeIstioStats: true}

// ExchangeProtocol is what TLS agrees on for metadata exchange.
const ExchangeProtocol = "istio-peer-exchange"

// TypeOf is the address of the type of a configuration, which may stand in a TypedStruct, and then its fields.
func TypeOf(content *anypb.Any) (url string, fields map[string]any) {
	url = content.GetTypeUrl()
	for _, m := range []typedStruct{&udpav1.TypedStruct{}, &xdsv3.TypedStruct{}} {
		if content.MessageIs(m) && content.UnmarshalTo(m) == nil {
			url, fields = m.GetTypeUrl(), m.GetValue().AsMap()
		}
	}
	return url, fields
}

// NameOf is the name in the address of a type.
func NameOf(url string) string { return url[strings.LastIndex(url, "/")+1:] }

// typedStruct is a message that has two names.
type typedStruct interface {
	proto.Message
	GetTypeUrl() string
	GetValue() *structpb.Struct
}

// IgnoresHTTPFilter reports whether XLB does without an HTTP filter.
func IgnoresHTTPFilter(content *anypb.Any) bool {
	url, _ := TypeOf(content)
	return ignoredHTTP[NameOf(url)]
}

// ignoresNetworkFilter reports whether XLB does without a filter of connections, to endpoints or from clients.
func ignoresNetworkFilter(content *anypb.Any) bool {
	url, fields := TypeOf(content)
	name := NameOf(url)
	if !ignoredNetwork[name] {
		return false
	}
	protocol, given := fields["protocol"]
	return name != typeExchange || !given || protocol == ExchangeProtocol
}

// isIgnored reports whether an element of a list is a filter that need not be looked at.
func isIgnored(m proto.Message) bool {
	switch f := m.(type) {
	case *hcmv3.HttpFilter:
		return IgnoresHTTPFilter(f.GetTypedConfig())
	case *clusterv3.Filter:
		return ignoresNetworkFilter(f.GetTypedConfig())
	}
	return false
}
