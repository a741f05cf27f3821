// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/reply"
)

// routeAnswer is what a route answers where it asks no endpoint.
func (x *exchange) routeAnswer() reply.Answer {
	direct := x.route.Direct
	if direct == nil {
		return x.redirect(x.route.Redirect)
	}
	a := reply.Answer{Status: direct.Status, Body: direct.Body}
	if a.Status == http.StatusCreated || a.Status/100 == 3 {
		// As in Envoy the client is told the address that it asked for.
		a.Fields = x.redirect(&model.Redirect{}).Fields
	}
	return a
}

// redirect is the answer of a route with that action.
func (x *exchange) redirect(r *model.Redirect) reply.Answer {
	location := x.location(r)
	x.rewritePath(r.Rewrite) // which response headers may name
	return reply.Answer{Status: r.Status, Fields: []field{{Name: []byte("Location"), Value: []byte(location)}}}
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

// isGRPC reports a request of gRPC. One whose head could not be read is none.
func (x *exchange) isGRPC() bool {
	return model.IsGRPC(x.head.Values("content-type"))
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
