// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/reconcile/indices"
)

// Reconciler is the only writer of the configuration's maps, which are empty when it
// starts. Its methods may be called from several goroutines.
type Reconciler struct {
	cfg *maps.Config
	sh  *maps.Shared
	log *slog.Logger
	// now tells the time.
	now func() time.Time

	// applying is held to change tables, or to reclaim what is pending. It comes before mu.
	applying sync.Mutex
	// mu guards everything below. Nobody holds it while programs are waited for, which takes seconds where the kernel's own threads
	// get no time to run: the health of endpoints changes meanwhile.
	mu        sync.Mutex
	listeners map[maps.ListenerKey]*listener
	clusters  map[string]*cluster
	endpoints map[endpointKey]*endpoint
	// byIndex are the keys of endpoints.
	byIndex map[uint32]endpointKey
	pending pendingReclaim
	// busy are indices of clusters that have gone, and of whose requests some were counted when they were looked at last.
	busy      []indices.Span
	indices   indexAllocators
	interners interners
	// manyPaths is as the constant says; tests have another one.
	manyPaths int
	// manyTurns likewise.
	manyTurns int
	// counts by endpoint, all 0, are for comparisons of schedules.
	counts []int32
	// inForce is the image that was applied last; nil: it failed, and there may be anything of it. What is the same in the next is left alone.
	inForce *compile.Image
	// touched is what has changed since Changed was called last.
	touched touched
	// nextClass is a class that no value has been given.
	nextClass uint32
	// stats of the Apply that is under way.
	stats Stats
	// written is the sum of those that have come to their end.
	written atomic.Uint64
	limiter logLimiter
}

// numbers are the indices of all maps that are not in use.
type indexAllocators struct {
	listeners, tables, vhosts   *indices.Allocator
	routes, splits, schedules   *indices.Allocator
	rewrites, retries           *indices.Allocator
	fields                      *indices.Allocator
	tuples, tupleNumbers        *indices.Allocator
	bucketLists                 *indices.Allocator
	automata, cells, accepts    *indices.Allocator
	acceptedValues              *indices.Allocator
	hashPlaces                  *indices.Allocator
	clusterIndex, endpointIndex *indices.Allocator
	groupIndex                  *indices.Allocator
}

// New returns a reconciler for maps that are empty.
func New(cfg *maps.Config, sh *maps.Shared, log *slog.Logger) *Reconciler {
	r := &Reconciler{
		cfg:       cfg,
		sh:        sh,
		log:       log,
		now:       time.Now,
		listeners: map[maps.ListenerKey]*listener{},
		clusters:  map[string]*cluster{},
		endpoints: map[endpointKey]*endpoint{},
		byIndex:   map[uint32]endpointKey{},
		indices:   newNumbers(cfg.Sizes, sh),
		manyPaths: manyPaths,
		manyTurns: manyTurns,
		nextClass: tables.FirstClass,
		touched:   touched{endpoints: map[uint32]struct{}{}},
		limiter:   newLogLimiter(),
	}
	r.interners = newInterners(cfg, &r.indices, &r.stats)
	return r
}

// newNumbers leaves out 0 where it means none: of tables and virtual hosts by the
// maps' definition, of rewrites and sets of statuses too, of listeners so that a connection without one finds none.
func newNumbers(sizes maps.Sizes, sh *maps.Shared) indexAllocators {
	return indexAllocators{
		listeners:      indices.NewAllocator("addresses", "listeners", 1, sizes.Listeners),
		tables:         indices.NewAllocator("tables", "route_tables", 1, sizes.RouteTables),
		vhosts:         indices.NewAllocator("virtual hosts", "vhosts", 1, sizes.VHosts),
		routes:         indices.NewAllocator("routes", "routes", 0, sizes.Routes),
		splits:         indices.NewAllocator("shares", "splits", 0, sizes.Splits),
		rewrites:       indices.NewAllocator("rewrites of paths", "rewrites", 1, sizes.Rewrites),
		retries:        indices.NewAllocator("sets of statuses", "retry_sets", 1, sizes.RetrySets),
		fields:         indices.NewAllocator("headers", "fields", 1, math.MaxUint32),
		tuples:         indices.NewAllocator("parts of indexes", "tuples", 0, sizes.Tuples),
		bucketLists:    indices.NewAllocator("entries of indexes", "bucket_lists", 0, sizes.BucketLists).Growing(sh, maps.GrowingBucketLists),
		tupleNumbers:   indices.NewAllocator("indexes", "buckets", 1, math.MaxUint32),
		automata:       indices.NewAllocator("automata", "automata", 0, sizes.Automata),
		cells:          indices.NewAllocator("blocks of transitions", "cell_blocks", 0, sizes.Cells),
		accepts:        indices.NewAllocator("combinations of expressions", "accepts", 0, sizes.Accepts),
		acceptedValues: indices.NewAllocator("combinations of header conditions", "accepted_values", 0, sizes.AcceptedValues),
		schedules:      indices.NewAllocator("turns", "schedules", 0, uint32(len(sh.Schedules))).Growing(sh, maps.GrowingSchedules),
		hashPlaces:     indices.NewAllocator("places of hash tables", "hash_places", 0, uint32(len(sh.HashPlaces))).Growing(sh, maps.GrowingHashPlaces),
		clusterIndex:   indices.NewAllocator("clusters", "clusters", 0, uint32(len(sh.Clusters))),
		groupIndex:     indices.NewAllocator("groups of endpoints", "groups", 1, uint32(len(sh.Groups))),
		endpointIndex:  indices.NewAllocator("endpoints", "endpoints", 0, uint32(len(sh.Endpoints))),
	}
}

// Apply makes the maps hold the image, writing only what differs. After an error each
// request is routed by its listener's old table or by its new one, clusters have their old endpoints or
// their new ones, and the next Apply, of this image or another, does the rest.
func (r *Reconciler) Apply(im *compile.Image) (Stats, error) {
	r.applying.Lock()
	defer r.applying.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.switchTo(im)
	if err == nil {
		err = r.sweep()
	}
	return r.stats, err
}

// Switch is Apply without the wait for programs that still read what was before: Reclaim or a later Switch frees the old entries. Where nothing but
// clusters is new it waits for no program, unless there is no room beside what is pending.
func (r *Reconciler) Switch(im *compile.Image) error {
	if r.switchClusters(im) {
		return nil
	}
	r.applying.Lock()
	defer r.applying.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.switchTo(im)
}

// switchClusters is Switch where all listeners stay, with all that they name. False: it is not so, or there is no room, and nothing is said of
// what has been done.
func (r *Reconciler) switchClusters(im *compile.Image) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.inForce == nil || !r.inForce.SameListeners(im) {
		return false
	}
	d := differenceOfClusters(r.inForce.Clusters, im.Clusters)
	if len(d.removed) > 0 {
		return false // a route may name it
	}
	if r.fit(d.changed) != nil {
		return false
	}
	r.stats, r.inForce = Stats{}, nil
	if r.applyClusters(d.changed) != nil {
		return false
	}
	r.unlinkLeft(&d)
	r.inForce = im
	r.logActive(im)
	return true
}

func (r *Reconciler) switchTo(im *compile.Image) error {
	r.stats = Stats{}
	err := r.apply(im)
	if err != nil {
		// What comes after a failure is logged.
		r.limiter = newLogLimiter()
		return err
	}
	r.logActive(im)
	return nil
}

// apply adds children before parents and removes parents before children.
func (r *Reconciler) apply(im *compile.Image) error {
	if err := checkClusters(im); err != nil {
		return err
	}
	d, inForce := clustersSince(r.inForce, im), r.inForce
	r.inForce = nil
	// What an earlier failure, or a released endpoint, has left.
	if err := r.sweep(); err != nil {
		return err
	}
	if err := r.fit(d.changed); err != nil {
		r.inForce = inForce // nothing has been written
		return err
	}
	if err := r.applyClusters(d.changed); err != nil {
		return err
	}
	if err := r.linkListeners(im.Listeners); err != nil {
		return err
	}
	if err := r.unlinkListeners(im.Listeners); err != nil {
		return err
	}
	if d.whole {
		r.unlinkClusters(im.Clusters)
		r.retireEndpoints(im.Clusters)
	} else {
		r.unlinkLeft(&d)
	}
	r.inForce = im
	return nil
}

func (r *Reconciler) applyClusters(list []*clusters.Cluster) error {
	for _, c := range ownFirst(list) {
		if err := r.applyCluster(c); err != nil {
			return fmt.Errorf("cluster %q: %w", c.Name, err)
		}
	}
	return nil
}

// ownFirst lists the clusters, this node's own first: the health of its endpoints decides over the groups of others.
func ownFirst(list []*clusters.Cluster) []*clusters.Cluster {
	var own string
	for _, c := range list {
		if c.Zones != nil {
			own = c.Zones.Cluster
		}
	}
	i := slices.IndexFunc(list, func(c *clusters.Cluster) bool { return c.Name == own })
	if i < 1 {
		return list
	}
	return slices.Concat(list[i:i+1], list[:i], list[i+1:])
}
