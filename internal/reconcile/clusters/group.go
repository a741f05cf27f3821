// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"slices"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile/indices"
)

// group is a group in the maps.
type group struct {
	index indices.Span
	span  indices.Span
	// hashTable are the entries of hash_places that find endpoints by hash.
	hashTable indices.Span
	// drift is how many entries have been moved since the schedule was written.
	drift int
	groupContent
}

// groupContent is what a group says, in indices of the maps.
type groupContent struct {
	policy  maps.Policy
	choices uint32
	flags   maps.GroupFlags
	// schedule are indices of endpoints, or of groups.
	schedule []uint32
	// hashing finds endpoints by hash; its indices are those of the maps.
	hashing *clusters.Hashing
}

func (g groupContent) equal(other groupContent) bool {
	return g.policy == other.policy && g.choices == other.choices && g.flags == other.flags && slices.Equal(g.schedule, other.schedule) && g.hashing.Equal(other.hashing)
}

// grouping writes a tree of one cluster's groups. Those that are as before stay, with their cursor.
type grouping struct {
	r *Reconciler
	// before are the tree's groups that have not been found again.
	before []*group
	// now are those that it has, each behind the groups that it leads to; added are the new ones of them, and patches what is yet to be done to the
	// others.
	now, added []*group
	patches    []schedulePatch
	// endpoints are the indices of the cluster's endpoints.
	endpoints []uint32
	// cursor is where new groups begin: where the tree's last root stood, so that a change of endpoints does not favour the first.
	cursor uint64
	// top is the tree's root, in which endpoints have these shares.
	top    uint32
	shares []float64
}

// regroup makes a cluster's groups what its members' state of health asks for, and then points the cluster and its subsets to them. First the
// groups, then the words: a program sees the old groups or the new ones, and of a group that is patched some of either's endpoints. All of it is
// shared memory: without a kernel the slow path reads the same.
func (r *Reconciler) regroup(c *cluster) error {
	c.starting, c.late, c.grouped, c.retries = false, false, r.now(), nil
	learned := r.learned(c)
	parts := c.compiled.PartsOf()
	written := make([]*grouping, 0, len(parts))
	for i, part := range parts {
		root := c.compiled.RootOf(i, learned)
		w := r.groupingOf(c, part)
		written = append(written, w)
		if err := w.writeTop(&root); err != nil {
			for _, w := range written {
				r.pending.groups = append(r.pending.groups, w.added...)
			}
			return err
		}
	}
	for i, w := range written {
		w.commit()
		if len(w.patches) > 0 {
			r.renew(c, c.trees[parts[i]].top)
		}
		c.trees[parts[i]] = &tree{groups: w.now, top: w.top}
		c.held = append(c.held, w.before...)
	}
	for i, share := range written[0].shares {
		r.endpoints[endpointKey{c.compiled.Key, c.compiled.Endpoints[i].Address}].share = share
	}
	r.point(&c.entry, written[0].top)
	for _, s := range c.compiled.Subsets {
		known := c.subsets[s.Criteria]
		r.point(&known.entry, c.trees[known.part].top)
	}
	if len(c.subsets) == len(c.compiled.Subsets) {
		r.unlinkHeld(c)
	}
	return nil
}

func (r *Reconciler) groupingOf(c *cluster, part model.Part) *grouping {
	w := &grouping{r: r, endpoints: c.endpoints, cursor: atomic.LoadUint64(&r.sh.Groups[c.root].Turn)}
	if t := c.trees[part]; t != nil {
		w.before, w.cursor = slices.Clone(t.groups), atomic.LoadUint64(&r.sh.Groups[t.top].Turn)
	}
	return w
}

// point makes an entry lead to a group, if it does not already.
func (r *Reconciler) point(e *entry, root uint32) {
	if root == e.root {
		return
	}
	e.root = root
	e.version++
	r.storeRoot(e)
}

func (r *Reconciler) storeRoot(e *entry) {
	atomic.StoreUint64(&r.sh.Clusters[e.index].Root, uint64(e.version)<<32|uint64(e.root))
	r.stats.Clusters++
}

// writeTop writes a tree, and notes what share of the requests is whose.
func (w *grouping) writeTop(root *clusters.Group) error {
	top, err := w.write(root)
	if err != nil {
		return err
	}
	w.top, w.shares = top.index.First, root.Shares(len(w.endpoints))
	return nil
}

// write returns the group of the maps that says the same, and has those below it written first.
func (w *grouping) write(g *clusters.Group) (*group, error) {
	content := groupContent{policy: g.Policy, choices: g.Choices}
	indices := w.endpoints
	if len(g.Groups) > 0 {
		content.flags = maps.GroupOfGroups
		indices = nil
		for i := range g.Groups {
			below, err := w.write(&g.Groups[i])
			if err != nil {
				return nil, err
			}
			indices = append(indices, below.index.First)
		}
	}
	for _, entry := range g.Schedule {
		content.schedule = append(content.schedule, indices[entry])
	}
	content.hashing = w.hashing(g.Hashing)
	if i := slices.IndexFunc(w.before, func(old *group) bool { return old.equal(content) }); i >= 0 {
		return w.keep(i), nil
	}
	for i, old := range w.before {
		if e, ok := w.patchFor(old, &content); ok {
			if !slices.Equal(e.schedule, old.schedule) {
				w.patches = append(w.patches, e)
			}
			return w.keep(i), nil
		}
	}
	return w.create(content)
}

// keep takes a group of before over.
func (w *grouping) keep(i int) *group {
	old := w.before[i]
	w.before = slices.Delete(w.before, i, i+1)
	w.now = append(w.now, old)
	return old
}

// hashing is compiled hashing over the endpoints of the maps.
func (w *grouping) hashing(of *clusters.Hashing) *clusters.Hashing {
	if of == nil {
		return nil
	}
	out := *of
	out.Endpoints = make([]uint32, len(of.Endpoints))
	for i, e := range of.Endpoints {
		out.Endpoints[i] = w.endpoints[e]
	}
	return &out
}

func (w *grouping) create(content groupContent) (*group, error) {
	g := &group{groupContent: content}
	var err error
	if g.index, err = w.r.indices.Groups.Take(1); err != nil {
		return nil, err
	}
	// Noted before the next step, which may fail.
	w.added = append(w.added, g)
	if g.span, err = w.r.takeSchedule(len(content.schedule)); err != nil {
		return nil, err
	}
	for i, entry := range content.schedule {
		w.r.setEntry(g, i, entry)
	}
	shared := &w.r.sh.Groups[g.index.First]
	g.hashTable = w.r.publishTable(g.index.First, content.hashing)
	atomic.StoreUint64(&shared.Table, uint64(g.hashTable.Count)<<32|uint64(g.hashTable.First))
	atomic.StoreUint32(&shared.Policy, uint32(content.policy))
	atomic.StoreUint32(&shared.Choices, content.choices)
	atomic.StoreUint32(&shared.Flags, uint32(content.flags))
	atomic.StoreUint64(&shared.Turn, w.cursor)
	w.r.setLength(g, len(content.schedule))
	w.now = append(w.now, g)
	return g, nil
}

// freeGroup frees a group that no program can reach.
func (r *Reconciler) freeGroup(g *group) {
	r.sh.HashTables[g.index.First].Store(nil)
	r.indices.Schedules.Free(g.span)
	r.indices.HashPlaces.Free(g.hashTable)
	r.indices.Groups.Free(g.index)
}
