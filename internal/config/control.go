// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net"
	"strconv"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"

	"github.com/xlb-project/xlb/internal/problem"
)

// clusterMessage is the type of clusters.
const clusterMessage = "envoy.config.cluster.v3.Cluster"

// controlPlane says why a field of the cluster of the control plane may be passed over.
const controlPlane = "about connections to the control plane: XLB has one, and takes another server when it is lost"

// tlsType is what transport_socket of that cluster may be.
const tlsType = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"

const fromFiles = "name files in tls_certificates and validation_context"

// controlFields is for the cluster that ads_config names. Nothing of it is balanced: its endpoints are the servers to ask.
var controlFields = fieldTable{
	clusterMessage: {
		"transport_socket":                  translateIt,
		"http2_protocol_options":            ignore(controlPlane),
		"circuit_breakers":                  ignore(controlPlane),
		"upstream_connection_options":       ignore(controlPlane),
		"lb_policy":                         ignore(controlPlane),
		"load_balancing_policy":             ignore(controlPlane),
		"connect_timeout":                   ignore(controlPlane),
		"dns_lookup_family":                 ignore(controlPlane),
		"respect_dns_ttl":                   ignore(controlPlane),
		"dns_refresh_rate":                  ignore(controlPlane),
		"type":                              limit("use STATIC, STRICT_DNS or LOGICAL_DNS", oneOf("STATIC", "STRICT_DNS", "LOGICAL_DNS")),
		"health_checks":                     refuse("XLB sees that a connection to the control plane is lost; remove the field"),
		"outlier_detection":                 ignore(controlPlane),
		"max_requests_per_connection":       ignore(controlPlane),
		"per_connection_buffer_limit_bytes": ignore(controlPlane),
		"alt_stat_name":                     ignore("names counters"),
	},
	"envoy.config.core.v3.TransportSocket": {
		"name":         ignore("the type of typed_config decides"),
		"typed_config": translateIt,
	},
	"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
		"common_http_protocol_options": ignore(controlPlane),
	},
	"envoy.extensions.upstreams.http.v3.HttpProtocolOptions.ExplicitHttpConfig": {
		"http_protocol_options":  refuse("a control plane speaks HTTP/2; use http2_protocol_options"),
		"http2_protocol_options": ignore(controlPlane),
	},
	tlsType: {
		"common_tls_context":      translateIt,
		"sni":                     translateIt,
		"max_session_keys":        ignore("XLB keeps no sessions of TLS"),
		"auto_host_sni":           refuse("write sni"),
		"auto_sni_san_validation": refuse("write match_typed_subject_alt_names"),
		"enforce_rsa_key_usage":   refuse(noTLSDetail),
		"allow_renegotiation":     limit("XLB does not negotiate again; remove the field", boolean(false)),
	},
	"envoy.extensions.transport_sockets.tls.v3.CommonTlsContext": {
		"tls_params":                           translateIt,
		"tls_certificates":                     translateIt,
		"validation_context":                   translateIt,
		"alpn_protocols":                       ignore("gRPC asks for h2 by itself"),
		"tls_certificate_sds_secret_configs":   translateIt,
		"combined_validation_context":          refuse(fromFiles),
		"validation_context_sds_secret_config": translateIt,
	},
	"envoy.config.core.v3.Address": {
		"pipe": translateIt,
	},
	"envoy.config.core.v3.Pipe": {
		"path": translateIt,
		"mode": ignore("of a socket that is bound"),
	},
	// In files of resources.
	"envoy.extensions.transport_sockets.tls.v3.Secret": {
		"name":               translateIt,
		"tls_certificate":    translateIt,
		"validation_context": translateIt,
	},
	"envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig": {
		"name":       translateIt,
		"sds_config": translateIt,
	},
	"envoy.extensions.transport_sockets.tls.v3.TlsParameters": {
		"tls_minimum_protocol_version": limit("XLB speaks TLS 1.2 and 1.3 to a control plane; use TLSv1_2", oneOf("TLS_AUTO", "TLSv1_2")),
		"tls_maximum_protocol_version": limit("XLB speaks TLS 1.2 and 1.3 to a control plane; use TLSv1_3", oneOf("TLS_AUTO", "TLSv1_3")),
		"cipher_suites":                refuse(noTLSDetail),
	},
	"envoy.extensions.transport_sockets.tls.v3.TlsCertificate": {
		"certificate_chain": translateIt,
		"private_key":       translateIt,
		"watched_directory": ignore("XLB reads the files for each connection"),
	},
	"envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext": {
		"trusted_ca":                    translateIt,
		"match_typed_subject_alt_names": translateIt,
		"match_subject_alt_names":       refuse("use match_typed_subject_alt_names"),
		"allow_expired_certificate":     refuse(noTLSDetail),
		"watched_directory":             ignore("XLB reads the files for each connection"),
	},
	"envoy.extensions.transport_sockets.tls.v3.SubjectAltNameMatcher": {
		"san_type": limit("use DNS or URI", oneOf("DNS", "URI")),
		"matcher":  translateIt,
	},
}

// controlCluster is the name of the cluster that ads_config names; empty is none.
func controlCluster(in *bootstrapv3.Bootstrap) string {
	if services := in.GetDynamicResources().GetAdsConfig().GetGrpcServices(); len(services) > 0 {
		return services[0].GetEnvoyGrpc().GetClusterName()
	}
	return ""
}

// controlOf is controlCluster of a bootstrap that cannot be decoded yet.
func controlOf(root map[string]any) string {
	ads := memberOf(memberOf(root, "dynamic_resources", "dynamicResources"), "ads_config", "adsConfig")
	services, _ := memberOf(ads, "grpc_services", "grpcServices").([]any)
	if len(services) == 0 {
		return ""
	}
	name, _ := memberOf(memberOf(services[0], "envoy_grpc", "envoyGrpc"), "cluster_name", "clusterName").(string)
	return name
}

// memberOf is the member of an object in JSON that has one of the names; nil: there is none.
func memberOf(node any, names ...string) any {
	object, _ := node.(map[string]any)
	for _, name := range names {
		if v, ok := object[name]; ok {
			return v
		}
	}
	return nil
}

// services are the static clusters that are asked, and not balanced: that of the control plane, and those behind a Unix socket.
func services(in *bootstrapv3.Bootstrap) map[string]bool {
	out := map[string]bool{}
	if control := controlCluster(in); control != "" {
		out[control] = true
	}
	for _, c := range in.GetStaticResources().GetClusters() {
		if isService(c) {
			out[c.GetName()] = true
		}
	}
	return out
}

// clusterNamed is a static cluster, or nil.
func clusterNamed(in *bootstrapv3.Bootstrap, name string) *clusterv3.Cluster {
	for _, c := range in.GetStaticResources().GetClusters() {
		if c.GetName() == name {
			return c
		}
	}
	return nil
}

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
			host, port, ok := t.hostPort(lb.GetEndpoint().GetAddress(), place)
			if !ok {
				continue
			}
			if c.GetType() == clusterv3.Cluster_STATIC && c.GetClusterType() == nil {
				t.ip(host, place+".socket_address.address")
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
		if name != upstreamOptions {
			t.p.Add(place, "not supported: XLB knows %s", upstreamOptions)
			continue
		}
		if t.unpack(content, options, place, "HttpProtocolOptions") {
			http2, http2Path = options.GetExplicitHttpConfig().GetHttp2ProtocolOptions(), place+".explicit_http_config.http2_protocol_options"
		}
	}
	if http2 == nil {
		t.p.Add(path+".typed_extension_protocol_options", "without HTTP/2, which gRPC needs; add explicit_http_config with http2_protocol_options")
	}
	alive := http2.GetConnectionKeepalive()
	return t.duration(alive.GetInterval(), 0, http2Path+".connection_keepalive.interval"), t.duration(alive.GetTimeout(), 0, http2Path+".connection_keepalive.timeout")
}

// controlTLS is nil where the cluster has no transport_socket.
func (t *translator) controlTLS(c *clusterv3.Cluster, path string) *tlsSettings {
	if c.GetTransportSocket() == nil {
		return nil
	}
	in := &tlsv3.UpstreamTlsContext{}
	path += ".typed_config"
	if !t.unpack(c.GetTransportSocket().GetTypedConfig(), in, path, "UpstreamTlsContext") {
		return nil
	}
	return t.upstreamTLS(in, path)
}
