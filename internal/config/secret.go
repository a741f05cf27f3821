// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	"github.com/xlb-project/xlb/internal/files"
)

// secretFile is a secret in a file of resources: a DiscoveryResponse in YAML or JSON, as Envoy's SDS by file has it. It is read for each
// connection, so that it may be exchanged.
type secretFile struct{ path, name string }

// secretAt is nil where there is no file, which it reports.
func (t *translator) secretAt(in *tlsv3.SdsSecretConfig, path string) *secretFile {
	file := in.GetSdsConfig().GetPathConfigSource().GetPath()
	if file == "" {
		t.p.add(path+".sds_config", "not supported: the control plane cannot be asked for what it is asked with; use path_config_source")
		return nil
	}
	return &secretFile{file, in.GetName()}
}

func (f *secretFile) read() (*tlsv3.Secret, error) {
	text, err := files.Read(f.path, files.Text)
	if err != nil {
		return nil, err
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		return nil, fmt.Errorf("%s: not YAML or JSON: %w", f.path, err)
	}
	response := &discoveryv3.DiscoveryResponse{}
	if err := protojson.Unmarshal(text, response); err != nil {
		return nil, fmt.Errorf("%s: %s", f.path, reason(err))
	}
	for _, r := range response.GetResources() {
		secret := &tlsv3.Secret{}
		if r.MessageIs(secret) && r.UnmarshalTo(secret) == nil && secret.GetName() == f.name {
			return secret, nil
		}
	}
	return nil, fmt.Errorf("%s: has no secret %q", f.path, f.name)
}

// pair is the certificate and its key, which is nil where the client shows none.
func (s *tlsSettings) pair() (chain, private *corev3.DataSource, err error) {
	if s.certificateFile == nil {
		return s.certificate, s.privateKey, nil
	}
	secret, err := s.certificateFile.read()
	if err != nil {
		return nil, nil, err
	}
	pair := secret.GetTlsCertificate()
	if pair == nil {
		return nil, nil, fmt.Errorf("%s: %q is no tls_certificate", s.certificateFile.path, s.certificateFile.name)
	}
	return pair.GetCertificateChain(), pair.GetPrivateKey(), nil
}

// trusted is the authority that the server's certificate has to be signed by, and the names of which it has to have one, if there are any.
func (s *tlsSettings) trusted() (*corev3.DataSource, []sanMatcher, error) {
	if s.authorityFile == nil {
		return s.authority, s.names, nil
	}
	secret, err := s.authorityFile.read()
	if err != nil {
		return nil, nil, err
	}
	p := newProblems()
	(&walker{p: p, table: controlFields}).check(secret)
	names := (&translator{p: p}).sanMatchers(secret.GetValidationContext(), "validation_context")
	if secret.GetValidationContext().GetTrustedCa() == nil {
		p.add("validation_context.trusted_ca", "missing: name the file with the authority that has signed the control plane's certificate")
	}
	if err := p.joined(); err != nil {
		return nil, nil, fmt.Errorf("%s: %q: %w", s.authorityFile.path, s.authorityFile.name, err)
	}
	return secret.GetValidationContext().GetTrustedCa(), names, nil
}

// sanMatchers translates match_typed_subject_alt_names.
func (t *translator) sanMatchers(in *tlsv3.CertificateValidationContext, path string) []sanMatcher {
	var out []sanMatcher
	for i, m := range in.GetMatchTypedSubjectAltNames() {
		matcher := t.stringMatch(m.GetMatcher(), at(path+".match_typed_subject_alt_names", i)+".matcher")
		out = append(out, sanMatcher{m.GetSanType() == tlsv3.SubjectAltNameMatcher_URI, matcher.Matches})
	}
	return out
}
