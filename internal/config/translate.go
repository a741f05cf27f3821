// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/model"
)

// translator turns a bootstrap into a model. It reads supported fields only;
// checkSupport has reported the others. What it makes of a file with problems
// is thrown away.
type translator struct {
	p        *problems
	clusters map[string]bool
	// service is the address of the listener that is being translated.
	service netip.AddrPort
	// filters are those of its connection manager.
	filters httpFilters
	options options
	// originals are clusters that have the address of a listener, telling the listeners that tell it.
	originals []original
	telling   map[*model.Listener]bool
}

func translate(p *problems, bootstrap *bootstrapv3.Bootstrap, o options) *model.Config {
	t := &translator{p: p, clusters: map[string]bool{}, options: o, telling: map[*model.Listener]bool{}}
	cfg := &model.Config{}
	resources := bootstrap.GetStaticResources()
	for i, c := range resources.GetClusters() {
		cfg.Clusters = append(cfg.Clusters, t.cluster(c, at("static_resources.clusters", i)))
	}
	if len(resources.GetListeners()) == 0 {
		p.add("static_resources.listeners", "empty: nothing to balance; add a listener")
	}
	for i, l := range resources.GetListeners() {
		cfg.Listeners = append(cfg.Listeners, t.listener(l, at("static_resources.listeners", i)))
	}
	if admin := bootstrap.GetAdmin(); admin.GetAddress() != nil {
		cfg.Admin = t.address(admin.GetAddress(), "admin.address")
	}
	cfg.Local = t.local(bootstrap, cfg)
	t.distinct(cfg)
	t.resolveOriginals(cfg)
	markTimed(cfg)
	return cfg
}

// distinct refuses two listeners with one name or one address, and an admin
// API at a service address: connections to it would be intercepted.
func (t *translator) distinct(cfg *model.Config) {
	names := map[string]int{}
	addresses := map[netip.AddrPort]int{}
	for i, l := range cfg.Listeners {
		path := at("static_resources.listeners", i)
		if first, ok := names[l.Name]; ok {
			t.p.add(path+".name", "%q is the name of listeners[%d]; rename one", l.Name, first)
		} else {
			names[l.Name] = i
		}
		if first, ok := addresses[l.Address]; ok && l.Address.IsValid() {
			t.p.add(path+".address", "%s is the address of listeners[%d]; merge their virtual hosts", l.Address, first)
		} else {
			addresses[l.Address] = i
		}
	}
	if i, ok := addresses[cfg.Admin]; ok && cfg.Admin.IsValid() {
		t.p.add("admin.address", "%s is the address of listeners[%d]; choose another", cfg.Admin, i)
	}
}

func (t *translator) listener(l *listenerv3.Listener, path string) *model.Listener {
	addressPath := path + ".address"
	out := &model.Listener{
		Name:    l.GetName(),
		Address: t.address(l.GetAddress(), addressPath),
		Routes:  &model.RouteTable{},
	}
	if a := out.Address.Addr(); a.IsValid() && (a.IsUnspecified() || a.IsMulticast()) {
		t.p.add(addressPath, "%s is no service address: name the address that clients connect to, one listener for each", a)
	}
	if out.Name == "" {
		out.Name = out.Address.String()
	}
	t.service = out.Address
	t.telling[out] = t.tellsOriginal(l, path)
	if proxy, proxyPath := t.tcpProxyOf(l, path); proxy != nil {
		out.StatPrefix = proxy.GetStatPrefix()
		out.TCP = t.tcpProxy(proxy, proxyPath)
		return out
	}
	if hcm, hcmPath := t.connectionManager(l, path); hcm != nil {
		t.filters = t.httpFilters(hcm, hcmPath)
		out.StatPrefix = hcm.GetStatPrefix()
		if hcm.GetRouteConfig() == nil {
			t.p.add(hcmPath+".route_config", "missing: write the routes here")
		}
		manager := upgradesOf(t, hcm.GetUpgradeConfigs(), hcmPath+".upgrade_configs")
		idle := t.idle(hcm.GetStreamIdleTimeout(), 0, hcmPath+".stream_idle_timeout")
		common := hcmPath + ".common_http_protocol_options"
		longest := t.duration(hcm.GetCommonHttpProtocolOptions().GetMaxStreamDuration(), 0, common+".max_stream_duration")
		out.Routes = t.routeTable(hcm.GetRouteConfig(), routeOwner{upgrades: manager, idle: idle, longest: longest}, hcmPath+".route_config")
		out.Routes.MaxDuration = longest
		out.Routes.RequestTimeout = t.duration(hcm.GetRequestTimeout(), 0, hcmPath+".request_timeout")
		out.Routes.Connections = t.connectionLimits(hcm, hcmPath)
		out.Routes.HeadTimeout = t.duration(hcm.GetRequestHeadersTimeout(), 0, hcmPath+".request_headers_timeout")
		out.Routes.Host = t.hostRule(hcm, out.Address.Port(), hcmPath)
		out.Routes.Path = pathRule(hcm)
		out.Routes.Hop = t.hop(hcm, hcmPath)
	}
	return out
}

// connectionManager finds the one filter of the one filter chain.
func (t *translator) connectionManager(l *listenerv3.Listener, path string) (*hcmv3.HttpConnectionManager, string) {
	chains := l.GetFilterChains()
	if len(chains) != 1 {
		t.p.add(path+".filter_chains", "has %d filter chains; XLB needs exactly one", len(chains))
		return nil, ""
	}
	path += ".filter_chains[0].filters"
	filters := chains[0].GetFilters()
	if len(filters) != 1 {
		t.p.add(path, "has %d filters; XLB needs exactly one, the HTTP connection manager or the TCP proxy", len(filters))
		return nil, ""
	}
	path += "[0].typed_config"
	hcm := &hcmv3.HttpConnectionManager{}
	if !t.unpack(filters[0].GetTypedConfig(), hcm, path, "HttpConnectionManager") {
		return nil, ""
	}
	return hcm, path
}

// unpack decodes a filter's configuration, which has to be of the type of m.
func (t *translator) unpack(content *anypb.Any, m proto.Message, path, want string) bool {
	if content == nil {
		t.p.add(path, "missing: XLB needs %s here", want)
		return false
	}
	if !content.MessageIs(m) {
		t.p.add(path, "not supported here: %s; XLB needs %s", content.GetTypeUrl(), want)
		return false
	}
	if err := content.UnmarshalTo(m); err != nil {
		t.p.add(path, "%s", reason(err))
		return false
	}
	return true
}

// hostRule is for a listener at that port.
func (t *translator) hostRule(hcm *hcmv3.HttpConnectionManager, port uint16, path string) model.HostRule {
	if hcm.GetStripAnyHostPort() && hcm.GetStripMatchingHostPort() {
		t.p.add(path+".strip_matching_host_port", "set together with strip_any_host_port, which Envoy refuses; keep one")
	}
	rule := model.HostRule{AnyPort: hcm.GetStripAnyHostPort(), TrailingDot: hcm.GetStripTrailingHostDot()}
	if hcm.GetStripMatchingHostPort() {
		rule.Port = port
	}
	return rule
}

// escapedSlashes leaves out what keeps them: KEEP_UNCHANGED, and IMPLEMENTATION_SPECIFIC_DEFAULT, which is the same without a runtime.
var escapedSlashes = map[hcmv3.HttpConnectionManager_PathWithEscapedSlashesAction]model.EscapedSlashes{
	hcmv3.HttpConnectionManager_REJECT_REQUEST:        model.RejectSlashes,
	hcmv3.HttpConnectionManager_UNESCAPE_AND_REDIRECT: model.RedirectSlashes,
	hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD:  model.ForwardSlashes,
}

func pathRule(hcm *hcmv3.HttpConnectionManager) model.PathRule {
	return model.PathRule{
		EscapedSlashes: escapedSlashes[hcm.GetPathWithEscapedSlashesAction()],
		Normalize:      hcm.GetNormalizePath().GetValue(),
		MergeSlashes:   hcm.GetMergeSlashes(),
	}
}
