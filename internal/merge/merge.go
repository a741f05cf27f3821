// SPDX-License-Identifier: Apache-2.0

package merge

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

// Merger merges configurations, one set after another. It is not safe for concurrent use.
type Merger struct {
	Times
	active *Merged
	// tried are the groups, of each name, of which tables may know beside those of active.
	tried map[string][]*group
}

// Times are those of a Merger, zero or more.
type Times struct {
	// Patience is how long a view whose cluster has changed waits for the other views that share it.
	Patience time.Duration
	// Apart is how long clusters are apart at least, though they may be equal again.
	Apart time.Duration
}

// New returns a merger that has merged nothing.
func New(t Times) *Merger {
	return &Merger{Times: t, active: &Merged{}}
}

// Merged is what came of a set of parts. It is never changed.
type Merged struct {
	// Config is in force for all views. It is the part itself where there is one.
	Config *model.Config
	// Next is when to merge again, though no part has changed, for views that are not held; zero: there is no need.
	Next time.Time
	// Twins: some clusters are equal, and not one yet (Times.Apart). Joined: some are one since now.
	Twins, Joined bool
	// Waited are the views that get now what they have waited for. It was accepted when they said it: if it cannot be in force, it is for no other view's sake.
	Waited []Waiter

	views []*view
	// clusters are the groups of each name, of two parts or more.
	clusters map[string]*named
	// regrouped are those of them that were looked at.
	regrouped map[string]*named
	// waiting are the names of clusters for which a view waits.
	waiting map[string]bool
}

// Waiter is a view that has another cluster than it says, for a while.
type Waiter struct {
	View    string
	Cluster *model.Cluster
}

// WaitedFor are those of Waited that have the cluster with that key now.
func (m *Merged) WaitedFor(key model.ClusterKey) (list []Waiter) {
	for _, w := range m.Waited {
		if g := m.clusters[key.Name].of(w.View); g != nil && g.key == key && w.Cluster.Name == key.Name {
			list = append(list, w)
		}
	}
	return list
}

// Waits reports whether a view does not have a cluster that it says.
func (m *Merged) Waits(w Waiter) bool {
	g := m.clusters[w.Cluster.Name].of(w.View)
	return g != nil && slices.ContainsFunc(g.members, func(one member) bool {
		return one.view.Name == w.View && one.cluster == w.Cluster && one.kind != g.kind
	})
}

// view is a part and the result of it.
type view struct {
	model.View
	part *model.Config
	// byName are its clusters, at the addresses of its listeners.
	byName map[string]*model.Cluster
	at     addresses
	// list are the clusters of which the view is the first, in the order of the part.
	list  []*model.Cluster
	names *model.Names
}

// Merge merges the parts of all views, the shared one first; nil is one of which nothing is known yet. Those that are held wait on, however long they have waited. What
// it returns is the base of the next one once it is in force: see Accept.
func (m *Merger) Merge(parts []*model.Config, now time.Time, held ...Waiter) *Merged {
	return m.merge(parts, now, held, joinInTime)
}

// MergeShort is Merge where there is no room for clusters that are equal, and not one yet: they become one.
func (m *Merger) MergeShort(parts []*model.Config, now time.Time, held ...Waiter) *Merged {
	return m.merge(parts, now, held, joinAtOnce)
}

// MergeApart is Merge where equal clusters cannot become one, for a reason that is no view's: they stay apart for a while more.
func (m *Merger) MergeApart(parts []*model.Config, now time.Time, held ...Waiter) *Merged {
	return m.merge(parts, now, held, joinLater)
}

// joining is when equal clusters become one.
type joining uint8

const (
	joinInTime joining = iota
	joinAtOnce
	joinLater
)

func (m *Merger) merge(parts []*model.Config, now time.Time, held []Waiter, joins joining) *Merged {
	var views []*view
	for i, p := range parts {
		if p != nil && (i == 0 || len(p.Listeners)+len(p.Clusters)+len(p.Passed) > 0) {
			views = append(views, &view{View: viewOf(p), part: p})
		}
	}
	switch {
	case len(views) == 0:
		return &Merged{Config: &model.Config{}}
	case len(views) == 1 && m.active.clusters == nil && m.tried == nil:
		return &Merged{Config: views[0].part, views: views}
	}
	r := newRun(m, views, now)
	r.joining = joins
	for _, w := range held {
		r.held[w] = true
	}
	for name := range r.touched {
		r.regroup(name)
	}
	return r.merged()
}

// Accept has what came of Merge be the base of the next one: it is in force.
func (m *Merger) Accept(now *Merged) { m.active, m.tried = now, nil }

// Tried notes that what came of Merge may be in force in part, until another one is: some tables of routes lead to its clusters, others to those of before.
func (m *Merger) Tried(part *Merged) {
	if m.tried == nil {
		m.tried = map[string][]*group{}
	}
	for name, n := range part.regrouped {
		for _, g := range n.all() {
			m.tried[name] = withTried(m.tried[name], g)
		}
	}
}

// withTried adds a group to a list in which there is one for each key, with all views that were in one of that key.
func withTried(list []*group, g *group) []*group {
	i := slices.IndexFunc(list, func(t *group) bool { return t.key == g.key })
	if i < 0 {
		return append(list, &group{key: g.key, kind: g.kind, members: slices.Clone(g.members)})
	}
	t := list[i]
	t.isMixed = t.hasOther(g.kind)
	for _, m := range g.members {
		if !t.has(m.view.Name) {
			t.members = append(t.members, m)
		}
	}
	return list
}

// viewOf is the view of a part. One without anything is as good as that of any.
func viewOf(p *model.Config) model.View {
	for _, l := range p.Listeners {
		return l.View
	}
	for _, c := range p.Clusters {
		return c.View
	}
	for _, passed := range p.Passed {
		return passed.View
	}
	return model.View{}
}

// nothing is the part of a view that there is no more. As long as a cluster of others has its name in the key, a connection that the view has left behind must
// not take that one for its own.
var nothing = &model.Config{}

// run is one merge.
type run struct {
	*Merger
	now time.Time
	// joining is of this merge; joined: some clusters have become one in it.
	joining joining
	joined  bool
	// held wait on. waited get what they have waited for.
	held   map[Waiter]bool
	waited []Waiter
	// views are those of now, before those of what is in force, by name.
	views  []*view
	before map[string]*view
	// touched are the names of clusters that may be grouped otherwise than before.
	touched map[string]bool
	// regrouped are those of them that are looked at already.
	regrouped map[string]*named
	// rerouted say of views that have changed whether their listeners are others than before. To compare all routes takes long, and few views need it: see mayWait.
	rerouted map[string]func() bool
	// dirty are the views whose list of clusters may be another one.
	dirty map[string]bool
}

func newRun(m *Merger, views []*view, now time.Time) *run {
	r := &run{
		Merger: m, now: now, held: map[Waiter]bool{}, views: slices.Clone(views), before: map[string]*view{}, touched: maps.Clone(m.active.waiting), regrouped: map[string]*named{}, rerouted: map[string]func() bool{}, dirty: map[string]bool{},
	}
	if r.touched == nil {
		r.touched = map[string]bool{}
	}
	for name := range m.tried {
		r.touched[name] = true
	}
	for _, v := range m.active.views {
		r.before[v.Name] = v
	}
	for _, v := range r.views {
		r.compare(r.before[v.Name], v)
	}
	for _, v := range m.active.views {
		if !slices.ContainsFunc(views, func(stays *view) bool { return stays.Name == v.Name }) {
			gone := &view{View: v.View, part: nothing}
			r.views = append(r.views, gone)
			r.compare(v, gone)
		}
	}
	if m.active.clusters == nil {
		// There was one part, of which nothing is grouped yet.
		for _, v := range r.views {
			r.touch(v.part.Clusters)
		}
	}
	return r
}

// compare notes what has changed in a view.
func (r *run) compare(before, now *view) {
	if before != nil && before.part == now.part && before.byName != nil {
		now.byName, now.at, now.list, now.names = before.byName, before.at, before.list, before.names
		return
	}
	now.byName, now.at = map[string]*model.Cluster{}, addressesOf(now.part)
	for _, c := range now.part.Clusters {
		now.byName[c.Name] = c
	}
	r.dirty[now.Name] = true
	if before == nil {
		r.touch(now.part.Clusters)
		return
	}
	now.names = before.names
	r.rerouted[now.Name] = sync.OnceValue(func() bool { return !sameListeners(before.part.Listeners, now.part.Listeners) })
	if !maps.Equal(now.at, before.at) {
		r.touch(before.part.Clusters)
		r.touch(now.part.Clusters)
		return
	}
	changed := model.ChangeOf(before.part.Clusters, now.part.Clusters)
	same := make(map[*model.Cluster]bool, len(changed.Removed))
	for _, c := range changed.Removed {
		same[c] = true
	}
	for _, c := range changed.Added {
		if same[c] {
			delete(same, c)
			continue
		}
		r.touched[c.Name] = true
	}
	for c := range same {
		r.touched[c.Name] = true
	}
}

func (r *run) touch(clusters []*model.Cluster) {
	for _, c := range clusters {
		r.touched[c.Name] = true
	}
}

// merged puts together what the run has come to.
func (r *run) merged() *Merged {
	out := &Merged{clusters: r.clusters(), regrouped: r.regrouped, waiting: map[string]bool{}}
	for name, n := range r.regrouped {
		if n == nil || !n.isAwaited {
			continue
		}
		out.waiting[name] = true
		out.Twins = out.Twins || n.hasTwins
		out.Next = sooner(out.Next, n.due)
	}
	r.list(out)
	r.name(out)
	out.Config, out.Waited, out.Joined = r.config(), r.waited, r.joined
	out.views = slices.DeleteFunc(r.views, func(v *view) bool { return v.part == nothing && len(v.names.Keys) == 0 })
	return out
}

// clusters are the groups of all names.
func (r *run) clusters() map[string]*named {
	out := r.active.clusters
	switch {
	case out == nil:
		out = map[string]*named{}
	case len(r.regrouped) > 0:
		out = maps.Clone(out)
	}
	for name, n := range r.regrouped {
		if n == nil {
			delete(out, name)
			continue
		}
		out[name] = n
	}
	return out
}

// list makes the lists of clusters of views where they may have changed.
func (r *run) list(out *Merged) {
	for _, v := range r.views {
		if !r.dirty[v.Name] {
			continue
		}
		v.list = make([]*model.Cluster, 0, len(v.part.Clusters))
		for _, c := range v.part.Clusters {
			if g := out.clusters[c.Name].of(v.Name); g.first() == v.Name {
				v.list = append(v.list, g.merged)
			}
		}
	}
}

// name makes the names of views where they have changed.
func (r *run) name(out *Merged) {
	for _, v := range r.views {
		names := r.regrouped
		if v.names == nil {
			v.names, names = &model.Names{}, out.clusters
		}
		changed := map[string]model.ClusterKey{}
		for name := range names {
			key := out.clusters[name].meantBy(v.Name, name)
			if had, is := v.names.Keys[name]; !is && key.View != v.Name || is && key != had {
				changed[name] = key
			}
		}
		if len(changed) > 0 {
			v.names = renamed(v, changed)
		}
	}
}

func renamed(v *view, changed map[string]model.ClusterKey) *model.Names {
	keys := maps.Clone(v.names.Keys)
	if keys == nil {
		keys = map[string]model.ClusterKey{}
	}
	for name, key := range changed {
		if key.View == v.Name {
			delete(keys, name)
			continue
		}
		keys[name] = key
	}
	return &model.Names{Keys: keys}
}

// config is what is in force. What concerns the whole process is the shared view's. Clusters stand where the first view that has them has them: where one view
// alone has changed, the lists differ there alone.
func (r *run) config() *model.Config {
	out := model.Config{}
	if len(r.views) > 0 && r.views[0].View == (model.View{}) {
		out = *r.views[0].part
		out.Listeners, out.Passed, out.Clusters = nil, nil, nil
	}
	for _, v := range r.views {
		out.Listeners, out.Passed, out.Clusters = append(out.Listeners, v.part.Listeners...), append(out.Passed, v.part.Passed...), append(out.Clusters, v.list...)
		if len(v.names.Keys) > 0 {
			if out.Names == nil {
				out.Names = map[string]*model.Names{}
			}
			out.Names[v.Name] = v.names
		}
	}
	return &out
}
