// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"golang.org/x/net/http/httpguts"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// changesHeaders is a level of the configuration that changes headers.
type changesHeaders interface {
	GetRequestHeadersToAdd() []*corev3.HeaderValueOption
	GetRequestHeadersToRemove() []string
	GetResponseHeadersToAdd() []*corev3.HeaderValueOption
	GetResponseHeadersToRemove() []string
}

// framing are the headers that a connection or the length of a message depends on.
var framing = []string{
	"connection", "content-length", "expect", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

// headerLevel translates what one level, at that path, changes.
func (t *translator) headerLevel(in changesHeaders, path string) model.HeaderLevel {
	return model.HeaderLevel{
		Request:  t.changes(in.GetRequestHeadersToAdd(), in.GetRequestHeadersToRemove(), true, path+".request_headers"),
		Response: t.changes(in.GetResponseHeadersToAdd(), in.GetResponseHeadersToRemove(), false, path+".response_headers"),
	}
}

// changes translates one level for one direction, which path begins to name.
func (t *translator) changes(add []*corev3.HeaderValueOption, remove []string, isRequest bool, path string) model.HeaderChanges {
	var out model.HeaderChanges
	for i, name := range remove {
		name = ascii.Lower(name)
		t.changeable(name, isRequest, problem.At(path+"_to_remove", i))
		out.Remove = append(out.Remove, name)
	}
	for i, o := range add {
		out.Set = append(out.Set, t.setting(o, isRequest, problem.At(path+"_to_add", i)))
	}
	return out
}

var headerActions = map[corev3.HeaderValueOption_HeaderAppendAction]model.HeaderAction{
	corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD:    model.AppendOrAdd,
	corev3.HeaderValueOption_ADD_IF_ABSENT:              model.AddIfAbsent,
	corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD: model.OverwriteOrAdd,
	corev3.HeaderValueOption_OVERWRITE_IF_EXISTS:        model.OverwriteIfExists,
}

//nolint:staticcheck // append is deprecated by Envoy's API, but part of it
func (t *translator) setting(in *corev3.HeaderValueOption, isRequest bool, path string) model.HeaderSetting {
	out := model.HeaderSetting{
		Name: ascii.Lower(in.GetHeader().GetKey()), How: headerActions[in.GetAppendAction()], KeepEmpty: in.GetKeepEmptyValue(),
		Value: t.format(in.GetHeader().GetValue(), path+".header.value"),
	}
	t.changeable(out.Name, isRequest, path+".header.key")
	if in.GetAppend() != nil {
		if out.How != model.AppendOrAdd {
			t.p.Add(path+".append", "set together with append_action, which Envoy refuses; keep append_action")
		}
		if !in.GetAppend().GetValue() {
			out.How = model.OverwriteOrAdd
		}
	}
	if isRequest && out.How != model.OverwriteOrAdd && (out.Name == "x-forwarded-proto" || out.Name == "x-request-id") {
		t.p.Add(path+".append_action", "Envoy has set %q before, XLB does not; use OVERWRITE_IF_EXISTS_OR_ADD", out.Name)
	}
	return out
}

// changeable refuses the headers that Envoy refuses here, and those by which messages are framed.
func (t *translator) changeable(name string, isRequest bool, path string) {
	switch {
	case strings.HasPrefix(name, ":") || name == "host":
		t.p.Add(path, "%q cannot be changed like this; use host_rewrite_literal or prefix_rewrite", name)
	case !httpguts.ValidHeaderFieldName(name):
		t.p.Add(path, "%q is no header name; write a token (RFC 9110 section 5.6.2)", name)
	case slices.Contains(framing, name):
		t.p.Add(path, "%q is for one connection or frames the message; remove the entry", name)
	case isRequest && strings.HasPrefix(name, "x-envoy-"):
		t.p.Add(path, "%q steers Envoy's own router; remove the entry", name)
	}
}

func (t *translator) pathRewrite(in *routev3.RouteAction, path string) model.PathRewrite {
	out := model.PathRewrite{Prefix: in.GetPrefixRewrite(), Regex: t.substitution(in.GetRegexRewrite(), path+".regex_rewrite")}
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

func (t *translator) hostRewrite(in *routev3.RouteAction, path string) model.HostRewrite {
	out := model.HostRewrite{AppendForwarded: in.GetAppendXForwardedHost()}
	switch h := in.GetHostRewriteSpecifier().(type) {
	case *routev3.RouteAction_HostRewriteLiteral:
		out.Literal = t.host(h.HostRewriteLiteral, path+".host_rewrite_literal")
	case *routev3.RouteAction_HostRewriteHeader:
		out.Header = t.headerName(h.HostRewriteHeader, path+".host_rewrite_header")
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
