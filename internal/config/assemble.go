// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xlb-project/xlb/internal/config/clusters"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// Assemble joins dynamic resources, each of which has passed CheckResource, with the static part. Names of the static part stay its own.
//
// What only shows when resources meet, as two listeners at one address, is an error; the configuration is then the rest, and may be put in
// force. The error's lines begin with the resource: listeners["web"].address. Not safe for concurrent use.
func (b *Bootstrap) Assemble(r Resources) (*model.Config, error) {
	p := problem.NewList()
	t := newTranslator(p, b)
	t.resources, t.next, t.nextCache = &r, bodies{}, map[string]cachedResource{}
	cfg := &model.Config{Clusters: t.staticClusters()}
	t.dynamicPart = true
	for _, name := range slices.Sorted(maps.Keys(r.Clusters)) {
		if c := t.dynamicCluster(name, r.Clusters[name]); c != nil {
			cfg.Clusters = append(cfg.Clusters, c)
		}
	}
	t.sameClusters = maps.Equal(t.clusters, b.clusters)
	t.timed = slices.ContainsFunc(cfg.Clusters, func(c *model.Cluster) bool { return c.MaxDuration > 0 })
	t.dynamicPart = false
	t.static(cfg)
	t.dynamicPart = true
	for _, name := range b.listenerOrder(r.Listeners) {
		before := len(p.All())
		parts := t.dynamicListener(name, r.Listeners[name])
		for _, l := range parts {
			t.register(l, problem.Key("listeners", name))
		}
		if len(p.All()) == before {
			cfg.Listeners = append(cfg.Listeners, parts...)
		}
	}
	t.finish(cfg)
	b.bodies, b.files, b.cache, b.clusters, b.listening = t.next, t.files, t.nextCache, t.clusters, map[string]bool{}
	for _, l := range cfg.Listeners {
		b.listening[cmp.Or(l.Source, l.Name)] = true
	}
	b.remember(t, cfg)
	return cfg, p.Joined()
}

// dynamicCluster is nil for the name of a static one, and after a problem.
func (t *translator) dynamicCluster(name string, body *anypb.Any) *model.Cluster {
	path := problem.Key("clusters", name)
	return t.clusterAt(path, name, body, func() *model.Cluster {
		if m, ok := t.body(Clusters, name, body).(*clusterv3.Cluster); ok {
			return t.cluster(m, path)
		}
		return nil
	})
}

// dynamicListener likewise.
func (t *translator) dynamicListener(name string, body *anypb.Any) []*model.Listener {
	path := problem.Key("listeners", name)
	return t.listenerAt(path, body, func() []*model.Listener {
		if m, ok := t.body(Listeners, name, body).(*listenerv3.Listener); ok {
			return t.listeners(m, path)
		}
		return nil
	})
}

// listenerOrder is by name, with those first that are in the configuration before: of two at one address the older stays, as in Envoy.
func (b *Bootstrap) listenerOrder(all map[string]*anypb.Any) []string {
	names := slices.Sorted(maps.Keys(all))
	slices.SortStableFunc(names, func(x, y string) int {
		switch {
		case b.listening[x] == b.listening[y]:
			return 0
		case b.listening[x]:
			return -1
		}
		return 1
	})
	return names
}

// body is nil for what is static, and after a problem.
func (t *translator) body(kind Kind, name string, body *anypb.Any) any {
	if t.from.static[kind][name] {
		return nil
	}
	m, err := t.from.bodies.get(kind, body, t.next)
	if err != nil {
		t.p.Add(problem.Key(kind.String(), name), "%v", err)
		return nil
	}
	return m
}

// found is the one resource that a source has under a name, or nil. A resource is found where all are at hand; otherwise it is noted as a
// reference.
func (t *translator) found(from source, kind Kind, name, path string) any {
	if from.file.Path != "" {
		t.asksFile(from.file, name)
	}
	if t.alone {
		if from.ads {
			t.references[name] = true
		}
		return nil
	}
	if from.ads && !t.dynamicPart {
		t.asked[kind] = append(t.asked[kind], name)
	}
	if t.resources == nil {
		return nil
	}
	body := t.lookUp(from, kind, name)
	t.uses = append(t.uses, lookedUp{from, kind, name, body})
	if body == nil {
		if held := t.resources.Files[from.file]; len(held) > 0 {
			t.p.Add(path, "%s holds %s, and %q is asked for", from.file.Path, strings.Join(slices.Sorted(maps.Keys(held)), " and "), name)
		}
		return nil
	}
	m, err := t.from.bodies.get(kind, body, t.next)
	if err != nil {
		t.p.Add(path, "%v", err)
		return nil
	}
	return m
}

// asksFile notes that the configuration asks a file for a resource.
func (t *translator) asksFile(f File, name string) {
	if t.files[f] == nil {
		t.files[f] = map[string]bool{}
	}
	t.files[f][name] = true
}

// Files are the files that the last configuration, assembled or parsed, has its resources from: whether they were there or not.
func (b *Bootstrap) Files() []File {
	if b.Dynamic != nil {
		for _, f := range b.Dynamic.RootFiles() {
			if b.files[f] == nil {
				b.files[f] = map[string]bool{}
			}
		}
	}
	return slices.SortedFunc(maps.Keys(b.files), File.compare)
}

// Asks reports whether the last configuration, assembled or parsed, asks a file of Assignments or Routes for a resource of that name.
func (b *Bootstrap) Asks(f File, name string) bool { return b.files[f][name] }

// clusterScope is that of the part of the configuration that is being translated.
func (t *translator) clusterScope() clusters.Scope {
	return clusters.Scope{
		Values: t.Reader, Bootstrap: t.from.message, View: t.options.view, Dynamic: t.dynamicPart, EnvoyHeaders: t.options.schema.EnvoyHeaders, Assignment: t.assignment,
	}
}

// cluster translates a cluster, whose name has to be its own.
func (t *translator) cluster(c *clusterv3.Cluster, path string) *model.Cluster {
	if t.clusters[c.GetName()] {
		t.p.Add(path+".name", "a second cluster %q; rename one", c.GetName())
	}
	t.clusters[c.GetName()] = true
	out, isOriginal := clusters.Translate(t.clusterScope(), c, path)
	if isOriginal {
		t.originals = append(t.originals, original{out, path})
	}
	return out
}

// assignment is what a cluster has for endpoints; never nil.
func (t *translator) assignment(c *clusterv3.Cluster, discovery model.Discovery, path string) (*endpointv3.ClusterLoadAssignment, string) {
	eds := c.GetEdsClusterConfig()
	if discovery != model.EDS {
		if eds != nil {
			t.p.Add(path+".eds_cluster_config", "set for a cluster of type %s, which Envoy refuses; remove it, or use type EDS", c.GetType())
		}
		return c.GetLoadAssignment(), path + ".load_assignment"
	}
	if c.GetLoadAssignment() != nil {
		t.p.Add(path+".load_assignment", "set for a cluster of type EDS, which has its endpoints from elsewhere; remove it")
	}
	place := path + ".eds_cluster_config.eds_config"
	from := t.source(eds.GetEdsConfig(), Assignments, place)
	if from == (source{}) {
		t.p.Add(place, "missing: say where the endpoints come from")
	}
	name := eds.GetServiceName()
	if name == "" {
		name = c.GetName()
	}
	if m, ok := t.found(from, Assignments, name, place).(*endpointv3.ClusterLoadAssignment); ok {
		return m, problem.Key(Assignments.String(), name)
	}
	return &endpointv3.ClusterLoadAssignment{}, problem.Key(Assignments.String(), name)
}

// rds is the route table that a connection manager has from elsewhere. One that is missing has no routes.
func (t *translator) rds(config *hcmv3.Rds, path string) (*routev3.RouteConfiguration, string) {
	place := path + ".rds.config_source"
	name := config.GetRouteConfigName()
	from := t.source(config.GetConfigSource(), Routes, place)
	switch {
	case name == "":
		t.p.Add(path+".rds.route_config_name", "missing: name the route table")
	case from == source{}:
		t.p.Add(place, "missing: say where the routes come from")
	}
	if m, ok := t.found(from, Routes, name, place).(*routev3.RouteConfiguration); ok {
		return m, problem.Key(Routes.String(), name)
	}
	return &routev3.RouteConfiguration{Name: name}, problem.Key(Routes.String(), name)
}

// Join makes Resources of what servers have sent and what files hold. A kind whose source is a file comes from there alone.
func (b *Bootstrap) Join(served Resources, read map[File][]Named) Resources {
	out := served
	out.Files = map[File]map[string]*anypb.Any{}
	for file, list := range read {
		if file.Kind == Assignments || file.Kind == Routes {
			out.Files[file] = byName(list)
		}
	}
	if file := b.Dynamic.clusters.file; file.Path != "" {
		out.Clusters = byName(read[file])
	}
	if file := b.Dynamic.listeners.file; file.Path != "" {
		out.Listeners = byName(read[file])
	}
	return out
}

func byName(list []Named) map[string]*anypb.Any {
	out := map[string]*anypb.Any{}
	for _, one := range list {
		out[one.Name] = one.Body
	}
	return out
}

// Roots are the kinds of which the control plane is asked for all that it has.
func (d *Dynamic) Roots() []Kind {
	var out []Kind
	if d.clusters.ads {
		out = append(out, Clusters)
	}
	if d.listeners.ads {
		out = append(out, Listeners)
	}
	return out
}

// Names are what static clusters and listeners have from the control plane: assignments and route tables, each once.
func (d *Dynamic) Names(kind Kind) []string { return d.names[kind] }

// ClustersInFile reports whether clusters that are not in the bootstrap come from a file.
func (b *Bootstrap) ClustersInFile() bool { return b.Dynamic.clusters.file.Path != "" }

// RootFiles are the files of clusters and listeners.
func (d *Dynamic) RootFiles() []File {
	var out []File
	for _, s := range []source{d.clusters, d.listeners} {
		if s.file.Path != "" {
			out = append(out, s.file)
		}
	}
	return out
}
