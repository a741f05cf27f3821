// SPDX-License-Identifier: Apache-2.0

package config

import (
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/xlb-project/xlb/internal/config/listeners"
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
	// nextCache is what may serve the next configuration. uses are the resources that the one which is being translated has looked up.
	// sameClusters: there are those of the configuration before; timed: some of them limits the time of requests.
	nextCache           map[string]cachedResource
	uses                []lookedUp
	sameClusters, timed bool
	// paths are the paths of listeners, which stand by name and address in the others.
	paths     map[*model.Listener]string
	names     map[string]*model.Listener
	addresses map[destination]*model.Listener
	options   options
	// originals are clusters that have the address of a listener, telling the listeners that tell it.
	originals []original
	telling   map[*model.Listener]bool
	// leftAlone are the listeners that are left alone.
	leftAlone []model.Passed
}

func newTranslator(p *problem.List, b *Bootstrap) *translator {
	return &translator{
		Reader: values.NewReader(p), p: p, from: b, options: b.options, services: schema.Services(b.message), ads: b.message.GetDynamicResources().GetAdsConfig() != nil,
		clusters: map[string]bool{}, references: map[string]bool{}, files: map[File]map[string]bool{},
		telling: map[*model.Listener]bool{}, paths: map[*model.Listener]string{},
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
			t.register(translated, path)
			cfg.Listeners = append(cfg.Listeners, translated)
		}
	}
	switch admin := bootstrap.GetAdmin().GetAddress(); {
	case admin.GetPipe() != nil:
		cfg.AdminPipe = t.adminPipe(admin.GetPipe(), "admin.address.pipe")
	case admin != nil:
		cfg.Admin = t.adminAddress(admin, "admin.address")
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
	if path, static := strings.CutPrefix(t.paths[admin], staticPath); static {
		t.p.Add("admin.address", "%s is the address of %s; choose another", cfg.Admin, path)
		return
	}
	t.p.Add(t.paths[admin]+".address", "%s is the address of the admin API; choose another", cfg.Admin)
	cfg.Listeners = slices.DeleteFunc(cfg.Listeners, func(l *model.Listener) bool { return l == admin })
}

// staticPath begins the paths of what is in the bootstrap.
const staticPath = "static_resources."

// register refuses two listeners with one name or one address, and an admin
// API at a service address: connections to it would be intercepted.
func (t *translator) register(l *model.Listener, path string) {
	describe := func(other *model.Listener) string { return strings.TrimPrefix(t.paths[other], staticPath) }
	t.paths[l] = path
	if first, ok := t.names[l.Name]; ok {
		t.p.Add(path+".name", "%q is the name of %s; rename one", l.Name, describe(first))
	} else {
		t.names[l.Name] = l
	}
	to := destination{l.Address, l.Many, l.CatchAll}
	if first, ok := t.addresses[to]; ok && l.Address.IsValid() {
		t.p.Add(path+".address", "%s is the address of %s; merge their virtual hosts", l.Destinations(), describe(first))
	} else {
		t.addresses[to] = l
	}
}

// listeners makes the listeners of one of Envoy's.
func (t *translator) listeners(l *listenerv3.Listener, path string) []*model.Listener {
	out := listeners.Translate(t.routeScope(), l, path)
	for _, one := range out.Listeners {
		one.View = t.options.view
		t.telling[one] = out.TellsOriginal
	}
	t.refuseBound(out.Listeners, l, path)
	t.leftAlone = append(t.leftAlone, out.LeftAlone...)
	return out.Listeners
}

// routeScope is that of routes which no listener has yet.
func (t *translator) routeScope() routes.Scope {
	return routes.Scope{
		Values: t.Reader, Clusters: routes.Clusters{Balanced: t.clusters, Services: t.services, Unknown: t.alone},
		Dynamic: t.dynamicPart, EnvoyHeaders: t.options.schema.EnvoyHeaders, Table: t.rds,
	}
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
				r.TimedByCluster = cfg.TimedByCluster(l.View, r)
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
	c := cfg.In(t.options.view).Cluster(name)
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

// adminAddress is address, where port 0 has the kernel choose.
func (t *translator) adminAddress(a *corev3.Address, path string) netip.AddrPort {
	if s := a.GetSocketAddress(); s != nil && s.GetPortValue() == 0 && s.GetNamedPort() == "" {
		if ip := t.IP(s.GetAddress(), path+".socket_address.address"); ip.IsValid() {
			return netip.AddrPortFrom(ip, 0)
		}
		return netip.AddrPort{}
	}
	return t.Address(a, path)
}

// adminPipe is a Unix socket.
func (t *translator) adminPipe(p *corev3.Pipe, path string) model.Pipe {
	if err := model.CheckPipePath(p.GetPath()); err != nil {
		t.p.Add(path+".path", "%v", err)
		return model.Pipe{}
	}
	return model.Pipe{Path: p.GetPath(), Mode: fs.FileMode(p.GetMode()) & fs.ModePerm}
}

// destination is where connections go that a listener takes.
type destination struct {
	address netip.AddrPort
	many    netip.Prefix
	// catchAll: those that no other listener takes.
	catchAll bool
}

// leadTo takes out listeners to which nothing leads.
func (t *translator) leadTo(cfg *model.Config) {
	type portOf struct {
		is4  bool
		port uint16
	}
	portOfMany := func(l *model.Listener) portOf { return portOf{l.Many.Addr().Is4(), l.Address.Port()} }
	redirects, taken := false, map[portOf]bool{}
	for _, l := range cfg.Listeners {
		redirects = redirects || l.CatchAll
		if !l.CatchAll && l.Many.IsValid() {
			taken[portOfMany(l)] = true
		}
	}
	cfg.Listeners = slices.DeleteFunc(cfg.Listeners, func(l *model.Listener) bool {
		if l.Unbound && !redirects {
			t.leftAlone = append(t.leftAlone, model.Passed{Listener: l.Name, Address: l.Address, Why: "bind_to_port is false, and no listener with use_original_dst leads to it"})
			return true
		}
		// A listener for the port takes all its connections.
		return l.CatchAll && l.Address.Port() != 0 && taken[portOfMany(l)]
	})
	cfg.Passed = t.leftAlone
	for i := range cfg.Passed {
		cfg.Passed[i].View = t.options.view
	}
}
