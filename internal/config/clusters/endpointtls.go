// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	upstreamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xlb-project/xlb/internal/config/schema"
	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// Versions of TLS that XLB speaks, and the ciphers of TLS 1.2, by Envoy's names.
var (
	tlsVersions = map[tlsv3.TlsParameters_TlsProtocol]uint16{
		tlsv3.TlsParameters_TLSv1_2: tls.VersionTLS12, tlsv3.TlsParameters_TLSv1_3: tls.VersionTLS13,
	}
	tlsCiphers = map[string]uint16{
		"ECDHE-ECDSA-AES128-GCM-SHA256": tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "ECDHE-RSA-AES128-GCM-SHA256": tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		"ECDHE-ECDSA-AES256-GCM-SHA384": tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, "ECDHE-RSA-AES256-GCM-SHA384": tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		"ECDHE-ECDSA-CHACHA20-POLY1305": tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-RSA-CHACHA20-POLY1305": tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
)

// security is what an endpoint expects: TLS, nothing, or what XLB does not have.
type security struct {
	tls *model.UpstreamTLS
	// why is not nil for an endpoint that is left out.
	why *model.LeftOut
}

// socketOf translates a transport socket that endpoints of the cluster may have. One of an unknown type has been refused, or is left out.
func (t *translator) socketOf(s *corev3.TransportSocket, c *clusterv3.Cluster, path string) security {
	if why := schema.LeftOut(s); why == nil || why.Reason != model.LeftOutTLS {
		return security{why: why}
	}
	in := &tlsv3.UpstreamTlsContext{}
	path += ".typed_config"
	if !t.Unpack(s.GetTypedConfig(), in, path, "UpstreamTlsContext") {
		return security{}
	}
	if missing := t.missingServer(in.GetCommonTlsContext()); missing != "" && t.in.Dynamic {
		return security{why: &model.LeftOut{Reason: model.LeftOutTLS, Socket: missing}}
	}
	return security{tls: t.endpointTLS(in, c, path)}
}

func (t *translator) endpointTLS(in *tlsv3.UpstreamTlsContext, c *clusterv3.Cluster, path string) *model.UpstreamTLS {
	common := in.GetCommonTlsContext()
	options := upstreamHTTP(c)
	out := &model.UpstreamTLS{
		View: t.in.View.Name,
		SNI:  in.GetSni(), AutoHostSNI: in.GetAutoHostSni(), AutoSNI: options.GetAutoSni(),
		AutoSAN: in.GetAutoSniSanValidation(), HostSAN: options.GetAutoSanValidation(),
		MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, // as Envoy, whose clients do not speak TLS 1.3 unless they are told to
	}
	path += ".common_tls_context"
	t.tlsParameters(out, common.GetTlsParams(), path+".tls_params")
	out.ALPN = supportedALPN(common.GetAlpnProtocols())
	t.ownCertificate(out, common, path)
	t.peerValidation(out, common, path)
	out.Key = keyOf(in, options)
	if v := t.in.View.Name; v != "" {
		out.Key += "@" + v
	}
	return out
}

// keyOf tells contexts apart by what they say.
func keyOf(messages ...proto.Message) string {
	sum := sha256.New()
	for _, m := range messages {
		// What has been unmarshalled marshals.
		text, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		sum.Write(append(text, 0))
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

func upstreamHTTP(c *clusterv3.Cluster) *corev3.UpstreamHttpProtocolOptions {
	options := &upstreamv3.HttpProtocolOptions{}
	if content := c.GetTypedExtensionProtocolOptions()[UpstreamOptions]; content.MessageIs(options) && content.UnmarshalTo(options) == nil {
		return options.GetUpstreamHttpProtocolOptions()
	}
	return nil
}

func (t *translator) tlsParameters(out *model.UpstreamTLS, in *tlsv3.TlsParameters, path string) {
	if v := tlsVersions[in.GetTlsMinimumProtocolVersion()]; v != 0 {
		out.MinVersion = v
	}
	if v := tlsVersions[in.GetTlsMaximumProtocolVersion()]; v != 0 {
		out.MaxVersion = v
	}
	if out.MinVersion > out.MaxVersion {
		t.p.Add(path+".tls_maximum_protocol_version", "lower than tls_minimum_protocol_version; without it clients speak TLS 1.2 at most, as in Envoy: write TLSv1_3")
	}
	for i, group := range in.GetCipherSuites() {
		for name := range strings.SplitSeq(strings.Trim(group, "[]"), "|") {
			id, known := tlsCiphers[name]
			if !known {
				t.p.Add(problem.At(path+".cipher_suites", i), "not supported: %q; use ECDHE with AES-GCM or CHACHA20-POLY1305", name)
			}
			out.Ciphers = append(out.Ciphers, id)
		}
	}
}

// supportedALPN are the protocols that XLB can speak of those that the configuration offers: no HTTP/2, and no exchange of metadata.
func supportedALPN(offered []string) []string {
	return slices.DeleteFunc(slices.Clone(offered), func(p string) bool { return p == "h2" || p == "istio-h2" || p == schema.ExchangeProtocol })
}

func (t *translator) ownCertificate(out *model.UpstreamTLS, in *tlsv3.CommonTlsContext, path string) {
	if n := len(in.GetTlsCertificates()) + len(in.GetTlsCertificateSdsSecretConfigs()); n > 1 {
		t.p.Add(path+".tls_certificates", "%d certificates, with tls_certificate_sds_secret_configs; a client shows one: keep one", n)
		return
	}
	for i, c := range in.GetTlsCertificates() {
		out.Certificate = t.certificate(c, problem.At(path+".tls_certificates", i))
	}
	for i, s := range in.GetTlsCertificateSdsSecretConfigs() {
		out.CertificateSecret = t.secretSource(s, problem.At(path+".tls_certificate_sds_secret_configs", i))
	}
}

func (t *translator) certificate(in *tlsv3.TlsCertificate, path string) *model.Certificate {
	out := &model.Certificate{Chain: t.pem(in.GetCertificateChain(), path+".certificate_chain"), Key: t.pem(in.GetPrivateKey(), path+".private_key")}
	chain, err1 := values.PEM(in.GetCertificateChain())
	private, err2 := values.PEM(in.GetPrivateKey())
	if err1 != nil || err2 != nil {
		return out
	}
	if _, err := tls.X509KeyPair(chain, private); err != nil {
		t.p.Add(path, "%v; write a certificate and its key in PEM", err)
	}
	return out
}

// pem is text that is there.
func (t *translator) pem(in *corev3.DataSource, path string) model.Data {
	text, err := values.PEM(in)
	if err != nil {
		t.p.Add(path, "%v; name a readable file in PEM", err)
		return model.Data{}
	}
	if name := in.GetFilename(); name != "" {
		return model.Data{File: name}
	}
	return model.Data{Inline: text}
}

func (t *translator) peerValidation(out *model.UpstreamTLS, in *tlsv3.CommonTlsContext, path string) {
	switch {
	case in.GetCombinedValidationContext() != nil:
		combined, path := in.GetCombinedValidationContext(), path+".combined_validation_context"
		out.Validation = t.validation(combined.GetDefaultValidationContext(), path+".default_validation_context")
		out.ValidationSecret = t.secretSource(combined.GetValidationContextSdsSecretConfig(), path+".validation_context_sds_secret_config")
	case in.GetValidationContextSdsSecretConfig() != nil:
		out.ValidationSecret = t.secretSource(in.GetValidationContextSdsSecretConfig(), path+".validation_context_sds_secret_config")
	default:
		path += ".validation_context"
		out.Validation = t.validation(in.GetValidationContext(), path)
		if out.Validation.CA == nil && len(out.Validation.Names) > 0 {
			t.p.Add(path+".trusted_ca", "missing: without it a name proves nothing, and Envoy refuses to ask for one; name the authority")
		}
	}
	if (out.AutoSAN || out.HostSAN) && out.Validation.CA == nil && out.ValidationSecret == nil {
		t.p.Add(path, "auto_san_validation without trusted_ca, which proves nothing; name the authority")
	}
}

func (t *translator) validation(in *tlsv3.CertificateValidationContext, path string) model.Validation {
	out := model.Validation{AllowExpired: in.GetAllowExpiredCertificate()}
	if in.GetTrustedCa() != nil {
		ca := t.pem(in.GetTrustedCa(), path+".trusted_ca")
		out.CA = &ca
		if text, err := values.PEM(in.GetTrustedCa()); err == nil && !x509.NewCertPool().AppendCertsFromPEM(text) {
			t.p.Add(path+".trusted_ca", "no certificate in it; name a file in PEM")
		}
	}
	for i, m := range in.GetMatchTypedSubjectAltNames() {
		matcher := t.StringMatch(m.GetMatcher(), problem.At(path+".match_typed_subject_alt_names", i)+".matcher")
		out.Names = append(out.Names, model.NameMatch{Kind: nameKinds[m.GetSanType()], Match: matcher})
	}
	//nolint:staticcheck // deprecated in favour of typed ones, but what Istio sends
	for i, m := range in.GetMatchSubjectAltNames() {
		matcher := t.StringMatch(m, problem.At(path+".match_subject_alt_names", i))
		for _, kind := range []model.NameKind{model.NameDNS, model.NameURI, model.NameEmail, model.NameIP} {
			out.Names = append(out.Names, model.NameMatch{Kind: kind, Match: matcher})
		}
	}
	return out
}

var nameKinds = map[tlsv3.SubjectAltNameMatcher_SanType]model.NameKind{
	tlsv3.SubjectAltNameMatcher_DNS: model.NameDNS, tlsv3.SubjectAltNameMatcher_URI: model.NameURI,
	tlsv3.SubjectAltNameMatcher_EMAIL: model.NameEmail, tlsv3.SubjectAltNameMatcher_IP_ADDRESS: model.NameIP,
}

// secretSource says where a secret comes from; nil after a problem.
func (t *translator) secretSource(in *tlsv3.SdsSecretConfig, path string) *model.SecretSource {
	out := &model.SecretSource{Name: in.GetName(), Patience: values.FetchTimeout}
	from := in.GetSdsConfig()
	t.CheckNames(from.GetPathConfigSource().GetPath(), in.GetName(), path)
	path += ".sds_config"
	if limit := from.GetInitialFetchTimeout(); limit != nil {
		out.Patience = t.Duration(limit, 0, path+".initial_fetch_timeout")
	}
	switch s := from.GetConfigSourceSpecifier().(type) {
	case *corev3.ConfigSource_PathConfigSource:
		out.File = s.PathConfigSource.GetPath()
	case *corev3.ConfigSource_Ads:
		out.ADS = true
		if t.in.Bootstrap.GetDynamicResources().GetAdsConfig() == nil {
			t.p.Add(path+".ads", "there is no dynamic_resources.ads_config, which says whom to ask; add it")
		}
	case *corev3.ConfigSource_ApiConfigSource:
		t.secretServer(s.ApiConfigSource, out, path+".api_config_source")
	case nil:
		t.p.Add(path, "missing: XLB has no static secrets; say where the secret comes from")
	default:
		t.p.Add(path, "needs ads, path_config_source or api_config_source")
	}
	return out
}

func (t *translator) secretServer(in *corev3.ApiConfigSource, out *model.SecretSource, path string) {
	switch in.GetApiType() {
	case corev3.ApiConfigSource_GRPC:
	case corev3.ApiConfigSource_DELTA_GRPC:
		out.Delta = true
	default:
		t.p.Add(path+".api_type", "not supported: %s; use GRPC or DELTA_GRPC", in.GetApiType())
	}
	services := in.GetGrpcServices()
	if len(services) != 1 || services[0].GetEnvoyGrpc() == nil {
		t.p.Add(path+".grpc_services", "needs one entry with envoy_grpc")
		return
	}
	name := services[0].GetEnvoyGrpc().GetClusterName()
	out.Authority = services[0].GetEnvoyGrpc().GetAuthority()
	if out.Authority == "" {
		out.Authority = name
	}
	if out.Socket = t.socketPath(name); out.Socket == "" {
		t.p.Add(path+".grpc_services[0].envoy_grpc.cluster_name", "%q is no cluster of static_resources with a pipe for an endpoint; XLB asks servers of secrets over Unix sockets: add it", name)
	}
}

// socketPath is where a static cluster has its Unix socket; empty: there is none.
func (t *translator) socketPath(name string) string {
	c := schema.ClusterNamed(t.in.Bootstrap, name)
	if c == nil || !schema.IsService(c) {
		return ""
	}
	for _, locality := range c.GetLoadAssignment().GetEndpoints() {
		for _, lb := range locality.GetLbEndpoints() {
			return lb.GetEndpoint().GetAddress().GetPipe().GetPath()
		}
	}
	return ""
}

// missingServer names a cluster that secrets are to come from and that the bootstrap does not have; empty: there is none.
func (t *translator) missingServer(in *tlsv3.CommonTlsContext) string {
	all := slices.Concat(in.GetTlsCertificateSdsSecretConfigs(), []*tlsv3.SdsSecretConfig{
		in.GetValidationContextSdsSecretConfig(), in.GetCombinedValidationContext().GetValidationContextSdsSecretConfig(),
	})
	for _, s := range all {
		for _, service := range s.GetSdsConfig().GetApiConfigSource().GetGrpcServices() {
			if name := service.GetEnvoyGrpc().GetClusterName(); name != "" && schema.ClusterNamed(t.in.Bootstrap, name) == nil {
				return name
			}
		}
	}
	return ""
}

// Secret translates a secret that a server or a file has: a certificate with its key, or what a certificate of a peer is validated by (Secret). The error
// joins its problems, and quotes nothing of it.
func Secret(in *tlsv3.Secret) (*model.Secret, error) {
	p := problem.NewList()
	schema.CheckSecret(p, in)
	t, out := newTranslator(Scope{Values: values.NewReader(p)}), &model.Secret{}
	switch s := in.GetType().(type) {
	case *tlsv3.Secret_TlsCertificate:
		out.Certificate = t.certificate(s.TlsCertificate, "tls_certificate")
	case *tlsv3.Secret_ValidationContext:
		validation := t.validation(s.ValidationContext, "validation_context")
		out.Validation = &validation
	default:
		p.Add("", "neither tls_certificate nor validation_context")
	}
	if err := p.Joined(); err != nil {
		return nil, err
	}
	return out, nil
}
