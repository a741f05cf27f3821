// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/xlb-project/xlb/internal/compile/note"
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/model"
)

// TestCacheChangesNothing compiles random configurations, each made of the one before, with the cache of those and without.
func TestCacheChangesNothing(t *testing.T) {
	w := newWorld(max(*seedFlag, 1))
	c := NewCache()
	rt := oneHost()
	automata := 0
	for round := range 300 {
		rt = w.changed(rt)
		both := []*model.RouteTable{rt, w.table()}
		compiled, notes := compileAll(c, both)
		want, wantNotes := compileAll(NewCache(), both)
		if !reflect.DeepEqual(compiled, want) || !slices.Equal(notes, wantNotes) {
			t.Fatalf("round %d: tables or notes differ:\n%+v\n%+v", round, notes, wantNotes)
		}
		automata += len(compiled[0].Automata)
	}
	if automata < 300 {
		t.Errorf("%d automata in all, want at least one each time", automata)
	}
}

// compileAll compiles the tables of one configuration.
func compileAll(c *Cache, list []*model.RouteTable) (compiled []tables.Table, notes []note.Note) {
	defer c.EndRound()
	left := NewSpace(c, nil)
	for i, rt := range list {
		table, more := Compile(left, fmt.Sprintf("table %d", i), model.Scope{}, rt)
		compiled, notes = append(compiled, table), append(notes, more...)
	}
	return compiled, notes
}

// changed returns a table with some routes more, fewer or others.
func (w world) changed(rt *model.RouteTable) *model.RouteTable {
	routes := slices.Clone(rt.VirtualHosts[0].Routes)
	for range 1 + w.IntN(3) {
		drawn := w.table().VirtualHosts
		r := regexRoute("c", fmt.Sprintf("/[ab]+/%d", w.IntN(20)))
		if from := drawn[w.IntN(len(drawn))].Routes; len(from) > 0 && w.oneIn(2) {
			r = from[w.IntN(len(from))]
		}
		switch at := w.IntN(len(routes) + 1); {
		case at == len(routes) || len(routes) < 10 || w.oneIn(3):
			routes = slices.Insert(routes, at, r)
		case w.oneIn(2):
			routes[at] = r
		default:
			routes = slices.Delete(routes, at, at+1)
		}
	}
	return oneHost(routes...)
}
