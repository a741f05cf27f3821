// SPDX-License-Identifier: Apache-2.0

package generation

import (
	"maps"
	"sync"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
)

// ClusterEntry is where a cluster lies in the kernel's maps, and its subsets by the criteria of routes.
type ClusterEntry struct {
	index   uint32
	subsets map[model.Metadata]uint32
	// endpoints are those that are in the configuration.
	endpoints []*reconcile.EndpointEntry
	// byAddress holds their indices by address, in Envoy's form. Made when it is first needed: few need it, and changes may be frequent.
	byAddress func() map[string]uint32
}

// Index is that of the cluster.
func (c *ClusterEntry) Index() uint32 { return c.index }

// Subset is where the requests of routes with these criteria go. It reports false, and the cluster's own index, where no route in force has them.
func (c *ClusterEntry) Subset(criteria model.Metadata) (index uint32, ok bool) {
	if criteria == "" {
		return c.index, true
	}
	if index, ok = c.subsets[criteria]; ok {
		return index, true
	}
	return c.index, false
}

// Endpoints are those that are in the configuration.
func (c *ClusterEntry) Endpoints() []*reconcile.EndpointEntry { return c.endpoints }

// ClusterEntry returns where a cluster lies, or nil.
func (g *Generation) ClusterEntry(cluster model.ClusterKey) *ClusterEntry { return g.entries[cluster] }

// KeyOf is the cluster of an index of the kernel's, or says whose subset it is, by the criteria.
func (g *Generation) KeyOf(index uint32) (cluster model.ClusterKey, criteria model.Metadata, ok bool) {
	for key, c := range g.entries {
		if c.index == index {
			return key, "", true
		}
		for criteria, subset := range c.subsets {
			if subset == index {
				return key, criteria, true
			}
		}
	}
	return model.ClusterKey{}, "", false
}

// EndpointsOf are those of a cluster that are in the configuration.
func (g *Generation) EndpointsOf(cluster model.ClusterKey) []*reconcile.EndpointEntry {
	if c := g.entries[cluster]; c != nil {
		return c.endpoints
	}
	return nil
}

// Endpoint finds an endpoint that is in the maps, or was when the configuration was put in force.
func (g *Generation) Endpoint(index uint32) (reconcile.EndpointEntry, bool) {
	if e := g.endpoints.At(index); e != nil {
		return *e, true
	}
	return reconcile.EndpointEntry{}, false
}

// EndpointAt is Endpoint without a copy. It returns nil where there is no endpoint.
func (g *Generation) EndpointAt(index uint32) *reconcile.EndpointEntry { return g.endpoints.At(index) }

// IndexOf finds an endpoint that is in the configuration by its cluster and address, in Envoy's form.
func (g *Generation) IndexOf(cluster model.ClusterKey, address string) (index uint32, ok bool) {
	c, known := g.entries[cluster]
	if !known {
		return 0, false
	}
	index, ok = c.byAddress()[address]
	return index, ok
}

// addEndpoints takes over clusters and endpoints from the generation before, and what has changed since.
func (g *Generation) addEndpoints(before *Generation, in *Input) {
	edit := before.endpoints.Edit()
	for _, index := range in.Changes.Released {
		edit.Set(index, nil)
	}
	// The changes have all endpoints of a cluster, or only those that have gone with it.
	of := map[model.ClusterKey][]*reconcile.EndpointEntry{}
	for i := range in.Changes.Endpoints {
		e := &in.Changes.Endpoints[i]
		edit.Set(e.Index, e)
		if !e.Gone {
			of[e.Cluster] = append(of[e.Cluster], e)
		} else if of[e.Cluster] == nil {
			of[e.Cluster] = []*reconcile.EndpointEntry{}
		}
	}
	g.endpoints = *edit.List()
	g.entries = entriesOf(before, in, of)
}

// entriesOf finds where clusters lie, of some of which these are the endpoints now.
func entriesOf(before *Generation, in *Input, of map[model.ClusterKey][]*reconcile.EndpointEntry) map[model.ClusterKey]*ClusterEntry {
	var entries map[model.ClusterKey]*ClusterEntry
	if in.Changes.Clusters || before.entries == nil {
		entries = map[model.ClusterKey]*ClusterEntry{}
		for _, c := range in.Kernel.Clusters() {
			entry := &ClusterEntry{index: c.Index, subsets: c.Subsets}
			if old := before.entries[c.Key]; old != nil {
				entry.endpoints, entry.byAddress = old.endpoints, old.byAddress
			} else {
				entry.have(nil)
			}
			entries[c.Key] = entry
		}
	} else {
		entries = maps.Clone(before.entries)
	}
	for key, endpoints := range of {
		if known := entries[key]; known != nil {
			next := &ClusterEntry{index: known.index, subsets: known.subsets}
			next.have(endpoints)
			entries[key] = next
		}
	}
	return entries
}

func (c *ClusterEntry) have(endpoints []*reconcile.EndpointEntry) {
	c.endpoints = endpoints
	c.byAddress = sync.OnceValue(func() map[string]uint32 {
		byAddress := make(map[string]uint32, len(endpoints))
		for _, e := range endpoints {
			byAddress[e.Address.String()] = e.Index
		}
		return byAddress
	})
}
