// SPDX-License-Identifier: Apache-2.0

package matcher

import (
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/xlb-project/xlb/internal/ascii"
)

// Request is what routing looks at.
type Request struct {
	// Authority is the Host header or the target's authority, with its port if
	// it has one. Compared without case.
	Authority string
	// Path is the request target in origin form, query string included.
	Path string
	// Method as sent.
	Method string
	// Scheme is "http" or "https"; see SchemeOf.
	Scheme string
	// Connect is a CONNECT request, whose target is an authority: no path.
	Connect bool
	// Values returns all values of a header by its lower-case name, in the
	// order of the request; none if it does not occur. "host" is the authority.
	Values func(name string) []string
	// Draw is the request's random number: fractions and weighted clusters share it.
	Draw uint64
	// Whole decides, unless it is nil, in place of [Regex.Matches] about regular expressions on header fields, query parameters and cookies.
	Whole func(re *Regex, value string) bool
	// response: the headers are those of a response, to which nothing has been added.
	response bool
}

// OfResponse is what conditions see of a response with these headers, to which nothing has been added.
func OfResponse(values func(name string) []string) *Request {
	return &Request{Values: values, response: true}
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

// QueryValue returns the value of the first parameter of that name. A parameter
// without "=" has an empty value. Envoy splits at "&" alone, and the first "?" of
// the path begins the query.
func (r *Request) QueryValue(name string) (value string, found bool) {
	_, rest, _ := strings.Cut(r.Path, "?")
	for rest != "" {
		var parameter string
		parameter, rest, _ = strings.Cut(rest, "&")
		key, value, _ := strings.Cut(parameter, "=")
		if key == name {
			return value, true
		}
	}
	return "", false
}

// Cookie returns the value of the first cookie of that name. It reads the Cookie fields as Envoy does: pairs end with ";", spaces before
// a name do not count, and double quotes around a value do not belong to it. What
// has no "=" is no cookie.
func (r *Request) Cookie(name string) (value string, found bool) {
	for _, field := range r.Values("cookie") {
		for pair := range strings.SplitSeq(field, ";") {
			key, value, ok := strings.Cut(strings.TrimLeft(pair, " "), "=")
			if ok && key == name {
				return unquoted(value), true
			}
		}
	}
	return "", false
}

func unquoted(s string) string {
	if len(s) >= 2 && s[0] == '"' && s[len(s)-1] == '"' {
		return s[1 : len(s)-1]
	}
	return s
}

// GRPCContentType begins the content type of every gRPC request.
const GRPCContentType = "application/grpc"

// IsGRPC decides for RouteMatch.grpc.
func (r *Request) IsGRPC() bool { return IsGRPC(r.Values("content-type")) }

// IsGRPC reports whether a request with these values of content-type is one of gRPC. That is Envoy's rule
// (Grpc::Common::hasGrpcContentType): the content type is "application/grpc", or that and something behind a "+".
func IsGRPC(contentTypes []string) bool {
	values := Joined("content-type", contentTypes)
	if len(values) == 0 {
		return false
	}
	rest, ok := strings.CutPrefix(values[0], GRPCContentType)
	return ok && (rest == "" || rest[0] == '+')
}
