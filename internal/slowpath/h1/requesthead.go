// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"net/http"

	"github.com/xlb-project/xlb/internal/head"
)

// AppendRequestHead appends the client's head for an endpoint: Host first, framing last, and between them the fields that are for the endpoint. It
// leaves out the fields that without names, in lower case. A body keeps the client's framing; a request whose method usually has a body gets a
// length in any case (RFC 9110 section 8.6).
func AppendRequestHead(b []byte, h *head.Head, without ...string) []byte {
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
	skip = append(skip, without...)
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

// EmptyLines is the length of the empty lines that may precede a request (RFC 9112
// section 2.2): some clients end a body with one.
func EmptyLines(b []byte) (n int) {
	for n+1 < len(b) && b[n] == '\r' && b[n+1] == '\n' {
		n += 2
	}
	return n
}
