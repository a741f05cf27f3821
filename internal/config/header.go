// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// ofConnection are the request headers that Envoy's connection manager changes or removes whatever is configured: they are for one connection.
// A match on one of them sees Envoy's value there and the client's value here.
var ofConnection = map[string]bool{
	"connection": true, "keep-alive": true, "proxy-connection": true, "te": true, "transfer-encoding": true, "upgrade": true, "expect": true,
}

// ofHopAlone are those that it sets or removes as it is configured, besides those that begin with x-envoy-. XLB does so where it is a hop (EnvoyHeaders).
var ofHopAlone = map[string]bool{
	"x-forwarded-for": true, "x-forwarded-proto": true, "x-forwarded-client-cert": true, "x-request-id": true,
}

// isOfHop reports whether the value of a request header is another one in Envoy than the client's.
func (t *translator) isOfHop(name string) bool {
	return !t.options.schema.EnvoyHeaders && (ofHopAlone[name] || strings.HasPrefix(name, "x-envoy-"))
}

// isKnown reports whether XLB, although it is no hop, knows what Envoy has in such a header. Unless the client's address is that of its connection
// (use_remote_address), X-Forwarded-For is what the client sent, and so is X-Forwarded-Proto, or else http; and so is X-Request-Id where
// none is made. Of a table that stands alone, which may be any listener's, nothing is known.
func (t *translator) isKnown(name string) bool {
	generated := t.manager.GetGenerateRequestId()
	switch {
	case t.manager == nil, t.manager.GetUseRemoteAddress().GetValue():
		return false
	case name == "x-request-id":
		return generated != nil && !generated.GetValue()
	}
	return name == "x-forwarded-for" || name == "x-forwarded-proto"
}

// headerMatches translates those of requests.
func (t *translator) headerMatches(in []*routev3.HeaderMatcher, path string) []model.HeaderMatch {
	return t.matchesOf(in, t.matchName, path)
}

// responseMatches translates those of responses.
func (t *translator) responseMatches(in []*routev3.HeaderMatcher, path string) []model.HeaderMatch {
	return t.matchesOf(in, t.headerName, path)
}

func (t *translator) matchesOf(in []*routev3.HeaderMatcher, named func(name, path string) string, path string) []model.HeaderMatch {
	var out []model.HeaderMatch
	for i, h := range in {
		out = append(out, t.headerMatch(h, named(h.GetName(), problem.At(path, i)+".name"), problem.At(path, i)))
	}
	return out
}

func (t *translator) headerMatch(h *routev3.HeaderMatcher, name, path string) model.HeaderMatch {
	out := model.HeaderMatch{
		Name:           name,
		Invert:         h.GetInvertMatch(),
		MissingAsEmpty: h.GetTreatMissingHeaderAsEmpty(),
	}
	switch s := h.GetHeaderMatchSpecifier().(type) {
	case nil: // Envoy: present
	case *routev3.HeaderMatcher_PresentMatch:
		out.Invert = out.Invert == s.PresentMatch
	case *routev3.HeaderMatcher_RangeMatch:
		out.Kind, out.Range = model.HeaderRange, model.Range{Start: s.RangeMatch.GetStart(), End: s.RangeMatch.GetEnd()}
	case *routev3.HeaderMatcher_StringMatch:
		out.Kind, out.String = model.HeaderString, t.StringMatch(s.StringMatch, path+".string_match")
	default:
		out.Kind, out.String = model.HeaderString, t.legacyMatch(h, path)
	}
	return out
}

// legacyMatch translates the forms from before string_match. Envoy still takes
// them.
//
//nolint:staticcheck // deprecated by Envoy's API, but part of it
func (t *translator) legacyMatch(h *routev3.HeaderMatcher, path string) model.StringMatch {
	switch s := h.GetHeaderMatchSpecifier().(type) {
	case *routev3.HeaderMatcher_PrefixMatch:
		return model.StringMatch{Kind: model.StringPrefix, Value: s.PrefixMatch}
	case *routev3.HeaderMatcher_SuffixMatch:
		return model.StringMatch{Kind: model.StringSuffix, Value: s.SuffixMatch}
	case *routev3.HeaderMatcher_ContainsMatch:
		return model.StringMatch{Kind: model.StringContains, Value: s.ContainsMatch}
	case *routev3.HeaderMatcher_SafeRegexMatch:
		return t.RegexMatch(s.SafeRegexMatch, path+".safe_regex_match")
	}
	if h.GetExactMatch() == "" {
		t.p.Add(path+".exact_match", "empty, which to Envoy means any value; use present_match, or string_match with exact")
	}
	return model.Exact(h.GetExactMatch())
}

// matchName is headerName where values are compared: the model has what Envoy has in more headers then.
func (t *translator) matchName(name, path string) string {
	if lower := ascii.Lower(name); lower == "upgrade" || t.isKnown(lower) {
		return lower
	}
	return t.headerName(name, path)
}

// headerName returns the name as the model has it. It refuses the names whose
// value is not what the client sent.
func (t *translator) headerName(name, path string) string {
	name = ascii.Lower(name)
	switch {
	case name == ":authority":
		return "host"
	case name == ":method", name == ":path", name == ":scheme":
	case strings.HasPrefix(name, ":"):
		t.p.Add(path, "%q: an HTTP/1.1 request has no such pseudo header; use :method, :authority, :path or :scheme", name)
	case ofConnection[name], t.isOfHop(name):
		t.p.Add(path, "Envoy rewrites %q before it routes, XLB does not; match another header", name)
	}
	return name
}

var serverHeaders = map[hcmv3.HttpConnectionManager_ServerHeaderTransformation]model.ServerHeader{
	hcmv3.HttpConnectionManager_OVERWRITE:        model.ServerOverwrite,
	hcmv3.HttpConnectionManager_APPEND_IF_ABSENT: model.ServerAppendIfAbsent,
	hcmv3.HttpConnectionManager_PASS_THROUGH:     model.ServerPassThrough,
}

// hop is nil unless EnvoyHeaders asks for one.
func (t *translator) hop(hcm *hcmv3.HttpConnectionManager, path string) *model.Hop {
	if !t.options.schema.EnvoyHeaders {
		return nil
	}
	t.fieldValue(hcm.GetServerName(), path+".server_name")
	t.fieldValue(hcm.GetVia(), path+".via")
	return &model.Hop{
		UseRemoteAddress:     hcm.GetUseRemoteAddress().GetValue(),
		TrustedHops:          hcm.GetXffNumTrustedHops(),
		SkipForwardedFor:     hcm.GetSkipXffAppend(),
		GenerateRequestID:    hcm.GetGenerateRequestId() == nil || hcm.GetGenerateRequestId().GetValue(),
		PreserveRequestID:    hcm.GetPreserveExternalRequestId(),
		RequestIDInResponse:  hcm.GetAlwaysSetRequestIdInResponse(),
		Server:               serverHeaders[hcm.GetServerHeaderTransformation()],
		ServerName:           cmp.Or(hcm.GetServerName(), "envoy"),
		Via:                  hcm.GetVia(),
		SuppressEnvoyHeaders: t.filters.suppressEnvoyHeaders,
	}
}
