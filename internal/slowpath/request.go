// SPDX-License-Identifier: Apache-2.0

package slowpath

import "github.com/xlb-project/xlb/internal/slowpath/h1"

// appendRequest appends what is sent before the answer is awaited: the head, and a small body that has come with it.
func (x *exchange) appendRequest(b []byte) []byte {
	b = x.appendRequestHead(b)
	switch {
	case x.body == nil:
	case x.replay != nil:
		source := x.replay.Begin()
		x.bodySource = source
		if !x.head.Chunked {
			b = source.AppendSmall(b, x.buffered)
		}
	default:
		x.bodySource = x.body
		if x.body.Small(x.buffered) {
			b = x.body.AppendTo(b)
		}
	}
	return b
}

// appendRequestHead appends the request's head for the endpoint in use.
func (x *exchange) appendRequestHead(b []byte) []byte {
	if isSecured(x.endpoint) {
		return h1.AppendRequestHead(b, &x.head, clientCert)
	}
	return h1.AppendRequestHead(b, &x.head)
}

// clientCert tells a server what certificates its clients had, as proxies before it say. Who speaks to it with a certificate may be believed: so no client of XLB
// says it. In Envoy it never passes unless forward_client_cert_details lets it.
const clientCert = "x-forwarded-client-cert"

// isSecured reports whether an endpoint is spoken to over TLS.
func isSecured(e Picked) bool {
	s, ok := e.(Secured)
	if !ok {
		return false
	}
	tls, _ := s.Security()
	return tls != nil
}
