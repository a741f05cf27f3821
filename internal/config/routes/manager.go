// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/xlb-project/xlb/internal/config/headers"
	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/rewrite"
	"github.com/xlb-project/xlb/internal/problem"
)

// Scope is what the routes of a connection manager are translated in.
type Scope struct {
	// Values reads values of the document, and collects its problems.
	Values *values.Reader
	// Clusters are those that routes may name.
	Clusters Clusters
	// Dynamic: the routes are not part of the bootstrap. Their clusters need not exist.
	Dynamic bool
	// EnvoyHeaders is as in headers.Scope, and so are Address and Many.
	EnvoyHeaders bool
	Address      netip.AddrPort
	Many         bool
	// Table finds the table that a connection manager has from elsewhere, and its path (rds). One that is missing has no routes.
	Table func(in *hcmv3.Rds, path string) (*routev3.RouteConfiguration, string)
}

// translator translates the routes of one connection manager, or a table that stands alone.
type translator struct {
	*values.Reader
	p       *problem.List
	headers *headers.Reader
	in      Scope
	// filters are those of the connection manager.
	filters httpFilters
	// lenient: clusters need not exist.
	lenient bool
}

func newTranslator(in Scope, manager *hcmv3.HttpConnectionManager) *translator {
	scope := headers.Scope{EnvoyHeaders: in.EnvoyHeaders, Manager: manager, Address: in.Address, Many: in.Many}
	return &translator{Reader: in.Values, p: in.Values.Problems(), headers: headers.NewReader(in.Values, scope), in: in, lenient: in.Dynamic}
}

// Check checks a table that stands alone, at no path: it may be any connection manager's (RouteConfiguration).
func Check(in Scope, table *routev3.RouteConfiguration) {
	t := newTranslator(in, nil)
	t.lenient = true
	t.routeTable(table, routeOwner{upgrades: upgrades{}}, "")
}

// Manager translates the connection manager of a listener, at that path: its routes, and what it does with requests before they have one
// (HttpConnectionManager).
func Manager(in Scope, hcm *hcmv3.HttpConnectionManager, path string) *model.RouteTable {
	t := newTranslator(in, hcm)
	t.filters = t.httpFilters(hcm, path)
	table, tablePath := hcm.GetRouteConfig(), path+".route_config"
	// Where routes are not part of the bootstrap, Envoy does not ask whether their clusters exist.
	t.lenient = in.Dynamic || hcm.GetRds() != nil
	switch {
	case hcm.GetRds() != nil:
		table, tablePath = in.Table(hcm.GetRds(), path)
	case table == nil:
		t.p.Add(tablePath, "missing: write the routes here, or use rds")
	}
	manager := upgradesOf(t, hcm.GetUpgradeConfigs(), path+".upgrade_configs")
	idle := t.idle(hcm.GetStreamIdleTimeout(), 0, path+".stream_idle_timeout")
	common := path + ".common_http_protocol_options"
	longest := t.Duration(hcm.GetCommonHttpProtocolOptions().GetMaxStreamDuration(), 0, common+".max_stream_duration")
	out := t.routeTable(table, routeOwner{upgrades: manager, idle: idle, longest: longest}, tablePath)
	t.filters.ready.addTo(out)
	out.MaxDuration = longest
	out.RequestTimeout = t.Duration(hcm.GetRequestTimeout(), 0, path+".request_timeout")
	out.Connections = t.connectionLimits(hcm, path)
	out.HeadTimeout = t.Duration(hcm.GetRequestHeadersTimeout(), 0, path+".request_headers_timeout")
	out.Host = t.hostRule(hcm, in.Address.Port(), path)
	out.Path = pathRule(hcm)
	out.Underscores = underscores[hcm.GetCommonHttpProtocolOptions().GetHeadersWithUnderscoresAction()]
	out.EnvoyHeaders = t.envoyHeaders(hcm, path)
	out.Trailers = hcm.GetHttpProtocolOptions().GetEnableTrailers()
	out.HTTP10 = t.http10(hcm.GetHttpProtocolOptions(), path+".http_protocol_options")
	return out
}

func (t *translator) http10(options *corev3.Http1ProtocolOptions, path string) model.HTTP10 {
	return model.HTTP10{
		Accept:      options.GetAcceptHttp_10(),
		DefaultHost: t.host(options.GetDefaultHostForHttp_10(), path+".default_host_for_http_10"),
	}
}

// hostRule is for a listener at that port.
func (t *translator) hostRule(hcm *hcmv3.HttpConnectionManager, port uint16, path string) rewrite.HostRule {
	if hcm.GetStripAnyHostPort() && hcm.GetStripMatchingHostPort() {
		t.p.Add(path+".strip_matching_host_port", "set together with strip_any_host_port, which Envoy refuses; keep one")
	}
	rule := rewrite.HostRule{AnyPort: hcm.GetStripAnyHostPort(), TrailingDot: hcm.GetStripTrailingHostDot()}
	if hcm.GetStripMatchingHostPort() {
		rule.Port = port
	}
	return rule
}

// escapedSlashes leaves out what keeps them: KEEP_UNCHANGED, and IMPLEMENTATION_SPECIFIC_DEFAULT, which is the same without a runtime.
var escapedSlashes = map[hcmv3.HttpConnectionManager_PathWithEscapedSlashesAction]rewrite.EscapedSlashes{
	hcmv3.HttpConnectionManager_REJECT_REQUEST:        rewrite.RejectSlashes,
	hcmv3.HttpConnectionManager_UNESCAPE_AND_REDIRECT: rewrite.RedirectSlashes,
	hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD:  rewrite.ForwardSlashes,
}

var underscores = map[corev3.HttpProtocolOptions_HeadersWithUnderscoresAction]rewrite.Underscores{
	corev3.HttpProtocolOptions_REJECT_REQUEST: rewrite.RefuseUnderscores,
	corev3.HttpProtocolOptions_DROP_HEADER:    rewrite.DropUnderscores,
}

func pathRule(hcm *hcmv3.HttpConnectionManager) rewrite.PathRule {
	return rewrite.PathRule{
		EscapedSlashes: escapedSlashes[hcm.GetPathWithEscapedSlashesAction()],
		Normalize:      hcm.GetNormalizePath().GetValue(),
		MergeSlashes:   hcm.GetMergeSlashes(),
	}
}

// connectionLimits translates what bounds the connections of a listener's clients.
func (t *translator) connectionLimits(hcm *hcmv3.HttpConnectionManager, path string) model.ConnectionLimits {
	common, commonPath := hcm.GetCommonHttpProtocolOptions(), path+".common_http_protocol_options"
	return model.ConnectionLimits{
		Idle:     t.Duration(common.GetIdleTimeout(), 0, commonPath+".idle_timeout"),
		Age:      t.Duration(common.GetMaxConnectionDuration(), 0, commonPath+".max_connection_duration"),
		Requests: common.GetMaxRequestsPerConnection().GetValue(),
		Drain:    t.Duration(hcm.GetDrainTimeout(), model.DefaultDrain, path+".drain_timeout"),
	}
}
