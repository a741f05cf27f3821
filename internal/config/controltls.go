// SPDX-License-Identifier: Apache-2.0

package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/xlb-project/xlb/internal/config/values"
)

// tlsSettings say how connections to a control plane are secured. What is in files is read for each connection, so that it may be exchanged.
type tlsSettings struct {
	certificate, privateKey, authority *corev3.DataSource
	serverName                         string
	// In place of those, unless they are nil (SDS by file).
	certificateFile, authorityFile *secretFile
	names                          []sanMatcher
}

// sanMatcher is a name that a certificate may have.
type sanMatcher struct {
	uri   bool
	match func(string) bool
}

func (t *translator) upstreamTLS(in *tlsv3.UpstreamTlsContext, path string) *tlsSettings {
	common := in.GetCommonTlsContext()
	path += ".common_tls_context"
	out := &tlsSettings{serverName: in.GetSni(), authority: common.GetValidationContext().GetTrustedCa()}
	t.secrets(common, out, path)
	if out.authority == nil && out.authorityFile == nil {
		t.p.Add(path+".validation_context.trusted_ca", "missing: name the file with the authority that has signed the control plane's certificate")
	}
	if n := len(common.GetTlsCertificates()); n > 1 {
		t.p.Add(path+".tls_certificates", "has %d certificates; keep one", n)
	} else if n == 1 {
		out.certificate = common.GetTlsCertificates()[0].GetCertificateChain()
		out.privateKey = common.GetTlsCertificates()[0].GetPrivateKey()
	}
	out.names = t.sanMatchers(common.GetValidationContext(), path+".validation_context")
	if len(t.p.All()) > 0 {
		return out
	}
	if _, _, err := out.roots(); err != nil {
		t.p.Add(path+".validation_context.trusted_ca", "%v; name a readable file in PEM", err)
	}
	if _, err := out.own(nil); err != nil {
		t.p.Add(path+".tls_certificates", "%v; name readable files in PEM", err)
	}
	return out
}

// secrets notes what is in files of resources.
func (t *translator) secrets(in *tlsv3.CommonTlsContext, out *tlsSettings, path string) {
	if list := in.GetTlsCertificateSdsSecretConfigs(); len(list) > 0 {
		out.certificateFile = t.secretAt(list[0], path+".tls_certificate_sds_secret_configs[0]")
		if len(list) > 1 || len(in.GetTlsCertificates()) > 0 {
			t.p.Add(path+".tls_certificate_sds_secret_configs", "beside another certificate; keep one")
		}
	}
	if in.GetValidationContextSdsSecretConfig() != nil {
		out.authorityFile = t.secretAt(in.GetValidationContextSdsSecretConfig(), path+".validation_context_sds_secret_config")
	}
}

// config returns what crypto/tls needs; nil for none. As in Envoy the certificate of the server has to be signed by trusted_ca, and to have one of
// match_typed_subject_alt_names if there are any; sni is only sent.
func (s *tlsSettings) config() *tls.Config {
	if s == nil {
		return nil
	}
	return &tls.Config{
		ServerName: s.serverName, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"},
		GetClientCertificate: s.own,
		InsecureSkipVerify:   true, //nolint:gosec // verify does it
		VerifyConnection:     s.verify,
	}
}

// roots are the authorities that may have signed the server's certificate, and the names of which it has to have one, if there are any.
func (s *tlsSettings) roots() (*x509.CertPool, []sanMatcher, error) {
	authority, names, err := s.trusted()
	if err != nil {
		return nil, nil, err
	}
	text, err := values.PEM(authority)
	if err != nil {
		return nil, nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, nil, errors.New("no certificate in it")
	}
	return pool, names, nil
}

func (s *tlsSettings) own(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	certificate, privateKey, err := s.pair()
	if err != nil || certificate == nil {
		return &tls.Certificate{}, err
	}
	chain, err := values.PEM(certificate)
	if err != nil {
		return nil, fmt.Errorf("certificate_chain: %w", err)
	}
	private, err := values.PEM(privateKey)
	if err != nil {
		return nil, fmt.Errorf("private_key: %w", err)
	}
	pair, err := tls.X509KeyPair(chain, private)
	return &pair, err
}

func (s *tlsSettings) verify(state tls.ConnectionState) error {
	roots, names, err := s.roots()
	if err != nil {
		return fmt.Errorf("read trusted_ca: %w", err)
	}
	leaf, others := state.PeerCertificates[0], x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		others.AddCert(c)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: others}); err != nil {
		return err
	}
	if len(names) > 0 && !slices.ContainsFunc(names, func(m sanMatcher) bool { return m.has(leaf) }) {
		return errors.New("the certificate of the control plane has none of match_typed_subject_alt_names")
	}
	return nil
}

func (m sanMatcher) has(c *x509.Certificate) bool {
	if !m.uri {
		return slices.ContainsFunc(c.DNSNames, m.match)
	}
	for _, uri := range c.URIs {
		if m.match(uri.String()) {
			return true
		}
	}
	return false
}
