// SPDX-License-Identifier: Apache-2.0

package schema

const (
	noTLSKeys   = "XLB has keys in files and secrets; use private_key"
	noHashes    = "use trusted_ca, or match_typed_subject_alt_names beside it"
	noTLSDetail = "XLB has no setting for it; remove the field"
)

// endpointTLSFields are about connections to endpoints that are secured.
var endpointTLSFields = fieldTable{
	"envoy.config.cluster.v3.Cluster.TransportSocketMatch": {
		"name":             ignore("names counters"),
		"match":            translateIt,
		"transport_socket": translateIt,
	},
	"envoy.config.core.v3.TransportSocket": {
		"name":         ignore("the type of typed_config decides"),
		"typed_config": translateIt,
	},
	"envoy.extensions.transport_sockets.raw_buffer.v3.RawBuffer": {},
	tlsType: {
		"common_tls_context":      translateIt,
		"sni":                     translateIt,
		"auto_host_sni":           translateIt,
		"auto_sni_san_validation": translateIt,
		"max_session_keys":        ignore("XLB keeps no sessions of TLS"),
		"enforce_rsa_key_usage":   limit(noTLSDetail, boolean(false)),
		"allow_renegotiation":     limit("XLB does not negotiate again; remove the field", boolean(false)),
	},
	"envoy.extensions.transport_sockets.tls.v3.CommonTlsContext": {
		"tls_params":                           translateIt,
		"tls_certificates":                     translateIt,
		"tls_certificate_sds_secret_configs":   translateIt,
		"validation_context":                   translateIt,
		"validation_context_sds_secret_config": translateIt,
		"combined_validation_context":          translateIt,
		"alpn_protocols":                       translateIt,
	},
	"envoy.extensions.transport_sockets.tls.v3.CommonTlsContext.CombinedCertificateValidationContext": {
		"default_validation_context":           translateIt,
		"validation_context_sds_secret_config": translateIt,
	},
	"envoy.extensions.transport_sockets.tls.v3.TlsParameters": {
		"tls_minimum_protocol_version": limit("XLB speaks TLS 1.2 and 1.3; use TLSv1_2", oneOf("TLS_AUTO", "TLSv1_2", "TLSv1_3")),
		"tls_maximum_protocol_version": limit("XLB speaks TLS 1.2 and 1.3; use TLSv1_3", oneOf("TLS_AUTO", "TLSv1_2", "TLSv1_3")),
		"cipher_suites":                translateIt,
		"ecdh_curves":                  refuse(noTLSDetail),
		"signature_algorithms":         refuse(noTLSDetail),
		"compliance_policies":          refuse(noTLSDetail),
	},
	"envoy.extensions.transport_sockets.tls.v3.TlsCertificate": {
		"certificate_chain":    translateIt,
		"private_key":          translateIt,
		"watched_directory":    ignore("XLB reads the files again whenever they change"),
		"pkcs12":               refuse("use certificate_chain and private_key"),
		"private_key_provider": refuse(noTLSKeys),
		"password":             refuse("write the key without a password"),
		"ocsp_staple":          refuse("of a server's certificate; remove the field"),
	},
	"envoy.extensions.transport_sockets.tls.v3.CertificateValidationContext": {
		"trusted_ca":                           translateIt,
		"match_typed_subject_alt_names":        translateIt,
		"match_subject_alt_names":              translateIt,
		"allow_expired_certificate":            translateIt,
		"watched_directory":                    ignore("XLB reads the files again whenever they change"),
		"trust_chain_verification":             limit("use VERIFY_TRUST_CHAIN, the default", oneOf("VERIFY_TRUST_CHAIN")),
		"require_signed_certificate_timestamp": limit(noField, boolean(false)),
		"verify_certificate_spki":              refuse(noHashes),
		"verify_certificate_hash":              refuse(noHashes),
		"crl":                                  refuse("XLB reads no lists of revoked certificates; remove the field"),
		"custom_validator_config":              refuse(noHashes),
		"system_root_certs":                    refuse("name the file in trusted_ca"),
	},
	"envoy.extensions.transport_sockets.tls.v3.SubjectAltNameMatcher": {
		"san_type": limit("use DNS, URI, EMAIL or IP_ADDRESS", oneOf("DNS", "URI", "EMAIL", "IP_ADDRESS")),
		"matcher":  translateIt,
	},
	secretConfig: {
		"name":       translateIt,
		"sds_config": translateIt,
	},
	secretMessage: {
		"name":               translateIt,
		"tls_certificate":    translateIt,
		"validation_context": translateIt,
	},
	"envoy.config.core.v3.UpstreamHttpProtocolOptions": {
		"auto_sni":            translateIt,
		"auto_san_validation": translateIt,
	},
	"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
		"upstream_http_protocol_options": translateIt,
	},
}

// secretMembers are about where secrets come from: a server of their own, beside what others may come from.
var secretMembers = fieldTable{
	"envoy.config.core.v3.ConfigSource": {"api_config_source": translateIt},
}

const secretConfig = "envoy.extensions.transport_sockets.tls.v3.SdsSecretConfig"

const secretMessage = "envoy.extensions.transport_sockets.tls.v3.Secret"
