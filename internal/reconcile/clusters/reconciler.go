// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile/indices"
	"github.com/xlb-project/xlb/internal/reconcile/writes"
)

// Reconciler is the only writer of clusters, groups and endpoints. It begins with empty arrays. Its callers see to it that one method runs at a
// time.
type Reconciler struct {
	sh  *maps.Shared
	log *slog.Logger
	// now tells the time.
	now     func() time.Time
	indices Allocators
	stats   *writes.Stats

	clusters  map[model.ClusterKey]*cluster
	endpoints map[endpointKey]*endpoint
	// byIndex are the keys of endpoints.
	byIndex map[uint32]endpointKey
	pending Reclaimable
	// longSchedule is as the configuration says.
	longSchedule int
	// counts by endpoint, all 0, are for comparisons of schedules.
	counts []int32
	// touched is what has changed since Changed was called last.
	touched touched
}

// Config is what clusters are written to, and with.
type Config struct {
	Shared *maps.Shared
	Log    *slog.Logger
	// Now tells the time.
	Now     func() time.Time
	Indices Allocators
	// Stats counts what is written.
	Stats *writes.Stats
	// LongSchedule is the length from which on a schedule is changed in place.
	LongSchedule int
}

// New returns a reconciler for shared memory without clusters.
func New(c Config) *Reconciler {
	return &Reconciler{
		sh:           c.Shared,
		log:          c.Log,
		now:          c.Now,
		indices:      c.Indices,
		stats:        c.Stats,
		clusters:     map[model.ClusterKey]*cluster{},
		endpoints:    map[endpointKey]*endpoint{},
		byIndex:      map[uint32]endpointKey{},
		longSchedule: c.LongSchedule,
		touched:      touched{endpoints: map[uint32]struct{}{}},
	}
}

// Allocators are the indices of shared arrays that are not in use.
type Allocators struct {
	Clusters, Endpoints, Groups *indices.Allocator
	Schedules, HashPlaces       *indices.Allocator
}

// NewAllocators returns all indices there are. Of groups 0 is left out: it means none.
func NewAllocators(sh *maps.Shared) Allocators {
	return Allocators{
		Clusters:   indices.NewAllocator("clusters", "clusters", 0, uint32(len(sh.Clusters))),
		Endpoints:  indices.NewAllocator("endpoints", "endpoints", 0, uint32(len(sh.Endpoints))),
		Groups:     indices.NewAllocator("groups of endpoints", "groups", 1, uint32(len(sh.Groups))),
		Schedules:  indices.NewAllocator("turns", "schedules", 0, uint32(len(sh.Schedules))).Growing(sh, maps.GrowingSchedules),
		HashPlaces: indices.NewAllocator("places of hash tables", "hash_places", 0, uint32(len(sh.HashPlaces))).Growing(sh, maps.GrowingHashPlaces),
	}
}

// Apply makes clusters, their endpoints and groups what a list says. What it does not name stays.
func (r *Reconciler) Apply(list []*clusters.Cluster) error {
	for _, c := range ownFirst(list) {
		if err := r.applyCluster(c); err != nil {
			return fmt.Errorf("%s: %w", c.Key, err)
		}
	}
	return nil
}

// ownFirst lists the clusters, this node's own first: the health of its endpoints decides over the groups of others.
func ownFirst(list []*clusters.Cluster) []*clusters.Cluster {
	var own model.ClusterKey
	for _, c := range list {
		if c.Zones != nil {
			own = c.Zones.Own
		}
	}
	i := slices.IndexFunc(list, func(c *clusters.Cluster) bool { return c.Key == own })
	if i < 1 {
		return list
	}
	return slices.Concat(list[i:i+1], list[:i], list[i+1:])
}
