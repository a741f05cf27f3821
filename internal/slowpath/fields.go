// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/model"
)

// hopByHop fields concern one connection only (RFC 9110 section 7.6.1). TE is another, of which a part may pass.
var hopByHop = []string{"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}

// framingFields are made anew for the next connection.
var framingFields = []string{"content-length", "trailer"}

// appendEndToEnd appends the fields that are for the next recipient, as they were written and in their order:
// without hop-by-hop fields, those that Connection lists, and those named in skip, in lower case.
func appendEndToEnd(b []byte, fields []field, skip ...string) []byte {
	listed := connectionOptions(fields)
	trailers := false
	for _, f := range fields {
		switch {
		case f.is("te"):
			// The one coding that says nothing of this connection's framing.
			if !trailers && f.hasToken("trailers") {
				trailers = true
				b = appendField(b, f.name, "trailers")
			}
		case f.isAny(hopByHop), f.isAny(listed), f.isAny(skip):
		default:
			b = appendField(b, f.name, f.value)
		}
	}
	return b
}

// connectionOptions returns what Connection fields list, in lower case.
func connectionOptions(fields []field) (options []string) {
	for _, f := range fields {
		if !f.is("connection") {
			continue
		}
		for option := range strings.SplitSeq(string(f.value), ",") {
			options = append(options, ascii.Lower(ascii.TrimSpace(option)))
		}
	}
	return options
}

// kept are the fields that a client must not have left out by Connection: they say whom a request is for, and what proxies before this one know of
// whom it is from.
var kept = []string{"host", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"}

// maxOptions bounds what Connection fields list.
const maxOptions = 9

// optionsAllowed reports whether Connection fields list nothing that no client has a reason to. The rules are Envoy's.
func optionsAllowed(fields []field) bool {
	options := slices.DeleteFunc(connectionOptions(fields), func(o string) bool { return o == "" })
	return len(options) <= maxOptions &&
		!slices.ContainsFunc(options, func(o string) bool { return o[0] == ':' || slices.Contains(kept, o) })
}

// endToEnd leaves out what Connection lists, and Connection itself: otherwise a peer could name there a field that is added for the next
// recipient. TE and Upgrade have rules of their own.
func endToEnd(fields []field) []field {
	listed := connectionOptions(fields)
	return slices.DeleteFunc(slices.Clone(fields), func(f field) bool {
		return f.is("connection") || f.isAny(listed) && !f.is("te") && !f.is("upgrade")
	})
}

// appendTrailerNames announces the trailers that the sender has announced.
func appendTrailerNames(b []byte, fields []field) []byte {
	for _, f := range fields {
		if f.is("trailer") {
			b = appendField(b, f.name, f.value)
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

// valuesOf returns a field's values by its lower-case name.
func valuesOf(fields []field, name string) (values []string) {
	for _, f := range fields {
		if f.is(name) {
			values = append(values, string(f.value))
		}
	}
	return values
}

// trailersAllowed reports whether no Trailer field announces a field that
// frames the message (RFC 9110 section 6.5.1).
func trailersAllowed(fields []field) bool {
	return !slices.ContainsFunc(fields, func(f field) bool {
		return f.is("trailer") && (f.hasToken("transfer-encoding") || f.hasToken("trailer") || f.hasToken("content-length"))
	})
}

// passTrailers reports whether trailers pass between the client and the cluster: as in Envoy where both sides have them enabled.
func (x *exchange) passTrailers(to *model.Cluster) bool {
	return x.table != nil && x.table.Trailers && to.Trailers
}

func (f field) isAny(lower []string) bool { return slices.ContainsFunc(lower, f.is) }
