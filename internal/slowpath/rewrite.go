// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"strings"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
)

// rewrite gives the request the host and the path that its route asks for, whatever they come to: as in Envoy it is the endpoint that says what
// it makes of a host that is none, or of a path without "/". ok is false for a CONNECT to what is no host: that would stand in the
// request line, where Envoy lets a space through, which makes another line of it.
func (x *exchange) rewrite() (ok bool) {
	given, target := x.head.Authority, x.head.Path
	host := x.newHost(&x.route.Host, target)
	if host != "" {
		if x.head.Connect() && !head.IsAuthority(host) {
			return false
		}
		if x.route.Host.AppendForwarded && given != "" {
			x.head.Fields = appendForwardedHost(h1.EndToEnd(x.head.Fields), given)
		}
		x.head.Authority = host
		x.announce("x-envoy-original-host", given)
	}
	if !x.head.Connect() {
		x.rewritePath(x.route.Rewrite)
	}
	return true
}

// rewritePath gives the request the path that a rule of its route asks for. As in Envoy a redirect does so, too.
func (x *exchange) rewritePath(rule model.PathRewrite) {
	target := x.head.Path
	if path, ok := x.route.TargetAt(x.pace, target, rule); ok {
		x.head.Path = path
		x.announce("x-envoy-original-path", target)
	}
}

// newHost is the host that replaces the request's. Empty, which a header and an expression may leave, replaces none.
func (x *exchange) newHost(rule *model.HostRewrite, target string) string {
	switch {
	case rule.Literal != "":
		return rule.Literal
	case rule.Header != "":
		return first(model.Joined(rule.Header, x.head.Values(rule.Header)))
	case rule.Path != nil:
		path, _, _ := strings.Cut(target, "?")
		return rule.Path.ReplaceAt(x.pace, path)
	}
	return ""
}

// appendForwardedHost appends a host to X-Forwarded-Host, unless it is the last there. As in Envoy an empty place of that list is none.
func appendForwardedHost(fields []field, host string) []field {
	hosts := strings.FieldsFunc(strings.Join(head.Values(fields, "x-forwarded-host"), ","), func(c rune) bool { return c == ',' })
	if len(hosts) > 0 && hosts[len(hosts)-1] == host {
		return fields
	}
	return append(fields, field{Name: []byte("X-Forwarded-Host"), Value: []byte(host)})
}

// first is the first of several values, or empty.
func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
