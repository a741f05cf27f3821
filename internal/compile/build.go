// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"maps"
	"slices"

	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/compile/note"
	"github.com/xlb-project/xlb/internal/model"
)

// build is what was compiled of one configuration, and what serves the next.
type build struct {
	listeners []*model.Listener
	// tables has one for each listener, compiled what reconcile gets of it.
	tables   []*cachedTable
	compiled []Listener
	// notes on the listeners.
	notes    []note.Note
	criteria criteriaSet
	// proxied are the clusters on which tables of listeners without HTTP depend.
	proxied map[model.ClusterKey]bool
	names   map[string]*model.Names
	sources []*model.Cluster
	// clusters has one for each source.
	clusters []*cachedCluster
}

// cachedCluster is a compiled cluster and what it was made of beside its source.
type cachedCluster struct {
	compiled *clusters.Cluster
	notes    []note.Note
	criteria []model.Metadata
	// zoned is the cluster with zones, where this node is of the cluster own and stands there.
	zoned, own *clusters.Cluster
	local      model.Local
}

// serves takes over the compiled listeners of the previous build, if they are what would be compiled now.
func (b *build) serves(now *build, changed *model.ClusterChange) bool {
	if b.tables == nil || !slices.Equal(b.listeners, now.listeners) || !maps.Equal(b.names, now.names) || b.dependsOn(changed) {
		return false
	}
	now.tables, now.compiled, now.notes, now.criteria, now.proxied = b.tables, b.compiled, b.notes, b.criteria, b.proxied
	return true
}

// dependsOn reports whether the compiled listeners may be others for the change: some of them lead to an endpoint by themselves, and only of
// a cluster with subsets it matters which one a route asks for.
func (b *build) dependsOn(changed *model.ClusterChange) bool {
	subsetted := map[model.ClusterKey]bool{}
	for _, c := range changed.Removed {
		if b.proxied[c.Key()] {
			return true
		}
		if c.Subsets != nil {
			subsetted[c.Key()] = true
		}
	}
	for _, c := range changed.Added {
		if b.proxied[c.Key()] || (c.Subsets != nil) != subsetted[c.Key()] {
			return true
		}
		delete(subsetted, c.Key())
	}
	return len(subsetted) > 0
}

// proxiedBy are the clusters that listeners without HTTP name.
func proxiedBy(cfg *model.Config) map[model.ClusterKey]bool {
	proxied := map[model.ClusterKey]bool{}
	for _, l := range cfg.Listeners {
		if l.TCP == nil {
			continue
		}
		for i := range l.TCP.Clusters {
			proxied[cfg.In(l.View).Key(l.TCP.Clusters[i].Name)] = true
		}
	}
	return proxied
}

// addClusters compiles those that the previous build does not have.
func (b *build) addClusters(previous *build, changed *model.ClusterChange) {
	b.clusters = make([]*cachedCluster, 0, len(b.sources))
	replaced := map[*model.Cluster]*cachedCluster{}
	for i, c := range changed.Removed {
		replaced[c] = previous.clusters[changed.First+i]
	}
	for i, c := range b.sources {
		var k *cachedCluster
		switch behind := i - changed.First - len(changed.Added); {
		case i < changed.First:
			k = previous.clusters[i]
		case behind < 0:
			k = replaced[c]
		default:
			k = previous.clusters[changed.First+len(changed.Removed)+behind]
		}
		b.clusters = append(b.clusters, b.cluster(c, k))
	}
}

// cluster compiles a cluster, unless the cached one is still right.
func (b *build) cluster(c *model.Cluster, cached *cachedCluster) *cachedCluster {
	var criteria []model.Metadata
	if c.Subsets != nil {
		criteria = b.criteria.of(c)
	}
	if cached != nil && slices.Equal(cached.criteria, criteria) {
		return cached
	}
	out, notes := clusters.Compile(c, criteria)
	return &cachedCluster{compiled: out, notes: notes, criteria: criteria}
}

// image lists the clusters, zone-aware if it is known where this node stands.
func (b *build) image(cfg *model.Config) []*clusters.Cluster {
	list := make([]*clusters.Cluster, len(b.clusters))
	for i, k := range b.clusters {
		list[i] = k.compiled
	}
	local := cfg.Local
	if local == nil {
		return list
	}
	ownKey := cfg.In(model.View{}).Key(local.Cluster)
	own := list[slices.IndexFunc(list, func(c *clusters.Cluster) bool { return c.Key == ownKey })]
	for i, k := range b.clusters {
		if k.own != own || k.local != *local {
			k.zoned, k.own, k.local = k.compiled.ZoneAware(local, own), own, *local
		}
		list[i] = k.zoned
	}
	return list
}
