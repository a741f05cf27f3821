// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile/routes"
)

// move is a table that some listeners are to have in place of the one that they have, if any. Listeners with equal tables point to one version of it.
type move struct {
	table *tables.Table
	sum   uint64
	// first is the first of the listeners, keys are those of all.
	first model.ListenerName
	keys  []maps.ListenerKey
	// live is the version that all its listeners leave for the table: it may be changed in place, or lend what stays. Nil: there is no such version.
	live *routes.Version
	// to is the version with the table, once there is one, and draft what it is made of; nil: it was there.
	to    *routes.Version
	draft *routes.Draft
}

// moves are those of one change.
type moves struct {
	all []*move
	of  map[maps.ListenerKey]*move
	// stays are the listeners that keep their table.
	stays map[maps.ListenerKey]bool
}

// movesTo finds out which listeners are to have another table. Nothing is written.
func (r *Reconciler) movesTo(wanted []compile.Listener) *moves {
	out, kept := &moves{of: map[maps.ListenerKey]*move{}, stays: map[maps.ListenerKey]bool{}}, map[uint64][]*routes.Version{}
	for i := range wanted {
		l := &wanted[i]
		if l.PassesBy {
			continue
		}
		known := r.listeners[l.Key()]
		if known == nil || !known.live.Holds(l.Table) || isTwin(kept, known.live, l.Table) {
			out.add(l)
			continue
		}
		out.stays[l.Key()] = true
	}
	if len(out.all) > 0 {
		r.findVersions(out)
	}
	return out
}

// isTwin reports whether another one of the versions that stay has the table, too: changes that fail half way may leave two. Else the version stays.
func isTwin(kept map[uint64][]*routes.Version, live *routes.Version, t *tables.Table) bool {
	alike := kept[live.Sum()]
	if slices.Contains(alike, live) {
		return false
	}
	if slices.ContainsFunc(alike, func(v *routes.Version) bool { return v.Holds(t) }) {
		return true
	}
	kept[live.Sum()] = append(alike, live)
	return false
}

// add has a listener move together with those that are to have an equal table.
func (ms *moves) add(l *compile.Listener) {
	sum := routes.SumOf(l.Table)
	i := slices.IndexFunc(ms.all, func(m *move) bool { return m.sum == sum && m.table.Equal(l.Table) })
	if i < 0 {
		i = len(ms.all)
		ms.all = append(ms.all, &move{table: l.Table, sum: sum, first: l.View.Listener(l.Name)})
	}
	m := ms.all[i]
	m.keys = append(m.keys, l.Key())
	ms.of[l.Key()] = m
}

// findVersions finds for each move the version that has its table already, if some listener does not leave that one: then nothing changes it. Rather it is one with
// which a listener stays than that of a listener which goes. Otherwise it finds the one that the move leaves to no other listener.
func (r *Reconciler) findVersions(ms *moves) {
	holders, owned := map[*routes.Version][]maps.ListenerKey{}, map[routes.Owner]int{}
	for _, l := range r.listenersByNumber() {
		if l.live == nil {
			continue
		}
		if holders[l.live] == nil {
			owned[l.live.Owner()]++
		}
		holders[l.live] = append(holders[l.live], l.key)
	}
	for v, keys := range holders {
		if !slices.ContainsFunc(keys, func(k maps.ListenerKey) bool { return ms.of[k] == nil }) {
			continue
		}
		stays := slices.ContainsFunc(keys, func(k maps.ListenerKey) bool { return ms.stays[k] })
		for _, m := range ms.all {
			if (stays || m.to == nil) && m.sum == v.Sum() && v.Holds(m.table) {
				m.to = v
			}
		}
	}
	for _, m := range ms.all {
		for _, key := range m.keys {
			l := r.listeners[key]
			if m.live == nil && l != nil && l.live != nil && owned[l.live.Owner()] == 1 && ms.isOfAll(m, holders[l.live]) {
				m.live = l.live
			}
		}
	}
}

// isOfAll reports whether all of some listeners make a move.
func (ms *moves) isOfAll(m *move, some []maps.ListenerKey) bool {
	return !slices.ContainsFunc(some, func(k maps.ListenerKey) bool { return ms.of[k] != m })
}

// prepare writes what no program sees before the move is made.
func (r *Reconciler) prepare(m *move) (err error) {
	if m.to != nil {
		return nil
	}
	if m.draft, err = r.routes.NewDraft(m.live, m.table); err != nil {
		return err
	}
	return m.draft.Prepare()
}

func (m *move) close() {
	if m.draft != nil {
		m.draft.Close()
	}
}

// moveTo has a listener point to the version of a move. Where the live version becomes it, it does so with the first listener: all that point to it move.
func (r *Reconciler) moveTo(l *listener, m *move) error {
	if m.to == nil {
		if m.draft.Next == m.live {
			if err := m.draft.Change(); err != nil {
				return err
			}
		}
		m.to = m.draft.Next
	}
	if l.live == m.to {
		return nil
	}
	if err := r.point(l, maps.Listener{Table: m.to.Number(), Number: l.number}); err != nil {
		return err
	}
	r.routes.ReplaceVersion(m.to, l.live)
	l.live = m.to
	return nil
}
