// SPDX-License-Identifier: Apache-2.0

package schema

import (
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
)

// ClusterMessage is the type of clusters.
const ClusterMessage = "envoy.config.cluster.v3.Cluster"

// controlPlane says why a field of the cluster of the control plane may be passed over.
const controlPlane = "about connections to the control plane: XLB has one, and takes another server when it is lost"

// tlsType is what transport_socket of that cluster may be.
const tlsType = "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"

const fromFiles = "name files in tls_certificates and validation_context"

// controlFields is for the cluster that ads_config names. Nothing of it is balanced: its endpoints are the servers to ask.
var controlFields = fieldTable{
	ClusterMessage: {
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

// ControlCluster is the name of the cluster that ads_config names; empty is none.
func ControlCluster(in *bootstrapv3.Bootstrap) string {
	if services := in.GetDynamicResources().GetAdsConfig().GetGrpcServices(); len(services) > 0 {
		return services[0].GetEnvoyGrpc().GetClusterName()
	}
	return ""
}

// controlOf is controlCluster of a bootstrap that cannot be decoded yet.
func controlOf(root map[string]any) string {
	ads := Member(Member(root, "dynamic_resources", "dynamicResources"), "ads_config", "adsConfig")
	services, _ := Member(ads, "grpc_services", "grpcServices").([]any)
	if len(services) == 0 {
		return ""
	}
	name, _ := Member(Member(services[0], "envoy_grpc", "envoyGrpc"), "cluster_name", "clusterName").(string)
	return name
}

// Member is the member of an object in JSON that has one of the names; nil: there is none.
func Member(node any, names ...string) any {
	object, _ := node.(map[string]any)
	for _, name := range names {
		if v, ok := object[name]; ok {
			return v
		}
	}
	return nil
}

// ClusterNamed is the static cluster of that name (static_resources.clusters), the first of several; nil: the file has no such cluster.
func ClusterNamed(in *bootstrapv3.Bootstrap, name string) *clusterv3.Cluster {
	for _, c := range in.GetStaticResources().GetClusters() {
		if c.GetName() == name {
			return c
		}
	}
	return nil
}

// Services are the static clusters that are asked, and not balanced: that of the control plane, and those behind a Unix socket.
func Services(in *bootstrapv3.Bootstrap) map[string]bool {
	out := map[string]bool{}
	if control := ControlCluster(in); control != "" {
		out[control] = true
	}
	for _, c := range in.GetStaticResources().GetClusters() {
		if IsService(c) {
			out[c.GetName()] = true
		}
	}
	return out
}

// IsService reports whether a static cluster is a server over a Unix socket, which is asked and not balanced.
func IsService(c *clusterv3.Cluster) bool {
	for _, locality := range c.GetLoadAssignment().GetEndpoints() {
		for _, lb := range locality.GetLbEndpoints() {
			if lb.GetEndpoint().GetAddress().GetPipe() != nil {
				return true
			}
		}
	}
	return false
}
