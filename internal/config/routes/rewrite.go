// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xlb-project/xlb/internal/model/rewrite"
)

func (t *translator) pathRewrite(in *routev3.RouteAction, path string) rewrite.PathRewrite {
	out := rewrite.PathRewrite{Prefix: in.GetPrefixRewrite(), Regex: t.substitution(in.GetRegexRewrite(), path+".regex_rewrite")}
	if out.Prefix != "" && in.GetRegexRewrite() != nil {
		t.p.Add(path+".regex_rewrite", "set together with prefix_rewrite, which Envoy refuses; keep one")
	}
	t.inTarget(out.Prefix, path+".prefix_rewrite")
	t.inTarget(in.GetRegexRewrite().GetSubstitution(), path+".regex_rewrite.substitution")
	return out
}

// inTarget refuses what would make another request line.
func (t *translator) inTarget(text, path string) {
	isForeign := func(r rune) bool { return r <= ' ' || r > '~' || r == '#' }
	if strings.ContainsFunc(text, isForeign) {
		t.p.Add(path, "%q: a request target holds visible ASCII without #; escape the rest with %%", text)
	}
}

func (t *translator) hostRewrite(in *routev3.RouteAction, path string) rewrite.HostRewrite {
	out := rewrite.HostRewrite{AppendForwarded: in.GetAppendXForwardedHost()}
	switch h := in.GetHostRewriteSpecifier().(type) {
	case *routev3.RouteAction_HostRewriteLiteral:
		out.Literal = t.host(h.HostRewriteLiteral, path+".host_rewrite_literal")
	case *routev3.RouteAction_HostRewriteHeader:
		out.Header = t.headers.Name(h.HostRewriteHeader, path+".host_rewrite_header")
		if strings.HasPrefix(out.Header, ":") {
			t.p.Add(path+".host_rewrite_header", "%q holds no host; name another header", out.Header)
		}
	case *routev3.RouteAction_HostRewritePathRegex:
		out.Path = t.substitution(h.HostRewritePathRegex, path+".host_rewrite_path_regex")
	}
	return out
}

// host refuses what a Host field cannot hold (RFC 3986 section 3.2.2).
func (t *translator) host(name, path string) string {
	isForeign := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("-._~%!$&'()*+,;=:[]", r)
	}
	if strings.ContainsFunc(name, isForeign) || strings.HasPrefix(name, ":") {
		t.p.Add(path, "%q is no host; write a name or an address, and a port if it needs one", name)
	}
	return name
}
