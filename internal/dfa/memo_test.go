// SPDX-License-Identifier: Apache-2.0

package dfa

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestAMemoChangesNothing takes lists of patterns through random changes, under limits that some of them meet.
func TestAMemoChangesNothing(t *testing.T) {
	large := Default()
	large.SetBytes, large.UnanchoredBytes = 1<<17, 1<<16
	tight := Default()
	tight.SetStates, tight.SetBytes, tight.UnanchoredBytes, tight.Sets = 2000, 1<<15, 1<<14, 4
	poor := tight
	poor.Steps, poor.PatternSteps = 1<<18, 1<<14
	tests := []struct {
		name   string
		limits Limits
	}{{"large sets", large}, {"sets that are soon full", tight}, {"few steps", poor}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			m := NewMemo(tt.limits)
			var patterns []string
			refusals := 0
			for round := range 60 {
				patterns = changed(random, patterns)
				c := m.Compiler()
				sets, refused := c.Partition(patterns)
				others, othersRefused := c.Partition(patterns[len(patterns)/2:]) // with the steps that are left
				m.EndRound()
				fresh := NewMemo(tt.limits).Compiler()
				wantSets, wantRefused := fresh.Partition(patterns)
				wantOthers, wantOthersRefused := fresh.Partition(patterns[len(patterns)/2:])
				if !reflect.DeepEqual(sets, wantSets) || !reflect.DeepEqual(refused, wantRefused) ||
					!reflect.DeepEqual(others, wantOthers) || !reflect.DeepEqual(othersRefused, wantOthersRefused) {
					t.Fatalf("round %d: with a memo %d sets and %d refused, without %d and %d, or they differ",
						round, len(sets), len(refused), len(wantSets), len(wantRefused))
				}
				refusals += len(refused)
			}
			if m.singles.Size() == 0 || m.joints.Size() == 0 {
				t.Error("the memo is empty")
			}
			t.Logf("%d refused", refusals)
		})
	}
}

// changed returns a list with some patterns more, fewer or others.
func changed(random *rand.Rand, patterns []string) []string {
	formats := []string{`/svc%d/[^/]+`, `/api/v[0-9]+/service%d`, `.*word%d.*`, `/(a|b)*%d`, `/x%d(`, `(?i)/Some/%d`, `/%d[ab].{7}[ab]`}
	patterns = slices.Clone(patterns)
	for range 1 + random.IntN(8) {
		pattern := fmt.Sprintf(formats[random.IntN(len(formats))], random.IntN(1000))
		at := random.IntN(len(patterns) + 1)
		switch {
		case at == len(patterns) || random.IntN(3) > 0:
			patterns = slices.Insert(patterns, at, pattern)
		case random.IntN(2) == 0:
			patterns[at] = pattern
		default:
			patterns = slices.Delete(patterns, at, at+1)
		}
	}
	return patterns
}

// TestAChangedPatternLeavesOtherSetsAlone: what comes, goes or changes alters one set, unless it moves a border. The fewer patterns a set has, the
// more often it does.
func TestAChangedPatternLeavesOtherSetsAlone(t *testing.T) {
	limits := Default()
	limits.SetBytes = 1 << 15
	limits.Sets = 16
	patterns := familyOf(1000, `/api/v[0-9]+/service%05d/[^/]+`)
	m := NewMemo(limits)
	before, refused := m.Compiler().Partition(patterns)
	if len(before) < 4 || len(refused) > 0 {
		t.Fatalf("%d sets, %d refused, want several sets of all", len(before), len(refused))
	}
	tables := map[*uint16]bool{}
	for _, set := range before {
		tables[&set.Next[0]] = true
	}
	m.EndRound()
	moved := 0
	const places = 100
	for place := range places {
		at := (place*137 + 11) % len(patterns)
		for _, other := range [][]string{
			slices.Replace(slices.Clone(patterns), at, at+1, `/another/[a-z]+`),
			slices.Insert(slices.Clone(patterns), at, `/another/[a-z]+`),
			slices.Delete(slices.Clone(patterns), at, at+1),
		} {
			after, _ := m.Compiler().Partition(other)
			anew := 0
			for _, set := range after {
				if !tables[&set.Next[0]] {
					anew++
				}
			}
			if anew == 0 {
				t.Fatalf("a pattern changed at %d, and no set", at)
			}
			if anew > 1 {
				moved++
			}
		}
	}
	if moved > places {
		t.Errorf("%d of %d changes altered several sets", moved, 3*places)
	}
	t.Logf("%d sets; %d of %d changes altered several", len(before), moved, 3*places)
}
