// SPDX-License-Identifier: Apache-2.0

package dfa

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
)

func familyOf(count int, format string) []string {
	patterns := make([]string, count)
	for i := range patterns {
		patterns[i] = fmt.Sprintf(format, i)
	}
	return patterns
}

func TestPartition(t *testing.T) {
	tests := []struct {
		name     string
		patterns []string
		change   func(*Limits)
		sets     int
		refused  int
	}{
		{"no pattern", nil, nil, 0, 0},
		{"one", []string{`a`}, nil, 1, 0},
		{"that never match", []string{`a\bb`, `b\ba`}, nil, 1, 0},
		{"thousand that begin differently", familyOf(1000, `/api/v[0-9]+/svc%d/[^/]+`), nil, 1, 0},
		{"those that roam", familyOf(30, `.*foo%d.*`), func(l *Limits) { l.SetStates = 4096 }, 4, 0},
		{"those that roam between others", mixed(20), func(l *Limits) { l.SetStates = 4096 }, 3, 0},
		{"too few sets", familyOf(30, `.*foo%d.*`), func(l *Limits) { l.SetStates, l.Sets = 4096, 2 }, 2, 11},
		{"too few steps", familyOf(300, `/a%d/[^/]+`), func(l *Limits) { l.Steps = 200000 }, 0, 300},
		{"malformed between others", []string{`a`, `(`, `b`, `[`}, nil, 1, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			limits := Default()
			if tt.change != nil {
				tt.change(&limits)
			}
			sets, refused := Partition(tt.patterns, limits)
			if len(sets) != tt.sets || len(refused) != tt.refused {
				t.Errorf("%d sets, %d refused, want %d and %d", len(sets), len(refused), tt.sets, tt.refused)
			}
			requireAllOnce(t, len(tt.patterns), sets, refused)
			for _, set := range sets {
				if set.States() > limits.SetStates || set.Bytes() > limits.SetBytes {
					t.Errorf("a set has %d states and %d bytes", set.States(), set.Bytes())
				}
				requireSound(t, set)
			}
			again, _ := Partition(tt.patterns, limits)
			if !reflect.DeepEqual(sets, again) {
				t.Error("another run gives other tables")
			}
		})
	}
}

// mixed returns patterns that add up and patterns that multiply, in turns.
func mixed(count int) []string {
	var patterns []string
	for i := range count {
		patterns = append(patterns, fmt.Sprintf(`/svc%d/[^/]+`, i), fmt.Sprintf(`.*foo%d.*`, i))
	}
	return patterns
}

// requireAllOnce fails the test unless each pattern is in one set, or refused.
func requireAllOnce(t *testing.T, count int, sets []*Set, refused []*PatternError) {
	t.Helper()
	seen := make([]int, count)
	for _, set := range sets {
		if !slices.IsSorted(set.Patterns) {
			t.Errorf("patterns %d are not ascending", set.Patterns)
		}
		for _, pattern := range set.Patterns {
			seen[pattern]++
		}
	}
	for _, e := range refused {
		seen[e.Index]++
	}
	for pattern, times := range seen {
		if times != 1 {
			t.Errorf("pattern %d is %d times in sets or refused", pattern, times)
		}
	}
}

func TestHostilePatternsTakeNothingFromOthers(t *testing.T) {
	patterns := familyOf(100, `.*[ab].{%d}[ab].{9}x`)
	patterns = append(patterns, familyOf(100, `/svc%d/.*`)...)
	limits := Default()
	limits.Steps, limits.PatternSteps = 8<<20, 1<<15
	sets, refused := Partition(patterns, limits)
	requireAllOnce(t, len(patterns), sets, refused)
	for _, e := range refused {
		if e.Index >= 100 {
			t.Errorf("%v", e)
		}
	}
	if len(refused) < 90 {
		t.Errorf("%d refused: the hostile ones are not hostile", len(refused))
	}
}

// TestTablesDependOnTheLanguageAlone: equal languages have equal tables, in whatever
// order the sets were joined.
func TestTablesDependOnTheLanguageAlone(t *testing.T) {
	same := [][]string{
		{`(a|b)*c`, `x{2,4}`, `[^/]+`},
		{`([ba]*)*c`, `xx|xxx|xxxx`, `(?s)[^/].*?|x[^/]`},
	}
	same[1][2] = `[^/][^/]*`
	first, err := Compile(same[0], Default())
	if err != nil {
		t.Fatal(err)
	}
	second, err := Compile(same[1], Default())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(first, second) {
		t.Errorf("tables differ:\n%+v\n%+v", first, second)
	}

	w := newWork(NewMemo(Default()))
	var leaves []leaf
	var sets []*Set
	for i, pattern := range slices.Backward(same[0]) {
		leaf, refused := w.compile(i, pattern)
		if refused != nil {
			t.Fatal(refused)
		}
		leaves, sets = append(leaves, leaf), append(sets, leaf.set)
	}
	reversed, err := w.merge(sets)
	if err != nil {
		t.Fatal(err)
	}
	reversed = reversed.renumbered(leaves)
	if !reflect.DeepEqual(first, reversed) {
		t.Errorf("tables differ by the order of joining:\n%+v\n%+v", first, reversed)
	}
}

// TestTables shows what a kernel reads, for a set small enough to check by hand.
func TestTables(t *testing.T) {
	set, err := Compile([]string{`ab*`, `a`, `b\bb`}, Default())
	if err != nil {
		t.Fatal(err)
	}
	want := &Set{
		Patterns:   []uint32{0, 1, 2},
		ClassCount: 3, // neither, a, b
		Start:      1,
		Next: []uint16{
			0, 0, 0,
			0, 2, 0,
			0, 0, 3,
			0, 0, 3,
		},
		Accept: []uint16{0, 0, 1, 2},
		Lists:  [][]uint32{nil, {0, 1}, {0}},
	}
	want.Classes['a'], want.Classes['b'] = 1, 2
	if !reflect.DeepEqual(set, want) {
		t.Errorf("tables %+v, want %+v", set, want)
	}
}

func TestIsUnanchored(t *testing.T) {
	tests := []struct {
		pattern string
		want    bool
	}{
		{`.*foo.*`, true},
		{`/api/.*\.js`, true},
		{`[^/]*-v[0-9]`, true},
		{`/api/v[0-9]+/svc/[^/]+`, false},
		{`/svc/.*`, false},
		{`/a/[^/]+/b/[^/]+`, false},
		{`(?i)/static/[a-z]+\.css`, false},
		{`.*`, false},
	}
	for _, tt := range tests {
		set, err := Compile([]string{tt.pattern}, Default())
		if err != nil {
			t.Fatal(err)
		}
		if got := set.isUnanchored(); got != tt.want {
			t.Errorf("%q: unanchored %v, want %v", tt.pattern, got, tt.want)
		}
	}
}
