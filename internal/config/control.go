// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net"
	"strconv"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"

	"github.com/xlb-project/xlb/internal/config/clusters"
	"github.com/xlb-project/xlb/internal/problem"
)

// servers translates the endpoints of the control plane's cluster.
func (t *translator) servers(c *clusterv3.Cluster, authority, path string) []Server {
	config := t.controlTLS(c, path+".transport_socket")
	interval, timeout := t.controlProtocol(c, path)
	if authority == "" {
		authority = c.GetName()
	}
	var out []Server
	for i, locality := range c.GetLoadAssignment().GetEndpoints() {
		for j, lb := range locality.GetLbEndpoints() {
			place := problem.At(problem.At(path+".load_assignment.endpoints", i)+".lb_endpoints", j) + ".endpoint.address"
			if pipe := lb.GetEndpoint().GetAddress().GetPipe(); pipe != nil {
				out = append(out, Server{Address: "unix:" + pipe.GetPath(), Authority: authority, KeepAlive: interval, KeepAliveTimeout: timeout, security: config})
				continue
			}
			host, port, ok := t.HostPort(lb.GetEndpoint().GetAddress(), place)
			if !ok {
				continue
			}
			if c.GetType() == clusterv3.Cluster_STATIC && c.GetClusterType() == nil {
				t.IP(host, place+".socket_address.address")
			}
			out = append(out, Server{
				Address: net.JoinHostPort(host, strconv.Itoa(int(port))), Authority: authority,
				KeepAlive: interval, KeepAliveTimeout: timeout, security: config,
			})
		}
	}
	if len(out) == 0 {
		t.p.Add(path+".load_assignment", "has no endpoints; list the servers of the control plane")
	}
	return out
}

// controlProtocol refuses a cluster whose servers would not be spoken to in HTTP/2: for Envoy they would be no gRPC servers. It returns how they
// are asked for signs of life.
func (t *translator) controlProtocol(c *clusterv3.Cluster, path string) (interval, timeout time.Duration) {
	//nolint:staticcheck // deprecated, but what older files have
	http2 := c.GetHttp2ProtocolOptions()
	http2Path := path + ".http2_protocol_options"
	for name, content := range c.GetTypedExtensionProtocolOptions() {
		options := &upstreamv3.HttpProtocolOptions{}
		place := problem.Key(path+".typed_extension_protocol_options", name)
		if name != clusters.UpstreamOptions {
			t.p.Add(place, "not supported: XLB knows %s", clusters.UpstreamOptions)
			continue
		}
		if t.Unpack(content, options, place, "HttpProtocolOptions") {
			http2, http2Path = options.GetExplicitHttpConfig().GetHttp2ProtocolOptions(), place+".explicit_http_config.http2_protocol_options"
		}
	}
	if http2 == nil {
		t.p.Add(path+".typed_extension_protocol_options", "without HTTP/2, which gRPC needs; add explicit_http_config with http2_protocol_options")
	}
	alive := http2.GetConnectionKeepalive()
	return t.Duration(alive.GetInterval(), 0, http2Path+".connection_keepalive.interval"), t.Duration(alive.GetTimeout(), 0, http2Path+".connection_keepalive.timeout")
}

// controlTLS is nil where the cluster has no transport_socket.
func (t *translator) controlTLS(c *clusterv3.Cluster, path string) *tlsSettings {
	if c.GetTransportSocket() == nil {
		return nil
	}
	in := &tlsv3.UpstreamTlsContext{}
	path += ".typed_config"
	if !t.Unpack(c.GetTransportSocket().GetTypedConfig(), in, path, "UpstreamTlsContext") {
		return nil
	}
	return t.upstreamTLS(in, path)
}
