// SPDX-License-Identifier: Apache-2.0

package slowpath

import "net/http"

// appendRequest appends what is sent before the answer is awaited: the head, and a small body that has come with it.
func (x *exchange) appendRequest(b []byte) []byte {
	b = x.appendRequestHead(b)
	switch {
	case x.body == nil:
	case x.replay != nil:
		source := x.replay.begin()
		x.bodySource = source
		if !x.head.Chunked {
			b = source.appendSmall(b, x.buffered)
		}
	default:
		x.bodySource = x.body
		if x.body.small(x.buffered) {
			b = x.body.appendTo(b)
		}
	}
	return b
}

// appendRequestHead appends the client's head for an endpoint: Host first, framing last, and between them the
// fields that are for the endpoint.
func (x *exchange) appendRequestHead(b []byte) []byte {
	h := &x.head
	b = append(b, h.Method...)
	b = append(b, ' ')
	if h.Connect() {
		b = append(b, h.Authority...)
	} else {
		b = append(b, h.Path...)
	}
	b = append(b, " HTTP/1.1\r\n"...)
	b = appendField(b, "Host", h.Authority)
	if h.Upgrade {
		b = appendUpgrade(b, h.Protocol)
	}
	skip := []string{"host", "content-length", "trailer", "http2-settings"} // only h2c has a use for the last one
	if h.ExpectContinue {
		skip = append(skip, "expect")
	}
	if isSecured(x.endpoint) {
		skip = append(skip, clientCert)
	}
	b = appendEndToEnd(b, h.Fields, skip...)
	switch {
	case h.Chunked:
		b = appendField(b, "Transfer-Encoding", "chunked")
		b = appendTrailerNames(b, h.Fields)
	case !h.Connect() && (h.Length >= 0 || mayHaveBody(h.Method)):
		b = appendLength(b, max(h.Length, 0))
	}
	return append(b, "\r\n"...)
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

// mayHaveBody names the methods whose requests some servers refuse without a length (RFC 9110 section 8.6).
func mayHaveBody(method string) bool {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		return true
	}
	return false
}

// appendUpgrade appends what asks for another protocol, or agrees to it.
func appendUpgrade(b []byte, protocol string) []byte {
	return appendField(appendField(b, "Connection", "Upgrade"), "Upgrade", protocol)
}
