// SPDX-License-Identifier: Apache-2.0

package dfa

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// hang is how long no pattern takes, however slow and busy the machine is. Work is bounded by counters; this finds what
// they do not count.
const hang = time.Minute

func TestHostilePatterns(t *testing.T) {
	union := func(count int, of func(i int) string) string {
		parts := make([]string, count)
		for i := range parts {
			parts[i] = of(i)
		}
		return strings.Join(parts, "|")
	}
	const fits = Limit(-1)
	tests := []struct {
		name    string
		pattern string
		want    Limit
	}{
		{"exponential choice", `(a|b)*a(a|b){20}`, RawStates},
		{"exponential in the middle", `.*[a-q][^u-z]{13}x`, RawStates},
		{"the same from the beginning", `[a-q][^u-z]{13}x`, fits},
		{"exponential, just too large", `(a|b)*a(a|b){12}`, PatternStates},
		{"nested plus", `(x+x+)+y`, fits},
		{"nested stars", `((((a*)*)*)*)*b`, fits},
		{"many dots", `.*.*.*.*=.*`, fits},
		{"nested counts", `((a{0,10}){0,10}){0,10}`, PatternSteps},
		{"a thousand optional", `a{0,1000}`, fits},
		{"optional behind each other", strings.Repeat("a?", 500) + strings.Repeat("a", 500), fits},
		{"letters", `\pL+`, fits},
		{"many letters", `\pL{1000}`, fits},
		{"letters of any case", `(?i)(\pL\PN){40}`, fits},
		{"large union", union(400, func(i int) string { return fmt.Sprintf("/p%d/x", i) }), fits},
		{"large unanchored union", union(300, func(i int) string { return fmt.Sprintf(".*w%d.*", i) }), PatternSteps},
		{"union of what ends anywhere", union(40, func(i int) string { return fmt.Sprintf(".*%d.{%d}", i, i) }), PatternSteps},
		{"deep nesting", strings.Repeat("(", 900) + "a" + strings.Repeat(")*", 900), fits},
		{"deep nesting of choices", strings.Repeat("(a|b", 200) + strings.Repeat(")?", 200), fits},
		{"empty repetitions", `((\b){30}(^){30}){30}`, fits},
		{"long", strings.Repeat("a", 4097), PatternLength},
		{"as long as allowed", strings.Repeat("a", 4094) + "*", fits},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			begin := time.Now()
			w := newWork(NewMemo(Default()))
			leaf, refused := w.compile(0, tt.pattern)
			used := w.limits.Steps/2 - w.compiling.left
			t.Logf("%d steps, %v", used, time.Since(begin).Round(time.Millisecond))
			if slack := len(tt.pattern) + maxInstructions; used > w.limits.PatternSteps+slack {
				t.Errorf("took %d steps of %d", used, w.limits.PatternSteps)
			}
			if time.Since(begin) > hang {
				t.Errorf("took %v", time.Since(begin))
			}
			if refused == nil {
				t.Logf("%d states, %d classes", leaf.set.States(), leaf.set.ClassCount)
			}
			if got := limitOf(refused); got != tt.want {
				t.Errorf("limit %d (%v), want %d", got, refused, tt.want)
			}
		})
	}
}

// limitOf returns the limit that a pattern is beyond, -1 for none.
func limitOf(refused *PatternError) Limit {
	var limit *LimitError
	if refused == nil || !errors.As(refused, &limit) {
		return -1
	}
	return limit.Limit
}

func TestLimitsNameThePatternAndTheFigure(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Limits)
		want   string
	}{
		{"length", func(l *Limits) { l.PatternLength = 3 }, `regular expression "a[bc]{9}d": is longer than 3 bytes`},
		{"states", func(l *Limits) { l.PatternStates = 11 }, `"a[bc]{9}d": needs more than 11 states;`},
		{"raw states", func(l *Limits) { l.PatternStates = 2 }, `"a[bc]{9}d": needs more than 8 states before minimisation`},
		{"steps", func(l *Limits) { l.PatternSteps = 20 }, `"a[bc]{9}d": needs more than 20 steps to compile`},
		{"bytes", func(l *Limits) { l.SetBytes = 300 }, `"a[bc]{9}d": needs more than 300 bytes of tables`},
		{"all steps", func(l *Limits) { l.Steps = 20 }, `"a[bc]{9}d": was not compiled: all patterns together need more than 20 steps`},
		{"sets", func(l *Limits) { l.Sets = 0 }, `"a[bc]{9}d": found no room in 0 sets`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			limits := Default()
			tt.change(&limits)
			sets, refused := Partition([]string{`a[bc]{9}d`}, limits)
			if len(sets) != 0 || len(refused) != 1 || !strings.Contains(refused[0].Error(), tt.want) {
				t.Errorf("%d sets, refused %v, want %s", len(sets), refused, tt.want)
			}
		})
	}
}

func TestLimitsOfASet(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Limits)
		want   string
	}{
		{"states", func(l *Limits) { l.SetStates = 20 }, "needs more than 20 states in one set"},
		{"bytes", func(l *Limits) { l.SetBytes = 500 }, "needs more than 500 bytes of tables in one set"},
		{"steps", func(l *Limits) { l.Steps = 520 }, "all patterns together need more than 520 steps"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			limits := Default()
			tt.change(&limits)
			set, err := Compile([]string{`a[bc]{9}d`, `[ab]{12}`, `b*cdefghi`}, limits)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("set %v, error %v, want %s", set, err, tt.want)
			}
		})
	}
}

// Where no steps are left patterns are not even read: 10,000 of 4 kB take half a minute.
func TestNothingIsReadWithoutSteps(t *testing.T) {
	limits := Default()
	limits.Steps = 0
	_, refused := Partition([]string{"a("}, limits)
	if len(refused) != 1 || limitOf(refused[0]) != Steps {
		t.Errorf("got %v", refused)
	}
}
