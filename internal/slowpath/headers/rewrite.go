// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"strings"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
)

// Rewrite gives the request the host and the path that its route asks for, whatever they come to: as in Envoy it is the endpoint that says what
// it makes of a host that is none, or of a path without "/". ok is false for a CONNECT to what is no host: that would stand in the
// request line, where Envoy lets a space through, which makes another line of it.
func (r *Request) Rewrite() (ok bool) {
	given, target := r.Head.Authority, r.Head.Path
	host := r.newHost(&r.Route.Host, target)
	if host != "" {
		if r.Head.Connect() && !head.IsAuthority(host) {
			return false
		}
		if r.Route.Host.AppendForwarded && given != "" {
			r.Head.Fields = appendForwardedHost(h1.EndToEnd(r.Head.Fields), given)
		}
		r.Head.Authority = host
		r.announce("x-envoy-original-host", given)
	}
	if !r.Head.Connect() {
		r.rewritePath(r.Route.Rewrite)
	}
	return true
}

// rewritePath gives the request the path that a rule of its route asks for. As in Envoy a redirect does so, too.
func (r *Request) rewritePath(rule rewrite.PathRewrite) {
	target := r.Head.Path
	if path, ok := r.Route.TargetAt(r.Pacer.Pace, target, rule); ok {
		r.Head.Path = path
		r.announce("x-envoy-original-path", target)
	}
}

// newHost is the host that replaces the request's. Empty, which a header and an expression may leave, replaces none.
func (r *Request) newHost(rule *rewrite.HostRewrite, target string) string {
	switch {
	case rule.Literal != "":
		return rule.Literal
	case rule.Header != "":
		return First(matcher.Joined(rule.Header, r.Head.Values(rule.Header)))
	case rule.Path != nil:
		path, _, _ := strings.Cut(target, "?")
		return rule.Path.ReplaceAt(r.Pacer.Pace, path)
	}
	return ""
}

// appendForwardedHost appends a host to X-Forwarded-Host, unless it is the last there. As in Envoy an empty place of that list is none.
func appendForwardedHost(fields []head.Field, host string) []head.Field {
	hosts := strings.FieldsFunc(strings.Join(head.Values(fields, "x-forwarded-host"), ","), func(c rune) bool { return c == ',' })
	if len(hosts) > 0 && hosts[len(hosts)-1] == host {
		return fields
	}
	return append(fields, head.Field{Name: []byte("X-Forwarded-Host"), Value: []byte(host)})
}
