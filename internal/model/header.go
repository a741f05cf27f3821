// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/xlb-project/xlb/internal/ascii"
)

// HeaderKind says how HeaderMatch compares.
type HeaderKind uint8

const (
	// HeaderPresent matches when the header occurs, whatever its value.
	HeaderPresent HeaderKind = iota
	// HeaderString matches when its value satisfies a StringMatch.
	HeaderString
	// HeaderRange matches when its value is a number within a range.
	HeaderRange
)

// HeaderMatch is a condition on one request header. Of a header that occurs
// several times each value is compared on its own, and one that matches is
// enough; only those that Envoy joins as it reads them (see joined) are compared
// as one value.
type HeaderMatch struct {
	// Name is lower case. "host" is the authority; the pseudo headers ":method",
	// ":path", with its query, and ":scheme" are names as well.
	Name string
	Kind HeaderKind
	// String of HeaderString.
	String StringMatch
	// Range of HeaderRange.
	Range Range
	// Invert turns the result round (HeaderMatcher.invert_match, or
	// present_match: false). As in Envoy an inverted comparison does not match a
	// request without the header; it matches a repeated one when no value of it
	// does.
	Invert bool
	// MissingAsEmpty compares a header that does not occur as one with an empty
	// value (HeaderMatcher.treat_missing_header_as_empty).
	MissingAsEmpty bool
}

// Range holds the integers from Start to End - 1 (envoy.type.v3.Int64Range).
type Range struct{ Start, End int64 }

// Contains reports whether a value is a decimal integer within the range. A sign
// and white space around it are allowed, as in Envoy.
func (r Range) Contains(value string) bool {
	n, err := strconv.ParseInt(strings.Trim(value, " \t"), 10, 64)
	return err == nil && r.Start <= n && n < r.End
}

// Matches reports whether a request satisfies the match.
func (h *HeaderMatch) Matches(req *Request) bool {
	values := req.Header(h.Name)
	if len(values) == 0 && h.MissingAsEmpty {
		values = []string{""}
	}
	if h.Kind == HeaderPresent {
		return (len(values) > 0) != h.Invert
	}
	if len(values) == 0 {
		return false
	}
	return slices.ContainsFunc(values, func(value string) bool { return h.accepts(value, req.Whole) }) != h.Invert
}

// MatchesValue reports whether a header that occurs once, with this value, satisfies the match.
func (h *HeaderMatch) MatchesValue(value string) bool {
	return (h.Kind == HeaderPresent || h.accepts(value, nil)) != h.Invert
}

func (h *HeaderMatch) accepts(value string, whole func(re *Regex, value string) bool) bool {
	if h.Kind == HeaderRange {
		return h.Range.Contains(value)
	}
	return h.String.matches(value, whole)
}

// Header returns the values of a header or pseudo header as a header match compares them.
func (r *Request) Header(name string) []string {
	switch name {
	case ":method":
		return present(r.Method)
	case ":path":
		return present(r.Path)
	case ":scheme":
		return present(r.Scheme)
	case "x-forwarded-proto":
		return r.forwardedProto()
	case "upgrade":
		return r.upgrade()
	}
	return Joined(name, r.Values(name))
}

// forwardedProto is X-Forwarded-Proto, which every request has that Envoy routes: over a connection without TLS it is http where the client has
// sent none.
func (r *Request) forwardedProto() []string {
	values := Joined("x-forwarded-proto", r.Values("x-forwarded-proto"))
	if len(values) == 0 && !r.response {
		return []string{"http"}
	}
	return values
}

// upgrade is Upgrade where Connection names it, which Envoy leaves, unless it is h2c. Of a request of HTTP/1.0 the caller has none.
func (r *Request) upgrade() []string {
	values := Joined("upgrade", r.Values("upgrade"))
	if r.response {
		return values
	}
	listed := httpguts.HeaderValuesContainsToken(r.Values("connection"), "upgrade")
	if !listed || len(values) == 1 && ascii.EqualFold(values[0], "h2c") {
		return nil
	}
	return values
}

// Joined are the values of a header, by its lower-case name, as Envoy has them: of some
// headers they become one.
func Joined(name string, values []string) []string {
	if len(values) > 1 && joined[name] {
		nonEmpty := slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == "" })
		return []string{strings.Join(nonEmpty, ",")}
	}
	return values
}

// present is the value of a pseudo header, which is never there and empty.
func present(value string) []string {
	if value == "" {
		return nil
	}
	return []string{value}
}

// joined are the headers whose repeated fields Envoy joins with "," as it
// reads them, without the empty ones: those it keeps in fields of their own
// ("inline headers"). The list was measured with Envoy 1.40 as released.
var joined = map[string]bool{
	"accept": true, "accept-encoding": true, "access-control-request-headers": true,
	"access-control-request-method": true, "access-control-request-private-network": true,
	"authorization": true, "cache-control": true, "cdn-loop": true, "content-encoding": true, "content-type": true,
	"grpc-accept-encoding": true, "grpc-timeout": true, "if-match": true, "if-modified-since": true,
	"if-none-match": true, "if-range": true, "if-unmodified-since": true, "origin": true, "pragma": true,
	"proxy-status": true, "referer": true, "user-agent": true, "via": true, "x-client-trace-id": true,
	"x-forwarded-host": true, "x-forwarded-port": true, "upgrade": true, "x-forwarded-for": true, "x-forwarded-proto": true, "x-request-id": true,
	"x-envoy-attempt-count": true, "x-envoy-decorator-operation": true, "x-envoy-downstream-service-cluster": true,
	"x-envoy-downstream-service-node": true, "x-envoy-external-address": true, "x-envoy-is-timeout-retry": true, "x-envoy-original-host": true,
	"x-envoy-original-path": true,
}

// SchemeOf is the ":scheme" of a request over a connection without TLS, as Envoy
// sets it: that of a target in absolute form, else what X-Forwarded-Proto says if
// that is a scheme, else "http".
func SchemeOf(absolute string, forwardedProto []string) string {
	scheme := absolute
	if scheme == "" && len(forwardedProto) == 1 {
		scheme = forwardedProto[0]
	}
	if scheme = ascii.Lower(scheme); scheme == "https" {
		return scheme
	}
	return "http"
}
