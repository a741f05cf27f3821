// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/xlb-project/xlb/internal/compile/note"
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/model"
)

// scarcity is what a configuration has of all that tables take.
type scarcity struct {
	automata, blocks, accepts, routes, comparisons, steps, alone int
	subsetted                                                    bool
	// tight: automata hold few expressions, and the others are compared.
	tight bool
}

// scarcity draws one with enough of all but one thing, of which there is about as much as two or three tables take.
func (w world) scarcity() scarcity {
	s := scarcity{
		automata: maxAutomata, blocks: maxBlocks, accepts: maxAccepts, routes: maxAcceptedRoutes, comparisons: maxComparisons, steps: 1 << 20, alone: 32 << 20,
	}
	switch w.IntN(8) {
	case 0:
		s.automata = w.IntN(5)
	case 1:
		s.blocks = w.IntN(100)
	case 2:
		s.accepts = w.IntN(40)
	case 3:
		s.routes = w.IntN(30)
	case 4:
		s.comparisons, s.tight = w.IntN(60), true
	case 5:
		s.steps = w.IntN(1 << 14)
	case 6:
		s.steps, s.alone = 1<<12, w.IntN(1<<14)
	}
	return s
}

// cache returns an empty one for so many steps.
func (s *scarcity) cache() *Cache {
	c, limits := NewCache(), automataLimits()
	limits.Steps, limits.PatternSteps, limits.AloneBytes = s.steps, 1<<10, s.alone
	if s.tight {
		limits.Sets, limits.SetBytes = 1, 1<<9
	}
	c.automata = dfa.NewMemo(limits)
	return c
}

func (s *scarcity) space(c *Cache) *Space {
	left := NewSpace(c, nil)
	left.automata, left.blocks, left.accepts, left.routes, left.comparisons = s.automata, s.blocks, s.accepts, s.routes, s.comparisons
	if s.subsetted {
		left.subsetted[model.SharedCluster("c")] = true
	}
	return left
}

// compiledTable is what came of a table.
type compiledTable struct {
	table tables.Table
	notes []note.Note
	taken *Taken
}

// TestWhatIsTakenOverIsWhatWouldBeCompiled takes tables over from one configuration to the next, where there is room for them, in spaces that are often too
// small for all.
func TestWhatIsTakenOverIsWhatWouldBeCompiled(t *testing.T) {
	w := newWorld(max(*seedFlag, 1))
	taken, refused, short := 0, 0, 0
	for range 80 {
		scarce := w.scarcity()
		c, known := scarce.cache(), map[*model.RouteTable]compiledTable{}
		list := []*model.RouteTable{w.rich(), w.rich(), w.rich(), w.rich()}
		for round := range 8 {
			list[w.IntN(len(list))] = w.rich()
			if w.oneIn(3) {
				w.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
			}
			scarce.subsetted = scarce.subsetted != w.oneIn(4)
			left, alone := scarce.space(c), scarce.space(scarce.cache())
			for _, rt := range list {
				got, is := known[rt]
				if is && left.TakeAgain(model.Scope{}, got.taken) {
					taken++
				} else {
					if is {
						refused++
					}
					left.Begin()
					got.table, got.notes = Compile(left, "table", model.Scope{}, rt)
					got.taken = left.End()
				}
				if got.taken.short || got.taken.compiled.Short() {
					short++
				}
				known[rt] = got
				want, notes := Compile(alone, "table", model.Scope{}, rt)
				if !reflect.DeepEqual(got.table, want) || !slices.Equal(got.notes, notes) {
					t.Fatalf("round %d, %+v: tables or notes differ:\n%+v\n%+v", round, scarce, got.notes, notes)
				}
				requireSameSpace(t, left, alone)
			}
			c.EndRound()
		}
	}
	t.Logf("%d tables taken over, %d not, %d found too little of something", taken, refused, short)
	if taken < 300 || refused < 30 || short < 30 {
		t.Error("want more of each")
	}
}

func requireSameSpace(t *testing.T, got, want *Space) {
	t.Helper()
	numbers := func(s *Space) []int { return []int{s.automata, s.blocks, s.accepts, s.routes, s.comparisons} }
	if !slices.Equal(numbers(got), numbers(want)) || !reflect.DeepEqual(got.rewrites, want.rewrites) || !reflect.DeepEqual(got.retries, want.retries) {
		t.Fatalf("left %v, want %v", numbers(got), numbers(want))
	}
}

// rich returns a table with expressions, rewrites, retries and criteria.
func (w world) rich() *model.RouteTable {
	rt := w.changed(w.changed(oneHost()))
	for i := range 1 + w.IntN(6) {
		r := *regexRoute("c", fmt.Sprintf("/%d[xy]+.*%d", w.IntN(5), w.IntN(20)))
		r.Clusters = slices.Clone(r.Clusters)
		r.Clusters[0].Criteria = []model.Metadata{"", `{"v":1}`}[w.IntN(2)]
		rt.VirtualHosts[0].Routes = append(rt.VirtualHosts[0].Routes, &r)
		p := *prefixRoute(fmt.Sprintf("/p%d", i), "c")
		p.Rewrite.Prefix = fmt.Sprintf("/q%d", w.IntN(9))
		p.Retry = &model.Retry{On: model.RetryOnStatusCodes, StatusCodes: []int{500 + w.IntN(9)}, Retries: 1}
		rt.VirtualHosts[0].Routes = append(rt.VirtualHosts[0].Routes, &p)
	}
	return rt
}
