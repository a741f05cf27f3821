// SPDX-License-Identifier: Apache-2.0

package head

import (
	"bytes"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/xlb-project/xlb/internal/ascii"
)

// Field is one header field; both slices lie in the raw head.
type Field struct{ Name, Value []byte }

// Is reports whether it is the field of that name, in any case.
func (f Field) Is(name string) bool { return ascii.EqualFold(f.Name, name) }

// IsAny reports whether it is one of these fields; the names are in lower case.
func (f Field) IsAny(lower []string) bool { return slices.ContainsFunc(lower, f.Is) }

// HasToken reports whether the value, a list, has a token in any case (RFC 9110 section 5.6.1).
func (f Field) HasToken(token string) bool {
	return httpguts.HeaderValuesContainsToken([]string{string(f.Value)}, token)
}

// Values returns a field's values by its lower-case name.
func Values(fields []Field, name string) (values []string) {
	for _, f := range fields {
		if f.Is(name) {
			values = append(values, string(f.Value))
		}
	}
	return values
}

// ParseFields appends the fields of a head, whose empty line must end it; there may be most of them.
func ParseFields(rest []byte, fields []Field, most int) ([]Field, *Refusal) {
	for {
		line, behind, ok := CutLine(rest)
		switch rest = behind; {
		case !ok, len(line) == 0 && len(rest) > 0:
			return nil, malformed("a line of the head does not end with CR LF")
		case len(line) == 0:
			return fields, nil
		case len(fields) == most:
			return nil, &Refusal{TooLarge, tooMany(len(fields)+bytes.Count(behind, []byte("\r\n")), most)}
		}
		f, ok := parseField(line)
		if !ok {
			return nil, malformed("field %q: want name: value, without other characters than those may have", line)
		}
		fields = append(fields, f)
	}
}

// CutLine splits at the first line end, which must be CRLF; no other CR or LF may precede it.
func CutLine(b []byte) (line, rest []byte, ok bool) {
	i := bytes.IndexAny(b, "\r\n")
	if i < 0 || b[i] != '\r' || i+1 == len(b) || b[i+1] != '\n' {
		return nil, nil, false
	}
	return b[:i], b[i+2:], true
}

// parseField reads "name: value" without white space before the colon (RFC 9112 section 5.1). A folded line fails, as its name is
// not a token.
func parseField(line []byte) (Field, bool) {
	name, value, ok := bytes.Cut(line, []byte{':'})
	if !ok || !isToken(name) {
		return Field{}, false
	}
	for _, c := range value {
		if !IsValueByte(c) {
			return Field{}, false
		}
	}
	return Field{name, bytes.Trim(value, " \t")}, true
}

// Options returns what Connection fields list, in lower case.
func Options(fields []Field) (options []string) {
	for _, f := range fields {
		if !f.Is("connection") {
			continue
		}
		for option := range strings.SplitSeq(string(f.Value), ",") {
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

// checkOptions refuses Connection fields that list what no client has a reason to. The rules are Envoy's.
func checkOptions(fields []Field) *Refusal {
	options := slices.DeleteFunc(Options(fields), func(o string) bool { return o == "" })
	for _, o := range options {
		if o[0] == ':' {
			return malformed("connection lists %s", o)
		}
		if slices.Contains(kept, o) {
			return malformed("connection lists %s, which is not for one connection alone", o)
		}
	}
	if len(options) > maxOptions {
		return malformed("connection lists %d options; there may be %d", len(options), maxOptions)
	}
	return nil
}

// framing fields say where a message ends, so that no trailer may (RFC 9110 section 6.5.1).
var framing = []string{"transfer-encoding", "trailer", "content-length"}

// FramingTrailer returns a field that frames the message and that a Trailer field announces; empty: none does.
func FramingTrailer(fields []Field) string {
	for _, f := range fields {
		if !f.Is("trailer") {
			continue
		}
		if i := slices.IndexFunc(framing, f.HasToken); i >= 0 {
			return framing[i]
		}
	}
	return ""
}

// Underscored returns the first field with a "_" in its name, which some servers take for a "-" (headers_with_underscores_action).
func Underscored(fields []Field) (name string, found bool) {
	i := slices.IndexFunc(fields, HasUnderscore)
	if i < 0 {
		return "", false
	}
	return string(fields[i].Name), true
}

// HasUnderscore is Underscored of one field.
func HasUnderscore(f Field) bool { return bytes.IndexByte(f.Name, '_') >= 0 }
