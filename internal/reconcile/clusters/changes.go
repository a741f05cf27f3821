// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"cmp"
	"slices"
)

// touched is what has changed since somebody asked.
type touched struct {
	// endpoints that have come, changed, gone, or been given up, by index.
	endpoints map[uint32]struct{}
	// entries: clusters or subsets have come or gone.
	entries bool
}

// Changes are what has changed of what Endpoints and Clusters list, but for shares.
type Changes struct {
	// Endpoints by index that are new or may have changed: of a cluster all, and those that have left it. Released are indices that stand for none any more.
	Endpoints []EndpointEntry
	Released  []uint32
	// Clusters: there are others than before, or they have other subsets.
	Clusters bool
}

// Changed returns what has changed since it was called last. It is for one caller.
func (r *Reconciler) Changed() Changes {
	out := Changes{Clusters: r.touched.entries, Endpoints: make([]EndpointEntry, 0, len(r.touched.endpoints))}
	for index := range r.touched.endpoints {
		key, known := r.byIndex[index]
		if !known {
			out.Released = append(out.Released, index)
			continue
		}
		out.Endpoints = append(out.Endpoints, r.endpoints[key].entry(key))
	}
	slices.SortFunc(out.Endpoints, func(a, b EndpointEntry) int { return cmp.Compare(a.Index, b.Index) })
	r.touched = touched{endpoints: map[uint32]struct{}{}}
	return out
}
