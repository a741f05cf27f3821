// SPDX-License-Identifier: Apache-2.0

package mtls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/upstream"
)

// Peer is who is connected to.
type Peer struct {
	// TLS is not nil.
	TLS *model.UpstreamTLS
	// Hostname is Envoy's name of the endpoint; empty: it has none.
	Hostname string
	// Host is what the request is for, with its port; empty for what is no request.
	Host string
	// HTTP: requests are sent, and not whatever a client says.
	HTTP bool
}

// ServerName is what is sent as the server's name; empty: nothing is.
func (p *Peer) ServerName() string {
	switch {
	case p.TLS.AutoHostSNI && p.Hostname != "":
		return p.Hostname
	case p.TLS.AutoSNI && p.Host != "":
		if name := hostOf(p.Host); net.ParseIP(name) == nil { // an address is no name
			return name
		}
	}
	return p.TLS.SNI
}

// hostOf is a host without its port, and an address without brackets.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.Trim(host, "[]")
}

// Handshake secures a connection that has just been made, until ctx ends; it owns the connection, and closes it when it fails.
func (s *Store) Handshake(ctx context.Context, conn net.Conn, p *Peer) (net.Conn, error) {
	out, err := s.handshake(ctx, conn, p)
	if err != nil {
		_ = conn.Close() // nothing is lost with it
		return nil, err
	}
	return out, nil
}

func (s *Store) handshake(ctx context.Context, conn net.Conn, p *Peer) (net.Conn, error) {
	tcp, ok := conn.(upstream.TCP)
	if !ok {
		return nil, errors.New("no TCP connection")
	}
	config, err := s.config(p)
	if err != nil {
		return nil, err
	}
	raw := upstream.New(tcp)
	out := &Conn{tls.Client(raw, config), raw}
	return out, out.HandshakeContext(ctx)
}

// config is what crypto/tls needs.
func (s *Store) config(p *Peer) (*tls.Config, error) {
	m, err := s.material(p.TLS)
	if err != nil {
		return nil, err
	}
	name := p.ServerName()
	if p.TLS.AutoSAN && name != "" {
		m.names = []model.NameMatch{{Kind: model.NameDNS, Match: matcher.Exact(name)}}
	}
	if p.TLS.HostSAN && p.Host != "" {
		m.host = hostOf(p.Host)
	}
	config := &tls.Config{
		ServerName: name, MinVersion: p.TLS.MinVersion, MaxVersion: p.TLS.MaxVersion, CipherSuites: p.TLS.Ciphers,
		NextProtos:             protocols(p),
		SessionTicketsDisabled: true,
		InsecureSkipVerify:     true, //nolint:gosec // verify does it
		VerifyConnection:       m.verify,
	}
	if m.certificate != nil {
		// Whoever the server says it trusts: as Envoy, which shows what it has.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.certificate, nil }
	}
	return config, nil
}

// protocols are those that are offered. To sidecars requests are announced as by Istio's filter for ALPN, which XLB does in its place.
func protocols(p *Peer) []string {
	switch {
	case !p.HTTP:
		return p.TLS.ALPN
	case len(p.TLS.ALPN) == 0:
		return []string{"http/1.1"}
	case slices.Equal(p.TLS.ALPN, []string{"istio"}):
		return []string{"istio-http/1.1", "istio", "http/1.1"}
	}
	return p.TLS.ALPN
}

// material is what a connection is secured with.
type material struct {
	certificate *tls.Certificate
	roots       *x509.CertPool // nil: no signature is looked at
	names       []model.NameMatch
	host        string // has to be one of the names, too; empty: nothing has
	expired     bool   // certificates whose time is over are taken
}

// verify looks at the certificate of the server as Envoy does.
func (m *material) verify(state tls.ConnectionState) error {
	if m.roots == nil {
		return nil
	}
	leaf, others := state.PeerCertificates[0], x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		others.AddCert(c)
	}
	options := x509.VerifyOptions{Roots: m.roots, Intermediates: others}
	if m.expired {
		options.CurrentTime = leaf.NotAfter
	}
	if _, err := leaf.Verify(options); err != nil {
		return chainError(err)
	}
	if len(m.names) > 0 && !slices.ContainsFunc(m.names, func(n model.NameMatch) bool { return hasName(leaf, n) }) {
		return errName
	}
	if m.host != "" && !isFor(leaf, m.host) {
		return errName
	}
	return nil
}

// isFor reports whether a certificate is one for a host, which may be an address.
func isFor(c *x509.Certificate, host string) bool {
	kind := model.NameDNS
	if ip := net.ParseIP(host); ip != nil {
		kind, host = model.NameIP, ip.String()
	}
	return hasName(c, model.NameMatch{Kind: kind, Match: matcher.Exact(host)})
}

// hasName reports whether a certificate has a name that is asked for.
func hasName(c *x509.Certificate, n model.NameMatch) bool {
	switch n.Kind {
	case model.NameURI:
		for _, uri := range c.URIs {
			if n.Match.Matches(uri.String()) {
				return true
			}
		}
		return false
	case model.NameEmail:
		return slices.ContainsFunc(c.EmailAddresses, n.Match.Matches)
	case model.NameIP:
		return slices.ContainsFunc(c.IPAddresses, func(ip net.IP) bool { return n.Match.Matches(ip.String()) })
	}
	return slices.ContainsFunc(c.DNSNames, func(name string) bool {
		return n.Match.Matches(name) || n.Match.Kind == matcher.StringExact && covers(name, n.Match.Value)
	})
}

// covers reports whether a wildcard stands for a name: for its first label, or a part of it, as Envoy compares.
func covers(pattern, name string) bool {
	pattern, name = ascii.Lower(pattern), ascii.Lower(name)
	if pattern == name {
		return true
	}
	label, rest, ok := strings.Cut(pattern, ".")
	first, behind, has := strings.Cut(name, ".")
	before, after, wild := strings.Cut(label, "*")
	return ok && has && wild && rest == behind && !strings.Contains(after, "*") && !strings.HasPrefix(label, "xn--") &&
		len(first) >= len(before)+len(after) && strings.HasPrefix(first, before) && strings.HasSuffix(first, after)
}
