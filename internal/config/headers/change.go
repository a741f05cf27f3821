// SPDX-License-Identifier: Apache-2.0

package headers

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"golang.org/x/net/http/httpguts"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/model/rewrite"
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

// Level translates what one level of the configuration, at that path, adds and removes (request_headers_to_add and the other three).
func (r *Reader) Level(in changesHeaders, path string) rewrite.HeaderLevel {
	return rewrite.HeaderLevel{
		Request:  r.Changes(in.GetRequestHeadersToAdd(), in.GetRequestHeadersToRemove(), true, path+".request_headers"),
		Response: r.Changes(in.GetResponseHeadersToAdd(), in.GetResponseHeadersToRemove(), false, path+".response_headers"),
	}
}

// Changes translates one level for one direction. Path is that of the two fields, without _to_add and _to_remove. Headers that frame a message,
// or that Envoy refuses here, are a problem.
func (r *Reader) Changes(add []*corev3.HeaderValueOption, remove []string, isRequest bool, path string) rewrite.HeaderChanges {
	var out rewrite.HeaderChanges
	for i, name := range remove {
		name = ascii.Lower(name)
		r.changeable(name, isRequest, problem.At(path+"_to_remove", i))
		out.Remove = append(out.Remove, name)
	}
	for i, o := range add {
		out.Set = append(out.Set, r.setting(o, isRequest, problem.At(path+"_to_add", i)))
	}
	return out
}

var headerActions = map[corev3.HeaderValueOption_HeaderAppendAction]rewrite.HeaderAction{
	corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD:    rewrite.AppendOrAdd,
	corev3.HeaderValueOption_ADD_IF_ABSENT:              rewrite.AddIfAbsent,
	corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD: rewrite.OverwriteOrAdd,
	corev3.HeaderValueOption_OVERWRITE_IF_EXISTS:        rewrite.OverwriteIfExists,
}

//nolint:staticcheck // append is deprecated by Envoy's API, but part of it
func (r *Reader) setting(in *corev3.HeaderValueOption, isRequest bool, path string) rewrite.HeaderSetting {
	out := rewrite.HeaderSetting{
		Name: ascii.Lower(in.GetHeader().GetKey()), How: headerActions[in.GetAppendAction()], KeepEmpty: in.GetKeepEmptyValue(),
		Value: r.format(in.GetHeader().GetValue(), path+".header.value"),
	}
	r.changeable(out.Name, isRequest, path+".header.key")
	if in.GetAppend() != nil {
		if out.How != rewrite.AppendOrAdd {
			r.p.Add(path+".append", "set together with append_action, which Envoy refuses; keep append_action")
		}
		if !in.GetAppend().GetValue() {
			out.How = rewrite.OverwriteOrAdd
		}
	}
	if isRequest && out.How != rewrite.OverwriteOrAdd && (out.Name == "x-forwarded-proto" || out.Name == "x-request-id") {
		r.p.Add(path+".append_action", "Envoy has set %q before, XLB does not; use OVERWRITE_IF_EXISTS_OR_ADD", out.Name)
	}
	return out
}

// changeable refuses the headers that Envoy refuses here, and those by which messages are framed.
func (r *Reader) changeable(name string, isRequest bool, path string) {
	switch {
	case strings.HasPrefix(name, ":") || name == "host":
		r.p.Add(path, "%q cannot be changed like this; use host_rewrite_literal or prefix_rewrite", name)
	case !httpguts.ValidHeaderFieldName(name):
		r.p.Add(path, "%q is no header name; write a token (RFC 9110 section 5.6.2)", name)
	case slices.Contains(framing, name):
		r.p.Add(path, "%q is for one connection or frames the message; remove the entry", name)
	case isRequest && strings.HasPrefix(name, "x-envoy-"):
		r.p.Add(path, "%q steers Envoy's own router; remove the entry", name)
	}
}
