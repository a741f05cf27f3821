// SPDX-License-Identifier: Apache-2.0

package node

import (
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/pages"
	"github.com/xlb-project/xlb/internal/reconcile"
)

// directory finds what the kernel's indices mean. Every configuration has its own, which shares what stays with the one before. It is never changed.
type directory struct {
	clusters  map[string]*place
	endpoints pages.List[reconcile.EndpointEntry]
	// limits of connections to listeners, by number; listeners are those that they are of.
	limits    map[uint32]anchor.Limits
	listeners []*model.Listener
}

// place is where a cluster lies, and its subsets by the criteria of routes.
type place struct {
	index   uint32
	subsets map[model.Metadata]uint32
	// endpoints are those that are in the configuration.
	endpoints []*reconcile.EndpointEntry
	// named holds their indices by address, in Envoy's form. Made when asked for: few need it, and changes may be frequent.
	named func() map[string]uint32
}

// entry is where the requests of routes with these criteria go; false: no route in force has them.
func (p *place) entry(criteria model.Metadata) (index uint32, ok bool) {
	if criteria == "" {
		return p.index, true
	}
	if index, ok = p.subsets[criteria]; ok {
		return index, true
	}
	return p.index, false
}

// endpointsOf are those of a cluster that are in the configuration.
func (d *directory) endpointsOf(cluster string) []*reconcile.EndpointEntry {
	if p := d.clusters[cluster]; p != nil {
		return p.endpoints
	}
	return nil
}

// endpoint finds one that is in the maps, or was when the configuration was put in force.
func (d *directory) endpoint(index uint32) (reconcile.EndpointEntry, bool) {
	if e := d.endpoints.At(index); e != nil {
		return *e, true
	}
	return reconcile.EndpointEntry{}, false
}

// each yields all endpoints.
func (d *directory) each() iter.Seq2[uint32, *reconcile.EndpointEntry] { return d.endpoints.All() }

// indexOf finds an endpoint that is in the configuration by its cluster and address.
func (d *directory) indexOf(cluster, address string) (index uint32, ok bool) {
	p, known := d.clusters[cluster]
	if !known {
		return 0, false
	}
	index, ok = p.named()[address]
	return index, ok
}

// newDirectory makes the next one.
func (n *Node) newDirectory(before *directory, cfg *model.Config, changes *reconcile.Changes) *directory {
	if before == nil {
		before = &directory{}
	}
	d := &directory{endpoints: before.endpoints, clusters: before.clusters, limits: before.limits, listeners: cfg.Listeners}
	if before.limits == nil || !slices.Equal(before.listeners, cfg.Listeners) {
		d.limits = n.limitsOfAll(cfg)
	}
	edit := before.endpoints.Edit()
	for _, index := range changes.Released {
		edit.Set(index, nil)
	}
	// Of a cluster all endpoints are told, or those alone that have gone with it.
	of := map[string][]*reconcile.EndpointEntry{}
	for i := range changes.Endpoints {
		e := &changes.Endpoints[i]
		edit.Set(e.Index, e)
		if !e.Gone {
			of[e.Cluster] = append(of[e.Cluster], e)
		} else if of[e.Cluster] == nil {
			of[e.Cluster] = []*reconcile.EndpointEntry{}
		}
	}
	d.endpoints = *edit.List()
	d.clusters = n.placesOf(before, changes, of)
	return d
}

// limitsOfAll are those of all listeners.
func (n *Node) limitsOfAll(cfg *model.Config) map[uint32]anchor.Limits {
	limits, numbers := map[uint32]anchor.Limits{}, n.reconcil.ListenerNumbers()
	for _, l := range cfg.Listeners {
		if number, ok := numbers[l.Name]; ok {
			limits[number] = limitsOf(l)
		}
	}
	return limits
}

// placesOf finds where clusters lie, of some of which these are the endpoints now.
func (n *Node) placesOf(before *directory, changes *reconcile.Changes, of map[string][]*reconcile.EndpointEntry) map[string]*place {
	var clusters map[string]*place
	if changes.Clusters || before.clusters == nil {
		clusters = map[string]*place{}
		for _, c := range n.reconcil.Clusters() {
			p := &place{index: c.Index, subsets: c.Subsets}
			if old := before.clusters[c.Name]; old != nil {
				p.endpoints, p.named = old.endpoints, old.named
			} else {
				p.have(nil)
			}
			clusters[c.Name] = p
		}
	} else {
		clusters = maps.Clone(before.clusters)
	}
	for name, endpoints := range of {
		if known := clusters[name]; known != nil {
			next := &place{index: known.index, subsets: known.subsets}
			next.have(endpoints)
			clusters[name] = next
		}
	}
	return clusters
}

func (p *place) have(endpoints []*reconcile.EndpointEntry) {
	p.endpoints = endpoints
	p.named = sync.OnceValue(func() map[string]uint32 {
		named := make(map[string]uint32, len(endpoints))
		for _, e := range endpoints {
			named[e.Address.String()] = e.Index
		}
		return named
	})
}
