// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"math"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile/indices"
	"github.com/xlb-project/xlb/internal/reconcile/writes"
)

// Reconciler is the only writer of route tables and of what they lead to. The maps are empty when it starts. Its callers see to it that one
// method runs at a time.
type Reconciler struct {
	cfg     *maps.Config
	indices Allocators
	stats   *writes.Stats
	// entryOf and wait are as the configuration says.
	entryOf func(cluster model.ClusterKey, criteria model.Metadata) uint32
	wait    func() error

	interners interners
	pending   pendingReclaim
	// manyPaths is as the configuration says.
	manyPaths int
	// nextClass is a class that no value has been given.
	nextClass uint32
	lastOwner Owner
}

// Config is what route tables are written to, and with.
type Config struct {
	Maps    *maps.Config
	Indices Allocators
	// Stats counts what is written.
	Stats *writes.Stats
	// EntryOf is the index of the cluster, or of its subset, to which requests of a route with these criteria go.
	EntryOf func(cluster model.ClusterKey, criteria model.Metadata) uint32
	// Wait returns when the programs that are running have ended.
	Wait func() error
	// ManyPaths of a virtual host are looked up by hash, however many lengths they have.
	ManyPaths int
}

// New returns a reconciler for maps that are empty.
func New(c Config) *Reconciler {
	r := &Reconciler{
		cfg:       c.Maps,
		indices:   c.Indices,
		stats:     c.Stats,
		entryOf:   c.EntryOf,
		wait:      c.Wait,
		manyPaths: c.ManyPaths,
		nextClass: tables.FirstClass,
	}
	r.interners = newInterners(c.Maps, &r.indices, c.Stats)
	return r
}

// Allocators are the indices of the maps of routes that are not in use.
type Allocators struct {
	Tables, VHosts           *indices.Allocator
	Routes, Splits           *indices.Allocator
	Rewrites, Retries        *indices.Allocator
	Fields                   *indices.Allocator
	Tuples, TupleNumbers     *indices.Allocator
	BucketLists              *indices.Allocator
	Automata, Cells, Accepts *indices.Allocator
	AcceptedValues           *indices.Allocator
}

// NewAllocators returns all indices there are, but for 0 where it means none: of tables and virtual hosts by the
// maps' definition, of rewrites and sets of statuses too.
func NewAllocators(sizes maps.Sizes, sh *maps.Shared) Allocators {
	return Allocators{
		Tables:         indices.NewAllocator("tables", "route_tables", 1, sizes.RouteTables),
		VHosts:         indices.NewAllocator("virtual hosts", "vhosts", 1, sizes.VHosts),
		Routes:         indices.NewAllocator("routes", "routes", 0, sizes.Routes),
		Splits:         indices.NewAllocator("shares", "splits", 0, sizes.Splits),
		Rewrites:       indices.NewAllocator("rewrites of paths", "rewrites", 1, sizes.Rewrites),
		Retries:        indices.NewAllocator("sets of statuses", "retry_sets", 1, sizes.RetrySets),
		Fields:         indices.NewAllocator("headers", "fields", 1, math.MaxUint32),
		Tuples:         indices.NewAllocator("parts of indexes", "tuples", 0, sizes.Tuples),
		BucketLists:    indices.NewAllocator("entries of indexes", "bucket_lists", 0, sizes.BucketLists).Growing(sh, maps.GrowingBucketLists),
		TupleNumbers:   indices.NewAllocator("indexes", "buckets", 1, math.MaxUint32),
		Automata:       indices.NewAllocator("automata", "automata", 0, sizes.Automata),
		Cells:          indices.NewAllocator("blocks of transitions", "cell_blocks", 0, sizes.Cells),
		Accepts:        indices.NewAllocator("combinations of expressions", "accepts", 0, sizes.Accepts),
		AcceptedValues: indices.NewAllocator("combinations of header conditions", "accepted_values", 0, sizes.AcceptedValues),
	}
}
