// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"slices"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/model"
)

// applySubsets gives a cluster entries for compiled subsets. Those of before stay until no route leads to them.
func (r *Reconciler) applySubsets(c *cluster, wanted *clusters.Cluster) error {
	for _, s := range wanted.Subsets {
		if c.subsets[s.Criteria] != nil {
			continue
		}
		e, err := r.newEntry()
		if err != nil {
			return err
		}
		atomic.StoreUint32(&r.sh.Clusters[e.index].Whole, c.index+1)
		c.subsets[s.Criteria] = &subset{entry: e}
	}
	// Behind all that may fail: regroup expects a part of every compiled subset.
	parts := wanted.PartsOf()
	for _, s := range wanted.Subsets {
		c.subsets[s.Criteria].part = parts[s.Part]
	}
	return nil
}

// unlinkSubsets takes away what a compiled cluster does not have; nil has nothing.
func (r *Reconciler) unlinkSubsets(c *cluster, wanted *clusters.Cluster) {
	var parts []model.Part
	var subsets []clusters.Subset
	if wanted != nil {
		parts, subsets = wanted.PartsOf(), wanted.Subsets
	}
	for criteria, s := range c.subsets {
		if !slices.ContainsFunc(subsets, func(w clusters.Subset) bool { return w.Criteria == criteria }) {
			r.unlinkEntry(s.entry)
			delete(c.subsets, criteria)
		}
	}
	for part, t := range c.trees {
		if !slices.Contains(parts, part) {
			r.pending.groups = append(r.pending.groups, t.groups...)
			delete(c.trees, part)
		}
	}
	r.unlinkHeld(c)
}

func (r *Reconciler) unlinkHeld(c *cluster) {
	r.pending.groups = append(r.pending.groups, c.held...)
	c.held = nil
}

// EntryOf is where the requests of a route to a cluster go.
func (r *Reconciler) EntryOf(key model.ClusterKey, criteria model.Metadata) uint32 {
	c := r.clusters[key]
	if s := c.subsets[criteria]; s != nil {
		return s.index
	}
	return c.index
}
