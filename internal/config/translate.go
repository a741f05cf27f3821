// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"slices"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/xlb-project/xlb/internal/config/routes"
	"github.com/xlb-project/xlb/internal/config/schema"
	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// translator turns a bootstrap into a model. It reads supported fields only;
// package schema has reported the others. What it makes of a file with problems
// is thrown away.
type translator struct {
	*values.Reader
	p        *problem.List
	from     *Bootstrap
	clusters map[string]bool
	// services are the static clusters that are not balanced; ads: there is a control plane.
	services map[string]bool
	ads      bool
	// dynamicPart: what is translated is not in the bootstrap. alone: it is a single resource, and others are not known; it notes those that
	// it refers to.
	dynamicPart, alone bool
	references         map[string]bool
	// asked are the names that the bootstrap itself has from the control plane.
	asked [kinds][]string
	// resources are those that are not in the bootstrap; nil: there are none yet. next keeps what has been decoded of them, files what has to be read.
	resources *Resources
	next      bodies
	files     map[File]map[string]bool
	// nextKept is what may serve the next configuration. uses are the resources that the one which is being translated has looked up.
	// sameClusters: there are those of the configuration before; timed: some of them limits the time of requests.
	nextKept            map[string]kept
	uses                []lookedUp
	sameClusters, timed bool
	// places are the paths of listeners, which stand by name and address in the others.
	places    map[*model.Listener]string
	names     map[string]*model.Listener
	addresses map[destination]*model.Listener
	options   options
	// originals are clusters that have the address of a listener, telling the listeners that tell it.
	originals []original
	telling   map[*model.Listener]bool
	// chosen is the filter chain that is being translated; many: it is for many destinations.
	chosen *chainAt
	many   bool
	// passed are the listeners that are left alone.
	passed []model.Passed
}

func newTranslator(p *problem.List, b *Bootstrap) *translator {
	return &translator{
		Reader: values.NewReader(p), p: p, from: b, options: b.options, services: schema.Services(b.message), ads: b.message.GetDynamicResources().GetAdsConfig() != nil,
		clusters: map[string]bool{}, references: map[string]bool{}, files: map[File]map[string]bool{},
		telling: map[*model.Listener]bool{}, places: map[*model.Listener]string{},
		names: map[string]*model.Listener{}, addresses: map[destination]*model.Listener{},
	}
}

// staticClusters translates the clusters of the bootstrap, but for those that are no part of the balancing.
func (t *translator) staticClusters() []*model.Cluster {
	var out []*model.Cluster
	for i, c := range t.from.message.GetStaticResources().GetClusters() {
		path := problem.At("static_resources.clusters", i)
		if t.services[c.GetName()] {
			if c != schema.ClusterNamed(t.from.message, c.GetName()) {
				t.p.Add(path+".name", "a second cluster %q; rename one", c.GetName())
			}
			continue
		}
		out = append(out, t.clusterAt(path, c.GetName(), nil, func() *model.Cluster { return t.cluster(c, path) }))
	}
	return out
}

// static translates the rest of the bootstrap. All clusters have been translated.
func (t *translator) static(cfg *model.Config) {
	bootstrap := t.from.message
	resources := bootstrap.GetStaticResources()
	if len(resources.GetListeners()) == 0 && bootstrap.GetDynamicResources().GetLdsConfig() == nil {
		t.p.Add("static_resources.listeners", "empty: nothing to balance; add a listener, or lds_config to dynamic_resources")
	}
	for i, l := range resources.GetListeners() {
		path := problem.At("static_resources.listeners", i)
		for _, translated := range t.listenerAt(path, nil, func() []*model.Listener { return t.listeners(l, path) }) {
			t.place(translated, path)
			cfg.Listeners = append(cfg.Listeners, translated)
		}
	}
	if admin := bootstrap.GetAdmin(); admin.GetAddress() != nil {
		cfg.Admin = t.adminAddress(admin.GetAddress(), "admin.address")
	}
	cfg.MaxConnections = t.maxConnections(bootstrap)
	cfg.Local = t.local(bootstrap, cfg)
}

// finish does what needs everything.
func (t *translator) finish(cfg *model.Config) {
	t.leadTo(cfg)
	t.resolveOriginals(cfg)
	markTimed(cfg)
	if t.resources == nil {
		t.circles(cfg)
	}
	admin, ok := t.addresses[destination{address: cfg.Admin}]
	if !ok || !cfg.Admin.IsValid() {
		return
	}
	if path, static := strings.CutPrefix(t.places[admin], staticPath); static {
		t.p.Add("admin.address", "%s is the address of %s; choose another", cfg.Admin, path)
		return
	}
	t.p.Add(t.places[admin]+".address", "%s is the address of the admin API; choose another", cfg.Admin)
	cfg.Listeners = slices.DeleteFunc(cfg.Listeners, func(l *model.Listener) bool { return l == admin })
}

// staticPath begins the paths of what is in the bootstrap.
const staticPath = "static_resources."

// place refuses two listeners with one name or one address, and an admin
// API at a service address: connections to it would be intercepted.
func (t *translator) place(l *model.Listener, path string) {
	shown := func(other *model.Listener) string { return strings.TrimPrefix(t.places[other], staticPath) }
	t.places[l] = path
	if first, ok := t.names[l.Name]; ok {
		t.p.Add(path+".name", "%q is the name of %s; rename one", l.Name, shown(first))
	} else {
		t.names[l.Name] = l
	}
	place := destination{l.Address, l.Many, l.CatchAll}
	if first, ok := t.addresses[place]; ok && l.Address.IsValid() {
		t.p.Add(path+".address", "%s is the address of %s; merge their virtual hosts", l.Place(), shown(first))
	} else {
		t.addresses[place] = l
	}
}

func (t *translator) listener(l *listenerv3.Listener, path string) *model.Listener {
	addressPath := path + ".address"
	out := &model.Listener{
		Name:    l.GetName(),
		Address: t.Address(l.GetAddress(), addressPath),
		Routes:  &model.RouteTable{},
	}
	if a := out.Address.Addr(); a.IsValid() && a.IsMulticast() {
		t.p.Add(addressPath, "%s is no service address: name the address that clients connect to, one listener for each", a)
	}
	if out.Name == "" {
		out.Name = out.Address.String()
	}
	t.telling[out] = t.tellsOriginal(l, path)
	if out.Address.IsValid() && out.Address.Addr().IsUnspecified() && !t.many {
		t.bind(out, l, path)
	}
	if t.chosen.chain == nil {
		return out
	}
	if proxy, proxyPath := t.tcpProxyOf(); proxy != nil {
		out.StatPrefix = proxy.GetStatPrefix()
		out.TCP = t.tcpProxy(proxy, proxyPath)
		return out
	}
	if hcm, hcmPath := t.connectionManager(); hcm != nil {
		out.StatPrefix = hcm.GetStatPrefix()
		out.Routes = routes.Manager(t.routeScope(out.Address), hcm, hcmPath)
	}
	return out
}

// clusterNames are those that routes and TCP proxies may name.
func (t *translator) clusterNames() routes.Clusters {
	return routes.Clusters{Balanced: t.clusters, Services: t.services, Unknown: t.alone}
}

// routeScope is that of a listener's routes; an invalid address is that of none.
func (t *translator) routeScope(address netip.AddrPort) routes.Scope {
	return routes.Scope{
		Values: t.Reader, Clusters: t.clusterNames(), Dynamic: t.dynamicPart, EnvoyHeaders: t.options.schema.EnvoyHeaders,
		Address: address, Many: t.many, Table: t.rds,
	}
}

// connectionManager finds the one filter of the filter chain.
func (t *translator) connectionManager() (*hcmv3.HttpConnectionManager, string) {
	path := t.chosen.path + ".filters"
	filters := t.chosen.chain.GetFilters()
	if len(filters) != 1 {
		t.p.Add(path, "has %d filters; XLB needs exactly one, the HTTP connection manager or the TCP proxy", len(filters))
		return nil, ""
	}
	path += "[0].typed_config"
	hcm := &hcmv3.HttpConnectionManager{}
	if !t.Unpack(filters[0].GetTypedConfig(), hcm, path, "HttpConnectionManager") {
		return nil, ""
	}
	return hcm, path
}

// markTimed tells the routes that lead to clusters which limit how long a request may take.
func markTimed(cfg *model.Config) {
	timed := false
	for _, c := range cfg.Clusters {
		timed = timed || c.MaxDuration > 0
	}
	if !timed {
		return
	}
	for _, l := range cfg.Listeners {
		for _, vh := range l.Routes.VirtualHosts {
			for _, r := range vh.Routes {
				r.TimedByCluster = cfg.TimedByCluster(r)
			}
		}
	}
}

// local translates what a bootstrap says of this node; nil where that is not enough for zone-aware routing.
func (t *translator) local(in *bootstrapv3.Bootstrap, cfg *model.Config) *model.Local {
	name, path := in.GetClusterManager().GetLocalClusterName(), "cluster_manager.local_cluster_name"
	if name == "" {
		return nil
	}
	c := cfg.Cluster(name)
	if c == nil {
		t.p.Add(path, "there is no cluster %q, which Envoy refuses; add the one of this node and its like", name)
		return nil
	}
	for i := range c.Targets {
		if c.Targets[i].Priority > 0 {
			t.p.Add(path, "cluster %q has an endpoint of priority %d, which Envoy refuses; leave priorities out there", name, c.Targets[i].Priority)
			break
		}
	}
	if in.GetNode().GetLocality() == nil {
		return nil
	}
	return &model.Local{Cluster: name, Locality: values.Locality(in.GetNode().GetLocality())}
}
