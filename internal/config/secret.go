// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/config/clusters"
	"github.com/xlb-project/xlb/internal/config/document"
	"github.com/xlb-project/xlb/internal/config/schema"
	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/files"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// secretFile is a secret in a file of resources: a DiscoveryResponse in YAML or JSON, as Envoy's SDS by file has it. It is read for each
// connection, so that it may be exchanged.
type secretFile struct{ path, name string }

// secretAt is nil where there is no file, which it reports.
func (t *translator) secretAt(in *tlsv3.SdsSecretConfig, path string) *secretFile {
	file := in.GetSdsConfig().GetPathConfigSource().GetPath()
	if file == "" {
		t.p.Add(path+".sds_config", "not supported: the control plane cannot be asked for what it is asked with; use path_config_source")
		return nil
	}
	t.CheckNames(file, in.GetName(), path)
	return &secretFile{file, in.GetName()}
}

func (f *secretFile) read() (*tlsv3.Secret, error) {
	text, err := files.Read(f.path, files.Text)
	if err != nil {
		return nil, &UnreadableError{err}
	}
	response, err := f.decode(text)
	if err != nil {
		return nil, &UnreadableError{err}
	}
	for _, r := range response.GetResources() {
		secret := &tlsv3.Secret{}
		if r.MessageIs(secret) && r.UnmarshalTo(secret) == nil && secret.GetName() == f.name {
			return secret, nil
		}
	}
	return nil, fmt.Errorf("%s: has no secret %q", f.path, f.name)
}

// decode reads a DiscoveryResponse. The error tells what is wrong by its place, and quotes nothing.
func (f *secretFile) decode(text []byte) (*discoveryv3.DiscoveryResponse, error) {
	p := problem.NewList()
	tree := document.Read(p, f.path, text, document.ExpectResponse)
	if tree == nil {
		return nil, f.unquoted(p.All()[0])
	}
	response := &discoveryv3.DiscoveryResponse{}
	document.Respell(response.ProtoReflect().Descriptor(), tree)
	if document.Decode(tree, response) == nil {
		return response, nil
	}
	schema.ExplainResponse(p, tree, true)
	if len(p.All()) == 0 {
		p.Add("", "not a DiscoveryResponse, a mapping with resources")
	}
	return nil, p.Err(f.path)
}

// unquoted tells of a file that cannot be read by the line alone, if there is one.
func (f *secretFile) unquoted(e *FieldError) error {
	place := f.path
	if e.Path != "" {
		place += ": " + e.Path
	}
	return fmt.Errorf("%s: not YAML or JSON with a DiscoveryResponse, a mapping with resources; it is not quoted, for it may have a private key", place)
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
	p := problem.NewList()
	schema.CheckControlSecret(p, secret)
	names := (&translator{Reader: values.NewReader(p), p: p}).sanMatchers(secret.GetValidationContext(), "validation_context")
	if secret.GetValidationContext().GetTrustedCa() == nil {
		p.Add("validation_context.trusted_ca", "missing: name the file with the authority that has signed the control plane's certificate")
	}
	if err := p.Joined(); err != nil {
		return nil, nil, fmt.Errorf("%s: %q: %w", s.authorityFile.path, s.authorityFile.name, err)
	}
	return secret.GetValidationContext().GetTrustedCa(), names, nil
}

// sanMatchers translates match_typed_subject_alt_names.
func (t *translator) sanMatchers(in *tlsv3.CertificateValidationContext, path string) []sanMatcher {
	var out []sanMatcher
	for i, m := range in.GetMatchTypedSubjectAltNames() {
		matcher := t.StringMatch(m.GetMatcher(), problem.At(path+".match_typed_subject_alt_names", i)+".matcher")
		out = append(out, sanMatcher{m.GetSanType() == tlsv3.SubjectAltNameMatcher_URI, matcher.Matches})
	}
	return out
}

// upstreamTLS is in every cluster that has connections secured.
var upstreamTLS = []byte("UpstreamTlsContext")

// Secured are the contexts of a cluster that need secrets; nil: none does. The resource has passed CheckResource.
func (b *Bootstrap) Secured(body *anypb.Any) []*model.UpstreamTLS {
	c := &clusterv3.Cluster{}
	if !bytes.Contains(body.GetValue(), upstreamTLS) || body.UnmarshalTo(c) != nil {
		return nil
	}
	t := newTranslator(problem.NewList(), b)
	t.dynamicPart = true
	return slices.DeleteFunc(clusters.Secured(t.clusterScope(), c), func(tls *model.UpstreamTLS) bool { return len(tls.Secrets()) == 0 })
}

// DecodeSecret reads the text of a secret, of the type envoy.extensions.transport_sockets.tls.v3.Secret, as a server sends it. The error does not hold
// any of it.
func DecodeSecret(body []byte) (name string, _ *model.Secret, _ error) {
	in := &tlsv3.Secret{}
	if err := proto.Unmarshal(body, in); err != nil {
		return "", nil, errors.New("not a secret")
	}
	s, err := clusters.Secret(in)
	return in.GetName(), s, err
}

// ReadSecret reads the secret of that name from a file of resources.
func ReadSecret(path, name string) (*model.Secret, error) {
	in, err := (&secretFile{path, name}).read()
	if err != nil {
		return nil, err
	}
	return clusters.Secret(in)
}
