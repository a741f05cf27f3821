// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile/indices"
)

// entry is where routes lead to: a cluster or a subset.
type entry struct {
	index uint32
	// root is the group of its word.
	root uint32
	// version tells the entry's words apart, those of others before it at the index too.
	version uint32
}

// cluster is a cluster in the maps.
type cluster struct {
	entry
	compiled *clusters.Cluster
	// endpoints are the indices of the compiled ones.
	endpoints []uint32
	// trees of groups by what they choose among, and those of before that subsets may lead to.
	trees map[model.Part]*tree
	// subsets by the criteria of routes, and those of before that routes may lead to: these stay as they were.
	subsets map[model.Metadata]*subset
	// held are groups that subsets of before may lead to.
	held []*group
	// retries are the roots of requests that are sent again, by what they leave out, while the cluster is grouped as it is.
	retries map[retryKey]retryRoot
	// starting says that some endpoint was in its slow start when the cluster was grouped, late that its groups could not be made what its endpoints' health
	// asks for. grouped is when that was done, or tried.
	starting, late bool
	grouped        time.Time
}

// tree is a group and all that it leads to.
type tree struct {
	groups []*group
	top    uint32
}

// subset is a subset of a cluster's endpoints in the maps.
type subset struct {
	entry
	part model.Part
}

// endpointKey names an endpoint across reloads, that of a removed cluster too.
type endpointKey struct {
	cluster model.ClusterKey
	address netip.AddrPort
}

// endpoint is an endpoint in the maps. One that has left the configuration is gone, but
// keeps its index until ReleaseEndpoint.
type endpoint struct {
	index      uint32
	weight     uint32
	loadWeight uint32
	placement  model.Placement
	health     model.HealthStatus
	share      float64
	// tls and hostname are for those who connect to it.
	tls      *model.UpstreamTLS
	hostname string
	// inner: it is a listener of this process.
	inner bool
	// since is when it became healthy, or was added.
	since time.Time
	gone  bool
}

// applyCluster makes a cluster's endpoints and groups what the image says.
func (r *Reconciler) applyCluster(c *clusters.Cluster) error {
	known, err := r.clusterFor(c.Key)
	if err != nil {
		return err
	}
	indices := make([]uint32, len(c.Endpoints))
	for i := range c.Endpoints {
		if indices[i], err = r.applyEndpoint(c, &c.Endpoints[i]); err != nil {
			return err
		}
	}
	for _, m := range slices.Backward(c.Members) {
		e := r.endpoints[endpointKey{c.Key, c.Endpoints[m.Endpoint].Address}]
		if isOut(e.health) && !isOut(m.Health) {
			e.since = r.now()
		}
		e.placement, e.health = m.Placement, m.Health
	}
	if err := r.applySubsets(known, c); err != nil {
		return err
	}
	known.compiled, known.endpoints = c, indices
	r.sh.SetLimit(known.index, c.Limit)
	return r.regroup(known)
}

// clusterFor returns the cluster with that key, a new one if there is none.
func (r *Reconciler) clusterFor(key model.ClusterKey) (*cluster, error) {
	if c := r.clusters[key]; c != nil {
		return c, nil
	}
	e, err := r.newEntry()
	if err != nil {
		return nil, err
	}
	c := &cluster{entry: e, trees: map[model.Part]*tree{}, subsets: map[model.Metadata]*subset{}}
	r.clusters[key] = c
	return c, nil
}

// newEntry returns one that leads nowhere yet.
func (r *Reconciler) newEntry() (entry, error) {
	s, err := r.indices.Clusters.Take(1)
	if err != nil {
		return entry{}, err
	}
	r.touched.entries = true
	r.sh.NewCluster(s.First)
	r.stats.Clusters++
	return entry{index: s.First, version: uint32(atomic.LoadUint64(&r.sh.Clusters[s.First].Root) >> 32)}, nil
}

// applyEndpoint returns the index of an endpoint that is in service again, or for the
// first time.
func (r *Reconciler) applyEndpoint(of *clusters.Cluster, e *clusters.Endpoint) (uint32, error) {
	key := endpointKey{cluster: of.Key, address: e.Address}
	known := r.endpoints[key]
	if known == nil {
		s, err := r.indices.Endpoints.Take(1)
		if err != nil {
			return 0, err
		}
		known = &endpoint{index: s.First, since: r.now()}
		r.endpoints[key] = known
		r.byIndex[s.First] = key
		resetEndpoint(&r.sh.Endpoints[known.index])
		r.sh.Addresses[known.index] = maps.EndpointAddress{Addr: e.Address.Addr().As16(), Port: e.Address.Port()}
		r.beginHealth(known.index, e.Checked)
		r.takeHealth(known, of, e)
	}
	shared := &r.sh.Endpoints[known.index]
	changed := known.gone || known.weight != e.Weight || known.loadWeight != e.LoadWeight
	known.weight, known.loadWeight = e.Weight, e.LoadWeight
	known.tls, known.hostname, known.inner = e.TLS, e.Hostname, e.Inner
	markSecured(shared, e.TLS != nil || e.Inner)
	atomic.StoreUint32(&shared.Weight, e.LoadWeight)
	atomic.StoreUint32(&shared.Cluster, r.clusters[of.Key].index)
	if known.gone {
		r.beginHealth(known.index, e.Checked)
		atomic.AndUint32(&shared.Flags, ^uint32(maps.EndpointGone))
		known.gone, known.since = false, r.now()
		r.takeHealth(known, of, e)
	}
	if changed {
		r.stats.Endpoints++
	}
	r.touched.endpoints[known.index] = struct{}{}
	return known.index, nil
}

// markSecured says whether the kernel may send requests to an endpoint: not to one with TLS, nor to a listener of this process. What the pool knows of its plain connections is of no consequence when
// there are no more of them.
func markSecured(e *maps.Endpoint, secured bool) {
	was := maps.EndpointFlags(atomic.LoadUint32(&e.Flags))&maps.EndpointTLS != 0
	switch {
	case secured && !was:
		atomic.OrUint32(&e.Flags, uint32(maps.EndpointTLS))
		atomic.AndUint32(&e.Flags, ^uint32(maps.EndpointDown))
	case was && !secured:
		atomic.AndUint32(&e.Flags, ^uint32(maps.EndpointTLS))
	}
}

// resetEndpoint begins the counters of an endpoint whose index had another before.
func resetEndpoint(e *maps.Endpoint) {
	for _, word := range []*uint32{&e.Outstanding, &e.Flags, &e.Errors, &e.GatewayErrors, &e.ErrorLimit, &e.GatewayErrorLimit} {
		atomic.StoreUint32(word, 0)
	}
	atomic.StoreUint64(&e.Broken, 0)
	e.Traffic.Clear()
}

// unlinkClusters takes away the clusters and subsets that no listener's table names any more.
func (r *Reconciler) unlinkClusters(wanted []*clusters.Cluster) {
	keep := map[model.ClusterKey]bool{}
	for _, c := range wanted {
		keep[c.Key] = true
	}
	for key, c := range r.clusters {
		if keep[key] {
			r.unlinkSubsets(c, c.compiled)
			continue
		}
		r.unlinkCluster(key)
	}
}

func (r *Reconciler) unlinkCluster(key model.ClusterKey) {
	c := r.clusters[key]
	r.unlinkEntry(c.entry)
	r.unlinkSubsets(c, nil)
	delete(r.clusters, key)
}

func (r *Reconciler) unlinkEntry(e entry) {
	atomic.StoreUint64(&r.sh.Clusters[e.index].Root, uint64(e.version+1)<<32)
	r.stats.Clusters++
	r.touched.entries = true
	r.pending.clusters = append(r.pending.clusters, indices.Span{First: e.index, Count: 1})
}

// retireEndpoints marks the endpoints that have left every schedule.
func (r *Reconciler) retireEndpoints(wanted []*clusters.Cluster) {
	keep := map[endpointKey]bool{}
	for _, c := range wanted {
		for i := range c.Endpoints {
			keep[endpointKey{c.Key, c.Endpoints[i].Address}] = true
		}
	}
	for key, e := range r.endpoints {
		if !keep[key] && !e.gone {
			r.retire(e)
		}
	}
}

// Release gives up the index of an endpoint that has left the configuration, and reports whether it has.
func (r *Reconciler) Release(index uint32) bool {
	key, known := r.byIndex[index]
	if !known || !r.endpoints[key].gone {
		return false
	}
	delete(r.endpoints, key)
	delete(r.byIndex, index)
	r.touched.endpoints[index] = struct{}{}
	r.pending.endpoints = append(r.pending.endpoints, indices.Span{First: index, Count: 1})
	return true
}
