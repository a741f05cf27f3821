// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
)

// appendRequest appends what is sent before the answer is awaited: the head, and a small body that has come with it.
func (x *exchange) appendRequest(b []byte) []byte {
	b = x.appendRequestHead(b)
	switch {
	case x.body == nil:
	case x.replay != nil:
		source := x.replay.Begin()
		x.bodySource = source
		if !x.Head.Chunked {
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
		return h1.AppendRequestHead(b, &x.Head, headers.ClientCert)
	}
	return h1.AppendRequestHead(b, &x.Head)
}

// isSecured reports whether an endpoint is spoken to over TLS.
func isSecured(e Picked) bool {
	s, ok := e.(Secured)
	if !ok {
		return false
	}
	tls, _ := s.Security()
	return tls != nil
}
