// SPDX-License-Identifier: Apache-2.0

package model

import (
	"time"

	"github.com/xlb-project/xlb/internal/model/matcher"
)

// UpstreamTLS says how connections to an endpoint are secured (envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext). It is never changed.
type UpstreamTLS struct {
	// View is the name of the view whose secrets it has; empty: the shared one.
	View string `json:",omitempty"`
	// Key is the same for two of them exactly if they say the same in the same view: each view has its secrets for itself.
	Key string
	// SNI is sent as the server's name; empty: none is. AutoHostSNI takes the endpoint's hostname if it has one, AutoSNI the host that the request is
	// for.
	SNI                  string
	AutoHostSNI, AutoSNI bool
	// AutoSAN has the name that is sent be one of the certificate's DNS names, in place of other names (auto_sni_san_validation). HostSAN has
	// the host that the request is for, which may be an address, be one of its names, beside others (auto_san_validation).
	AutoSAN, HostSAN bool
	// ALPN are the protocols that are offered; nil: HTTP/1.1 for requests, none for other connections.
	ALPN []string
	// MinVersion and MaxVersion are those of crypto/tls. Ciphers are for TLS 1.2; nil: the usual ones.
	MinVersion, MaxVersion uint16
	Ciphers                []uint16
	// Certificate is what the client shows, or the secret that has it. Nil: none.
	Certificate       *Certificate
	CertificateSecret *SecretSource
	// Validation of the server's certificate, to which the secret adds, or takes the place of. With neither none is validated.
	Validation       Validation
	ValidationSecret *SecretSource
}

// Secrets are those that it needs.
func (t *UpstreamTLS) Secrets() []*SecretSource {
	var out []*SecretSource
	for _, s := range []*SecretSource{t.CertificateSecret, t.ValidationSecret} {
		if s != nil {
			out = append(out, s)
		}
	}
	return out
}

// Data is text in PEM, in the configuration or in a file.
type Data struct {
	Inline []byte
	File   string
}

// Certificate is a chain and the private key of its first certificate (TlsCertificate).
type Certificate struct{ Chain, Key Data }

// Validation says what the certificate of a server has to be (CertificateValidationContext).
type Validation struct {
	// CA signs it; nil: its signature is not looked at.
	CA *Data
	// Names of which it has to have one; nil: any will do.
	Names []NameMatch
	// AllowExpired takes certificates whose time is over.
	AllowExpired bool
}

// Merge adds what a secret says, as Envoy does: what is one takes the place, what are many join.
func (v Validation) Merge(secret Validation) Validation {
	if secret.CA != nil {
		v.CA = secret.CA
	}
	v.Names = append(v.Names[:len(v.Names):len(v.Names)], secret.Names...)
	v.AllowExpired = v.AllowExpired || secret.AllowExpired
	return v
}

// NameKind is the kind of a name in a certificate.
type NameKind uint8

// The kinds.
const (
	NameDNS NameKind = iota
	NameURI
	NameEmail
	NameIP
)

// NameMatch is about one kind of names (SubjectAltNameMatcher). An exact DNS name is also matched by a wildcard in the certificate.
type NameMatch struct {
	Kind  NameKind
	Match matcher.StringMatch
}

// SecretSource says where a secret comes from (SdsSecretConfig). It can be compared.
type SecretSource struct {
	Name string
	// File holds it, ADS: the control plane sends it, or else the server at Socket, a path, does.
	File   string
	ADS    bool
	Socket string
	// Authority is what that server is asked as. Delta asks for changes (DELTA_GRPC).
	Authority string
	Delta     bool
	// Patience is how long the daemon's start waits for it; 0 is without end (initial_fetch_timeout).
	Patience time.Duration
}

// Secret is what a source holds: one of the two.
type Secret struct {
	Certificate *Certificate
	Validation  *Validation
}
