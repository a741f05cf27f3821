// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"slices"

	"github.com/xlb-project/xlb/internal/head"
)

// hopByHop fields concern one connection only (RFC 9110 section 7.6.1). TE is another, of which a part may pass.
var hopByHop = []string{"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}

// framingFields are made anew for the next connection.
var framingFields = []string{"content-length", "trailer"}

// appendEndToEnd appends the fields that are for the next recipient, as they were written and in their order:
// without hop-by-hop fields, those that Connection lists, and those named in skip, in lower case.
func appendEndToEnd(b []byte, fields []head.Field, skip ...string) []byte {
	listed := head.Options(fields)
	trailers := false
	for _, f := range fields {
		switch {
		case f.Is("te"):
			// The one coding that says nothing of this connection's framing.
			if !trailers && f.HasToken("trailers") {
				trailers = true
				b = appendField(b, f.Name, "trailers")
			}
		case f.IsAny(hopByHop), f.IsAny(listed), f.IsAny(skip):
		default:
			b = appendField(b, f.Name, f.Value)
		}
	}
	return b
}

// EndToEnd returns the fields without Connection and those that it lists: otherwise a peer could name there a field that is added for the next
// recipient. TE and Upgrade have rules of their own.
func EndToEnd(fields []head.Field) []head.Field {
	listed := head.Options(fields)
	return slices.DeleteFunc(slices.Clone(fields), func(f head.Field) bool {
		return f.Is("connection") || f.IsAny(listed) && !f.Is("te") && !f.Is("upgrade")
	})
}

// appendTrailerNames announces the trailers that the sender has announced.
func appendTrailerNames(b []byte, fields []head.Field) []byte {
	for _, f := range fields {
		if f.Is("trailer") {
			b = appendField(b, f.Name, f.Value)
		}
	}
	return b
}

func appendField[N, V string | []byte](b []byte, name N, value V) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	b = append(b, value...)
	return append(b, "\r\n"...)
}
