// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"slices"

	"github.com/xlb-project/xlb/internal/model"
)

// round is what was compiled of one configuration, and what serves the next.
type round struct {
	listeners []*model.Listener
	compiled  []Listener
	// notes on the listeners.
	notes    []Note
	criteria criteriaSet
	// proxied are the clusters on which tables of listeners without HTTP depend.
	proxied map[string]bool
	sources []*model.Cluster
	// clusters has one for each source.
	clusters []*keptCluster
}

// keptCluster is a compiled cluster and what it was made of beside its source.
type keptCluster struct {
	compiled *Cluster
	notes    []Note
	criteria []model.Metadata
	// zoned is the cluster with zones, where this node is of the cluster own and stands there.
	zoned, own *Cluster
	local      model.Local
}

// serves takes over the compiled listeners of the round before, if they are what would be compiled now.
func (r *round) serves(now *round, changed *model.ClusterChange) bool {
	if r.criteria == nil || !slices.Equal(r.listeners, now.listeners) || r.dependsOn(changed) {
		return false
	}
	now.compiled, now.notes, now.criteria, now.proxied = r.compiled, r.notes, r.criteria, r.proxied
	return true
}

// dependsOn reports whether the compiled listeners may be others for the change: some of them lead to an endpoint by themselves, and only of
// a cluster with subsets it matters which one a route asks for.
func (r *round) dependsOn(changed *model.ClusterChange) bool {
	divided := map[string]bool{}
	for _, c := range changed.Removed {
		if r.proxied[c.Name] {
			return true
		}
		if c.Subsets != nil {
			divided[c.Name] = true
		}
	}
	for _, c := range changed.Added {
		if r.proxied[c.Name] || (c.Subsets != nil) != divided[c.Name] {
			return true
		}
		delete(divided, c.Name)
	}
	return len(divided) > 0
}

// proxiedBy are the clusters that listeners without HTTP name.
func proxiedBy(listeners []*model.Listener) map[string]bool {
	names := map[string]bool{}
	for _, l := range listeners {
		if l.TCP == nil {
			continue
		}
		for i := range l.TCP.Clusters {
			names[l.TCP.Clusters[i].Name] = true
		}
	}
	return names
}

// addClusters compiles those that the round before does not have.
func (r *round) addClusters(before *round, changed *model.ClusterChange) {
	r.clusters = make([]*keptCluster, 0, len(r.sources))
	known := map[*model.Cluster]*keptCluster{}
	for i, c := range changed.Removed {
		known[c] = before.clusters[changed.First+i]
	}
	for i, c := range r.sources {
		var k *keptCluster
		switch behind := i - changed.First - len(changed.Added); {
		case i < changed.First:
			k = before.clusters[i]
		case behind < 0:
			k = known[c]
		default:
			k = before.clusters[changed.First+len(changed.Removed)+behind]
		}
		r.clusters = append(r.clusters, r.cluster(c, k))
	}
}

// cluster compiles a cluster, unless what is known of it is still right.
func (r *round) cluster(c *model.Cluster, known *keptCluster) *keptCluster {
	var criteria []model.Metadata
	if c.Subsets != nil {
		criteria = r.criteria.of(c.Name)
	}
	if known != nil && slices.Equal(known.criteria, criteria) {
		return known
	}
	out, notes := compileCluster(c)
	out.addSubsets(c, criteria)
	return &keptCluster{compiled: &out, notes: notes, criteria: criteria}
}

// image lists the clusters, zone-aware if it is known where this node stands.
func (r *round) image(local *model.Local) []*Cluster {
	list := make([]*Cluster, len(r.clusters))
	for i, k := range r.clusters {
		list[i] = k.compiled
	}
	if local == nil {
		return list
	}
	own := list[slices.IndexFunc(list, func(c *Cluster) bool { return c.Name == local.Cluster })]
	for i, k := range r.clusters {
		if k.own != own || k.local != *local {
			k.zoned, k.own, k.local = k.compiled.zoneAware(local, own), own, *local
		}
		list[i] = k.zoned
	}
	return list
}
