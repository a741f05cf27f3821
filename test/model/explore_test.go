// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"slices"
	"testing"
)

// Beyond so many states a search has become too large for the unit tests.
const mostStates = 3_000_000

// grid is a walk from one corner of a square, one place to the right or down at a time.
type grid struct{ side, bad uint8 }

type place struct{ x, y uint8 }

func (grid) initial() place { return place{} }

func (g grid) next(s *place, emit func(step, *place)) {
	if s.x+1 < g.side {
		emit(step{what: "right"}, &place{s.x + 1, s.y})
	}
	if s.y+1 < g.side {
		emit(step{what: "down"}, &place{s.x, s.y + 1})
	}
}

func (g grid) wrong(s *place, last bool) string {
	if g.bad != 0 && s.x == g.bad && s.y == 1 {
		return "there"
	}
	if last && (s.x+1 != g.side || s.y+1 != g.side) {
		return "the end is elsewhere"
	}
	return ""
}

func (grid) tell(st step, before, after *place) string {
	return fmt.Sprintf("%s from %d,%d to %d,%d", st.what, before.x, before.y, after.x, after.y)
}

func TestEveryStateIsVisitedOnce(t *testing.T) {
	const side = 250
	got, err := explore(grid{side: side}, side*side)
	if err != nil {
		t.Fatal(err)
	}
	want := result{states: side * side, steps: 2 * side * (side - 1), depth: 2*side - 1}
	if got.wrong != "" || got.states != want.states || got.steps != want.steps || got.depth != want.depth {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTraceIsAShortestWay(t *testing.T) {
	got, err := explore(grid{side: 9, bad: 2}, 100)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"right from 0,0 to 1,0", "right from 1,0 to 2,0", "down from 2,0 to 2,1"}
	if got.wrong != "there" || !slices.Equal(got.trace, want) {
		t.Errorf("got %q behind %q, want %q", got.wrong, got.trace, want)
	}
}

func TestTooManyStatesAreAnError(t *testing.T) {
	if _, err := explore(grid{side: 100}, 1000); err == nil {
		t.Error("no error from a search of ten times as many states as are allowed")
	}
}
