// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/slowpath/reply"
)

// RouteAnswer is what a route answers where it asks no endpoint.
func (r *Request) RouteAnswer() reply.Answer {
	direct := r.Route.Direct
	if direct == nil {
		return r.redirect(r.Route.Redirect)
	}
	a := reply.Answer{Status: direct.Status, Body: direct.Body}
	if a.Status == http.StatusCreated || a.Status/100 == 3 {
		// As in Envoy the client is told the address that it asked for.
		a.Fields = r.redirect(&model.Redirect{}).Fields
	}
	return a
}

// redirect is the answer of a route with that action.
func (r *Request) redirect(rule *model.Redirect) reply.Answer {
	location := r.location(rule)
	r.rewritePath(rule.Rewrite) // which response headers may name
	return reply.Answer{Status: rule.Status, Fields: []head.Field{{Name: []byte("Location"), Value: []byte(location)}}}
}

// location is where the client is sent: what the action does not set stays as in
// the request.
func (r *Request) location(rule *model.Redirect) string {
	scheme, host, port := cmp.Or(rule.Scheme, r.scheme()), rule.Host, ""
	if rule.Port != 0 {
		port = ":" + strconv.Itoa(int(rule.Port))
	}
	if host == "" {
		host = hostFor(r.Head.Authority, scheme, r.forwardedProto(), port != "")
	}
	return scheme + "://" + host + port + locationPath(r.Pacer.Pace, r.Route, rule, r.Head.Path)
}

// IsGRPC reports a request of gRPC. One whose head could not be read is none.
func (r *Request) IsGRPC() bool {
	return matcher.IsGRPC(r.Head.Values("content-type"))
}

// scheme is ":scheme" of the request.
func (r *Request) scheme() string {
	return matcher.SchemeOf(r.Head.Scheme, r.Head.Values("x-forwarded-proto"))
}

// forwardedProto is what Envoy has in X-Forwarded-Proto of a request over a
// connection without TLS.
func (r *Request) forwardedProto() string {
	if values := matcher.Joined("x-forwarded-proto", r.Head.Values("x-forwarded-proto")); len(values) > 0 {
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
func locationPath(pace matcher.Pace, route *model.Route, rule *model.Redirect, target string) string {
	if strings.Contains(rule.Path, "?") {
		return rule.Path
	}
	path, _ := route.TargetAt(pace, target, rule.Rewrite)
	if rule.Path != "" {
		_, query, found := strings.Cut(target, "?")
		path = rule.Path
		if found {
			path += "?" + query
		}
	}
	if rule.StripQuery {
		path, _, _ = strings.Cut(path, "?")
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return path
}
