// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/xlb-project/xlb/internal/model"
)

// EndpointEntry is an endpoint in the maps.
type EndpointEntry struct {
	// Index into the shared endpoints.
	Index   uint32
	Cluster model.ClusterKey
	Address netip.AddrPort
	// Weight as configured, the sum where it stands in several localities or priorities; Placement and Health are those of the first.
	Weight    uint32
	Placement model.Placement
	Health    model.HealthStatus
	// Share is the part of the cluster's requests that is the endpoint's; see clusters.Group.Shares.
	Share float64
	// Gone says that it has left the configuration and waits for ReleaseEndpoint.
	Gone bool
	// TLS secures connections to it; nil: they are plain text. Hostname is Envoy's name of it.
	TLS      *model.UpstreamTLS
	Hostname string
	// Inner: it is the address of a listener of this configuration.
	Inner bool
}

// ClusterEntry is a cluster in the maps.
type ClusterEntry struct {
	// Index into the shared clusters.
	Index uint32
	Key   model.ClusterKey
	// Subsets are the indices of the cluster's subsets, by the criteria of routes; nil without any.
	Subsets map[model.Metadata]uint32
}

// Endpoints lists the endpoints in the maps by index, those that are gone included.
func (r *Reconciler) Endpoints() []EndpointEntry {
	// Indices are dense: that is faster than to sort.
	var entries []EndpointEntry
	n := 0
	for key, e := range r.endpoints {
		if missing := int(e.index) + 1 - len(entries); missing > 0 {
			entries = append(entries, make([]EndpointEntry, missing)...)
		}
		entries[e.index] = e.entry(key)
		n++
	}
	list := make([]EndpointEntry, 0, n)
	for i := range entries {
		if entries[i].Address.IsValid() {
			list = append(list, entries[i])
		}
	}
	return list
}

func (e *endpoint) entry(key endpointKey) EndpointEntry {
	return EndpointEntry{
		Index: e.index, Cluster: key.cluster, Address: key.address, Weight: e.weight, Placement: e.placement, Health: e.health, Share: e.share, Gone: e.gone,
		TLS: e.tls, Hostname: e.hostname, Inner: e.inner,
	}
}

// Clusters lists the clusters in the maps by index.
func (r *Reconciler) Clusters() []ClusterEntry {
	list := make([]ClusterEntry, 0, len(r.clusters))
	for key, c := range r.clusters {
		entry := ClusterEntry{Index: c.index, Key: key}
		if len(c.subsets) > 0 {
			entry.Subsets = make(map[model.Metadata]uint32, len(c.subsets))
		}
		for criteria, s := range c.subsets {
			entry.Subsets[criteria] = s.index
		}
		list = append(list, entry)
	}
	slices.SortFunc(list, func(a, b ClusterEntry) int { return cmp.Compare(a.Index, b.Index) })
	return list
}

// Index returns the index of the cluster with that key.
func (r *Reconciler) Index(key model.ClusterKey) (uint32, bool) {
	c := r.clusters[key]
	if c == nil {
		return 0, false
	}
	return c.index, true
}
