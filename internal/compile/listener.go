// SPDX-License-Identifier: Apache-2.0

package compile

import (
	"slices"

	"github.com/xlb-project/xlb/internal/compile/note"
	"github.com/xlb-project/xlb/internal/compile/routes"
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/model"
)

// cachedTable is what was compiled of a listener, and what it was made of beside the listener.
type cachedTable struct {
	// table is nil where connections are left alone.
	table *tables.Table
	notes []note.Note
	// criteria are those of the listener's routes, by the names of clusters.
	criteria criteriaByName
	taken    *routes.Taken
	// scope is what names of clusters meant.
	scope model.Scope
	// proxied are the clusters that a listener without HTTP names, in its order; nil where there is no such cluster.
	proxied []*model.Cluster
}

// byListener are the tables of the previous build.
func (b *build) byListener() map[*model.Listener]*cachedTable {
	list := make(map[*model.Listener]*cachedTable, len(b.tables))
	for i, t := range b.tables {
		list[b.listeners[i]] = t
	}
	return list
}

// serves reports whether the table is what would be compiled of the listener now. Then it has taken its part of what is left.
func (t *cachedTable) serves(left *routes.Space, find *finder, l *model.Listener) bool {
	if !slices.Equal(t.proxied, find.proxied(l)) {
		return false
	}
	scope := find.cfg.In(l.View)
	if t.table == nil {
		return true
	}
	return t.means(scope) && left.TakeAgain(scope, t.taken)
}

// means reports whether all names of clusters that the table has a key for mean the same.
func (t *cachedTable) means(scope model.Scope) bool {
	if scope.SameAs(t.scope) {
		return true
	}
	for key := range t.table.Clusters() {
		if scope.Key(key.Name) != key {
			return false
		}
	}
	t.scope = scope
	return true
}

func compileListener(left *routes.Space, find *finder, l *model.Listener) *cachedTable {
	t := &cachedTable{criteria: criteriaOf(l), proxied: find.proxied(l), scope: find.cfg.In(l.View)}
	if l.PassesBy(find.of(l)) {
		return t
	}
	left.Begin()
	compiled, notes := compileTable(left, find, l)
	t.table, t.notes, t.taken = &compiled, notes, left.End()
	return t
}

func compileTable(left *routes.Space, find *finder, l *model.Listener) (tables.Table, []note.Note) {
	where := l.FullName().String()
	if l.TCP != nil {
		return compileTCP(left, where, find, l)
	}
	t, notes := routes.Compile(left, where, find.cfg.In(l.View), l.Routes)
	return t, append(notes, inspectionNotes(where, l)...)
}

// finder finds the clusters of a configuration.
type finder struct {
	cfg *model.Config
	// byKey is made when the first one is looked for: most configurations have no listener without HTTP.
	byKey map[model.ClusterKey]*model.Cluster
}

func newFinder(cfg *model.Config) *finder { return &finder{cfg: cfg} }

// of finds the clusters of a listener's view by their names.
func (f *finder) of(l *model.Listener) func(name string) *model.Cluster {
	scope := f.cfg.In(l.View)
	return func(name string) *model.Cluster { return f.cluster(scope.Key(name)) }
}

// cluster returns the cluster with that key, or nil.
func (f *finder) cluster(key model.ClusterKey) *model.Cluster {
	if f.byKey == nil {
		f.byKey = make(map[model.ClusterKey]*model.Cluster, len(f.cfg.Clusters))
		for _, c := range f.cfg.Clusters {
			f.byKey[c.Key()] = c
		}
	}
	return f.byKey[key]
}

// proxied are the clusters that a listener without HTTP names, in its order.
func (f *finder) proxied(l *model.Listener) []*model.Cluster {
	if l.TCP == nil {
		return nil
	}
	list, cluster := make([]*model.Cluster, len(l.TCP.Clusters)), f.of(l)
	for i := range list {
		list[i] = cluster(l.TCP.Clusters[i].Name)
	}
	return list
}
