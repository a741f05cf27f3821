// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/reconcile/clusters"
	"github.com/xlb-project/xlb/internal/reconcile/indices"
	"github.com/xlb-project/xlb/internal/reconcile/routes"
)

// Reconciler is the only writer of the configuration's maps, which are empty when it
// starts. Its methods may be called from several goroutines.
type Reconciler struct {
	cfg *maps.Config
	log *slog.Logger
	// now tells the time.
	now func() time.Time

	// applying is held to change tables, or to reclaim what is pending. It comes before mu.
	applying sync.Mutex
	// mu guards everything below. Nobody holds it while programs are waited for, which takes seconds where the kernel's own threads
	// get no time to run: the health of endpoints changes meanwhile.
	mu        sync.Mutex
	listeners map[maps.ListenerKey]*listener
	// shownAt are the listeners that were shown at addresses last.
	shownAt map[maps.ListenerKey]*listener
	// byIndex are the listeners that had the entries of the map last.
	byIndex  map[uint32]*listener
	indices  indexAllocators
	routes   *routes.Reconciler
	clusters *clusters.Reconciler
	// applied is the image that was applied last; nil: it failed, and there may be anything of it. What is the same in the next is left alone.
	applied *compile.Image
	// stats of the Apply that is under way.
	stats Stats
	// written is the sum of those that have come to their end.
	written atomic.Uint64
	limiter logLimiter
}

// limits are lengths from which on something is done in another way.
type limits struct{ manyPaths, longSchedule int }

// New returns a reconciler for maps that are empty.
func New(cfg *maps.Config, sh *maps.Shared, log *slog.Logger) *Reconciler {
	return newReconciler(cfg, sh, log, limits{routes.ManyPaths, clusters.LongSchedule})
}

func newReconciler(cfg *maps.Config, sh *maps.Shared, log *slog.Logger, than limits) *Reconciler {
	r := &Reconciler{
		cfg:       cfg,
		log:       log,
		now:       time.Now,
		listeners: map[maps.ListenerKey]*listener{},
		shownAt:   map[maps.ListenerKey]*listener{},
		byIndex:   map[uint32]*listener{},
		indices:   newIndexAllocators(cfg.Sizes, sh),
		limiter:   newLogLimiter(),
	}
	r.clusters = clusters.New(clusters.Config{
		Shared: sh, Log: log, Now: func() time.Time { return r.now() }, Indices: r.indices.clusters, Stats: &r.stats, LongSchedule: than.longSchedule,
	})
	r.routes = routes.New(routes.Config{
		Maps: cfg, Indices: r.indices.routes, Stats: &r.stats, EntryOf: r.clusters.EntryOf, Wait: r.wait, ManyPaths: than.manyPaths,
	})
	return r
}

// indexAllocators are the indices of all maps that are not in use.
type indexAllocators struct {
	listeners *indices.UniqueAllocator
	routes    routes.Allocators
	clusters  clusters.Allocators
}

// newIndexAllocators returns those of empty maps.
func newIndexAllocators(sizes maps.Sizes, sh *maps.Shared) indexAllocators {
	return indexAllocators{
		listeners: indices.NewUniqueAllocator(sizes.Listeners),
		routes:    routes.NewAllocators(sizes, sh),
		clusters:  clusters.NewAllocators(sh),
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
	err := r.activate(im)
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
	return r.activate(im)
}

// switchClusters is Switch where all listeners stay, with all that they name. False: it is not so, or there is no room, and nothing is said of
// what has been done.
func (r *Reconciler) switchClusters(im *compile.Image) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.applied == nil || !r.applied.SameListeners(im) {
		return false
	}
	d := clusters.DifferenceOf(r.applied.Clusters, im.Clusters)
	if len(d.Removed) > 0 {
		return false // a route may name it
	}
	if r.clusters.CheckCapacity(d.Changed) != nil {
		return false
	}
	r.stats, r.applied = Stats{}, nil
	if r.clusters.Apply(d.Changed) != nil {
		return false
	}
	r.clusters.UnlinkLeft(&d)
	r.applied = im
	r.logActive(im)
	return true
}

func (r *Reconciler) activate(im *compile.Image) error {
	r.stats = Stats{}
	err := r.apply(im)
	if err != nil {
		// What comes after a failure is logged.
		r.limiter = newLogLimiter()
		if r.applied == nil {
			return &UnfinishedError{err}
		}
		return err
	}
	r.logActive(im)
	return nil
}

// UnfinishedError is the error of a change of which a part may be active: of each listener the old table or the new one, of each cluster the old endpoints or the
// new ones.
type UnfinishedError struct {
	// Err is why the change has failed.
	Err error
}

func (e *UnfinishedError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *UnfinishedError) Unwrap() error { return e.Err }

// apply adds children before parents and removes parents before children.
func (r *Reconciler) apply(im *compile.Image) error {
	if err := checkClusters(im); err != nil {
		return err
	}
	d, inForce := r.clustersSince(im), r.applied
	r.applied = nil
	// What an earlier failure, or a released endpoint, has left.
	if err := r.sweep(); err != nil {
		return err
	}
	if err := r.checkRoom(im, &d); err != nil {
		r.applied = inForce // nothing has been written
		return err
	}
	if err := r.clusters.Apply(d.Changed); err != nil {
		return err
	}
	if err := r.linkListeners(im.Listeners); err != nil {
		return err
	}
	if err := r.unlinkListeners(im.Listeners); err != nil {
		return err
	}
	r.clusters.UnlinkLeft(&d)
	r.applied = im
	return nil
}

// checkRoom returns why there is no room for an image that differs so.
func (r *Reconciler) checkRoom(im *compile.Image, d *clusters.Difference) error {
	if err := r.clusters.CheckCapacity(d.Changed); err != nil {
		return err
	}
	return r.checkNumbers(im.Listeners)
}

// clustersSince compares an image's clusters with the ones in force.
func (r *Reconciler) clustersSince(im *compile.Image) clusters.Difference {
	if r.applied == nil {
		return clusters.All(im.Clusters)
	}
	return clusters.DifferenceOf(r.applied.Clusters, im.Clusters)
}
