// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// socketFilter is the key of the metadata by which transport_socket_matches find endpoints.
const socketFilter = "envoy.transport_socket_match"

// transportSocketMatcher finds the transport socket of each endpoint of one cluster. Nil: all are plain text.
type transportSocketMatcher struct {
	// all is for every endpoint; nil: see the others.
	all     *model.LeftOut
	matches []*clusterv3.Cluster_TransportSocketMatch
	// otherwise is for those that nothing matches.
	otherwise *corev3.TransportSocket
	// sockets are what all of these come to.
	sockets map[*corev3.TransportSocket]security
}

// matcherOf is that of a cluster.
func (t *translator) matcherOf(c *clusterv3.Cluster, path string) *transportSocketMatcher {
	out := &transportSocketMatcher{matches: c.GetTransportSocketMatches(), otherwise: c.GetTransportSocket(), sockets: map[*corev3.TransportSocket]security{}}
	switch {
	case t.in.Dynamic && isHTTP2(c):
		out.all = &model.LeftOut{Reason: model.LeftOutHTTP2}
	case t.in.Dynamic && c.GetUpstreamBindConfig() != nil:
		out.all = &model.LeftOut{Reason: model.LeftOutSource}
	default:
		for i, m := range out.matches {
			out.sockets[m.GetTransportSocket()] = t.socketOf(m.GetTransportSocket(), c, problem.At(path+".transport_socket_matches", i)+".transport_socket")
		}
		out.sockets[out.otherwise] = t.socketOf(out.otherwise, c, path+".transport_socket")
	}
	return out
}

// Secured are all that endpoints of a cluster may be secured with, in order, each once (transport_socket and transport_socket_matches).
func Secured(in Scope, c *clusterv3.Cluster) []*model.UpstreamTLS {
	return newTranslator(in).matcherOf(c, "").secured()
}

// secured are all that endpoints may be secured with, in order, each once.
func (s *transportSocketMatcher) secured() []*model.UpstreamTLS {
	var out []*model.UpstreamTLS
	for _, m := range s.matches {
		if with := s.sockets[m.GetTransportSocket()].tls; with != nil {
			out = append(out, with)
		}
	}
	if with := s.sockets[s.otherwise].tls; with != nil {
		out = append(out, with)
	}
	return out
}

func isHTTP2(c *clusterv3.Cluster) bool {
	options := &upstreamv3.HttpProtocolOptions{}
	content := c.GetTypedExtensionProtocolOptions()[UpstreamOptions]
	if content.MessageIs(options) && content.UnmarshalTo(options) == nil {
		return options.GetExplicitHttpConfig().GetHttp2ProtocolOptions() != nil
	}
	//nolint:staticcheck // deprecated in favour of an extension, but what older servers send
	return c.GetHttp2ProtocolOptions() != nil
}

// of is what an endpoint expects.
func (s *transportSocketMatcher) of(lb *endpointv3.LbEndpoint, locality *endpointv3.LocalityLbEndpoints) security {
	switch {
	case s == nil:
		return security{}
	case s.all != nil:
		return security{why: s.all}
	}
	return s.sockets[s.socketFor(lb, locality)]
}

// socketFor is as in Envoy that of the first match all of whose values the endpoint's metadata has, or else its locality's.
func (s *transportSocketMatcher) socketFor(lb *endpointv3.LbEndpoint, of *endpointv3.LocalityLbEndpoints) *corev3.TransportSocket {
	for _, metadata := range []*corev3.Metadata{lb.GetMetadata(), of.GetMetadata()} {
		for _, m := range s.matches {
			if hasAll(metadata.GetFilterMetadata()[socketFilter], m.GetMatch()) {
				return m.GetTransportSocket()
			}
		}
	}
	return s.otherwise
}

func hasAll(has, wanted *structpb.Struct) bool {
	for name, value := range wanted.GetFields() {
		if got, ok := has.GetFields()[name]; !ok || !proto.Equal(got, value) {
			return false
		}
	}
	return true
}
