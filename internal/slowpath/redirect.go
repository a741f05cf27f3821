// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/model"
)

// redirect is the answer of a route with that action.
func (x *exchange) redirect(r *model.Redirect) localAnswer {
	location := x.location(r)
	x.rewritePath(r.Rewrite) // which response headers may name
	return localAnswer{status: r.Status, fields: []field{{Name: []byte("Location"), Value: []byte(location)}}}
}

// location is where the client is sent: what the action does not set stays as in
// the request.
func (x *exchange) location(r *model.Redirect) string {
	scheme, host, port := cmp.Or(r.Scheme, x.scheme()), r.Host, ""
	if r.Port != 0 {
		port = ":" + strconv.Itoa(int(r.Port))
	}
	if host == "" {
		host = hostFor(x.head.Authority, scheme, x.forwardedProto(), port != "")
	}
	return scheme + "://" + host + port + locationPath(x.pace, x.route, r, x.head.Path)
}

// scheme is ":scheme" of the request.
func (x *exchange) scheme() string {
	return model.SchemeOf(x.head.Scheme, x.head.Values("x-forwarded-proto"))
}

// forwardedProto is what Envoy has in X-Forwarded-Proto of a request over a
// connection without TLS.
func (x *exchange) forwardedProto() string {
	if values := model.Joined("x-forwarded-proto", x.head.Values("x-forwarded-proto")); len(values) > 0 {
		return values[0]
	}
	return "http"
}

// hostFor cuts the port off a host where another one is set, and where it is the
// default one of a protocol that the scheme is not.
func hostFor(authority, scheme, proto string, another bool) string {
	colon := strings.LastIndexByte(authority, ':')
	if colon < 0 || strings.LastIndexByte(authority, ']') > colon {
		return authority
	}
	port := authority[colon:]
	isDefault := ascii.EqualFold(proto, "http") && port == ":80" || ascii.EqualFold(proto, "https") && port == ":443"
	if another || scheme != proto && isDefault {
		return authority[:colon]
	}
	return authority
}

// locationPath is the path with its query.
func locationPath(pace model.Pace, route *model.Route, r *model.Redirect, target string) string {
	if strings.Contains(r.Path, "?") {
		return r.Path
	}
	path, _ := route.TargetAt(pace, target, r.Rewrite)
	if r.Path != "" {
		_, query, found := strings.Cut(target, "?")
		path = r.Path
		if found {
			path += "?" + query
		}
	}
	if r.StripQuery {
		path, _, _ = strings.Cut(path, "?")
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return path
}
