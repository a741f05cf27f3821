// SPDX-License-Identifier: Apache-2.0

package dfa

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/re2"
)

// TestMatchesAsRegexpDoes compares random patterns with the standard library, on
// inputs that match or nearly do.
func TestMatchesAsRegexpDoes(t *testing.T) {
	const patterns, inputs = 2400, 14
	r := rand.New(rand.NewPCG(1, 2))
	matched, pairs := 0, 0
	for range patterns {
		pattern := randomPattern(r, 3)
		set, err := Compile([]string{pattern}, small())
		if err != nil {
			requireLimit(t, pattern, err)
			continue
		}
		requireSound(t, set)
		re := mustCompile(t, pattern)
		for range inputs {
			input := randomInput(r, pattern)
			want := fullMatch(re, input)
			if got := len(set.Match([]byte(input))) == 1; got != want {
				t.Fatalf("pattern %q, input %q: matches %v, regexp says %v", pattern, input, got, want)
			}
			pairs++
			if want {
				matched++
			}
		}
	}
	t.Logf("%d pairs, %d match", pairs, matched)
	if pairs < 20000 || matched < pairs/5 || matched > pairs/5*4 {
		t.Errorf("%d pairs of which %d match are too few, or too one-sided, to prove anything", pairs, matched)
	}
}

// small returns limits that most random patterns keep, and that end the others soon.
func small() Limits {
	limits := Default()
	limits.PatternStates, limits.PatternSteps, limits.SetStates = 500, 1<<18, 4000
	return limits
}

// fullMatch says whether re matches the whole input, byte by byte. A match of the whole is the
// leftmost and the longest; so the pattern need not be wrapped.
func fullMatch(re *regexp.Regexp, input string) bool {
	re.Longest()
	text := re2.Text(input)
	at := re.FindStringIndex(text)
	return at != nil && at[0] == 0 && at[1] == len(text)
}

func mustCompile(t *testing.T, pattern string) *regexp.Regexp {
	t.Helper()
	re, err := re2.Compile(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return re
}

// requireLimit fails the test unless err is a limit of the pattern.
func requireLimit(t *testing.T, pattern string, err error) {
	t.Helper()
	var limit *LimitError
	if !errors.As(err, &limit) {
		t.Fatalf("pattern %q: %v", pattern, err)
	}
}

// requireSound fails the test unless the tables hold what a kernel relies on, and are minimal.
func requireSound(t *testing.T, s *Set) {
	t.Helper()
	if len(s.Next) != s.States()*s.ClassCount || int(s.Start) >= s.States() || len(s.Lists[0]) != 0 {
		t.Fatalf("%d states, %d classes, %d entries, start %d", s.States(), s.ClassCount, len(s.Next), s.Start)
	}
	for _, next := range s.Next {
		if int(next) >= s.States() {
			t.Fatalf("an entry leads to state %d of %d", next, s.States())
		}
	}
	for _, class := range s.Classes {
		if int(class) >= s.ClassCount {
			t.Fatalf("a byte has class %d of %d", class, s.ClassCount)
		}
	}
	for _, next := range s.row(Dead) {
		if next != Dead || s.Accept[Dead] != 0 {
			t.Fatal("the dead state lives")
		}
	}
	requireMinimal(t, s)
}

// requireMinimal divides the states by what can tell them apart until that ends (Moore's algorithm, which shares nothing with
// the construction), and fails the test if two are alike.
func requireMinimal(t *testing.T, s *Set) {
	t.Helper()
	block := make([]int, s.States())
	for state, list := range s.Accept {
		block[state] = int(list)
	}
	for count := 0; ; {
		numbers := map[string]int{}
		refined := make([]int, len(block))
		for state := range block {
			key := binary.NativeEndian.AppendUint32(nil, uint32(block[state]))
			for _, next := range s.row(uint16(state)) {
				key = binary.NativeEndian.AppendUint32(key, uint32(block[next]))
			}
			if _, known := numbers[string(key)]; !known {
				numbers[string(key)] = len(numbers)
			}
			refined[state] = numbers[string(key)]
		}
		block = refined
		if len(numbers) == count {
			break
		}
		count = len(numbers)
	}
	if distinct := slices.Max(block) + 1; distinct != s.States() {
		t.Fatalf("%d states, of which %d can be told apart", s.States(), distinct)
	}
}

func TestSetMatchesAsEachPatternAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	matched := 0
	for range 120 {
		patterns := make([]string, 2+r.IntN(6))
		for i := range patterns {
			patterns[i] = randomPattern(r, 2)
		}
		sets, refused := Partition(patterns, small())
		for _, e := range refused {
			requireLimit(t, e.Pattern, e)
		}
		for _, set := range sets {
			requireSound(t, set)
		}
		alone := compileEach(t, patterns, refused)
		for range 30 {
			input := []byte(randomInput(r, patterns[r.IntN(len(patterns))]))
			var want []uint32
			for i, set := range alone {
				if len(set.Match(input)) > 0 {
					want = append(want, uint32(i))
				}
			}
			if got := matchesOf(sets, input); !slices.Equal(got, want) {
				t.Fatalf("patterns %q, input %q: the sets match %d, the patterns alone %d", patterns, input, got, want)
			}
			matched += len(want)
		}
	}
	if matched < 1000 {
		t.Errorf("only %d matches", matched)
	}
}

// compileEach returns a set for each pattern, and one that matches nothing for those refused.
func compileEach(t *testing.T, patterns []string, refused []*PatternError) []*Set {
	t.Helper()
	sets := make([]*Set, len(patterns))
	for _, e := range refused {
		sets[e.Index] = nothing()
	}
	for i, pattern := range patterns {
		if sets[i] != nil {
			continue
		}
		var err error
		if sets[i], err = Compile([]string{pattern}, small()); err != nil {
			t.Fatal(err)
		}
	}
	return sets
}

// matchesOf returns what any of the sets matches, ascending.
func matchesOf(sets []*Set, input []byte) []uint32 {
	var list []uint32
	for _, set := range sets {
		list = append(list, set.Match(input)...)
	}
	slices.Sort(list)
	return list
}

// FuzzMatch compares any pattern and any input with the standard library.
func FuzzMatch(f *testing.F) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		pattern := randomPattern(r, 3)
		f.Add(pattern, randomInput(r, pattern))
	}
	f.Fuzz(func(t *testing.T, pattern, input string) {
		set, err := Compile([]string{pattern}, small())
		if err != nil {
			return
		}
		requireSound(t, set)
		re, err := re2.Compile(pattern)
		if err != nil {
			return // regexp has limits of its own
		}
		if got, want := len(set.Match([]byte(input))) == 1, fullMatch(re, input); got != want {
			t.Errorf("pattern %q, input %q: matches %v, regexp says %v", pattern, input, got, want)
		}
	})
}

// atoms are what random patterns are made of: few different characters, so that
// parts of a pattern compete for the same input.
var atoms = strings.Fields(`a b c - _ 0 é € 😀 k s . . . ^ $ \A \z \b \B \n \w \W \d \D \s \S \pL \PN \p{Greek} \P{Greek} \x{E9}
	[a-c] [^a] [^/] [a-é] [^é€] [[:alpha:]] [^[:space:]] [\w-] [\d_] [^\n] [\x{80}-\x{A9}] [\xC3-\x{FD}] (?i:[~-\xF0]) (?i:\p{Lu}) (?i:[^\pN]) (?i:k) (?i:s) (?i:[a-k])
	(?i:é) (?i:\xFF) (?i:[^\xC3]) (?s:.) (?m:^) (?m:$) ab abc foo /api/ \Qa.b\E (?:) (?-s:.) ` + "\xE9 \xFF [\xC0-\xF0]")

var repeats = []string{"*", "+", "?", "*?", "{2}", "{0,3}", "{1,}", "{3,5}", "{0}"}

// randomPattern returns a valid pattern, nested at most depth times.
func randomPattern(r *rand.Rand, depth int) string {
	var out strings.Builder
	for range 1 + r.IntN(4) {
		piece := atoms[r.IntN(len(atoms))]
		if depth > 0 && r.IntN(3) == 0 {
			piece = group(r, depth-1)
		}
		out.WriteString(piece)
		if r.IntN(3) == 0 && isRepeatable(piece) {
			out.WriteString(repeats[r.IntN(len(repeats))])
		}
	}
	return out.String()
}

func group(r *rand.Rand, depth int) string {
	inner := make([]string, 1+r.IntN(3))
	for i := range inner {
		inner[i] = randomPattern(r, depth)
	}
	return []string{"(", "(?:", "(?i:", "(?s:", "(?m:", "(?P<x>"}[r.IntN(5)] + strings.Join(inner, "|") + ")"
}

// isRepeatable says whether an operator may follow the piece.
func isRepeatable(piece string) bool {
	_, err := re2.Parse(piece + "*")
	return err == nil
}

// randomInput returns an input that the pattern matches but for its assertions, often with a fault.
func randomInput(r *rand.Rand, pattern string) string {
	re, err := re2.Parse(pattern)
	if err != nil {
		return pattern
	}
	var out []byte
	out = sample(r, re.Simplify(), out)
	for range r.IntN(3) {
		out = mutate(r, out)
	}
	return string(out)
}

var mutations = []byte("abk-_0 \nKé€\x00\x80\xC9\xE3\xFF/x")

func mutate(r *rand.Rand, text []byte) []byte {
	at := r.IntN(len(text) + 1)
	c := mutations[r.IntN(len(mutations))]
	switch {
	case r.IntN(3) == 0:
		return slices.Insert(text, at, c)
	case at == len(text):
		return text
	case r.IntN(2) == 0:
		return slices.Delete(text, at, at+1)
	default:
		text[at] = c
		return text
	}
}

// sample appends a text that re matches, assertions aside.
func sample(r *rand.Rand, re *syntax.Regexp, out []byte) []byte {
	switch re.Op {
	case syntax.OpLiteral:
		for _, c := range re.Rune {
			out = sampleOf(r, spelt(c, re.Flags&syntax.FoldCase != 0), out)
		}
	case syntax.OpCharClass:
		out = sampleOf(r, re.Rune, out)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		out = append(out, "ab \n\x80\xFF"[r.IntN(6)])
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			out = sample(r, sub, out)
		}
	case syntax.OpAlternate:
		out = sample(r, re.Sub[r.IntN(len(re.Sub))], out)
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		low, high := countsOf(re.Op)
		for range low + r.IntN(high-low+1) {
			out = sample(r, re.Sub[0], out)
		}
	}
	return out
}

// sampleOf appends a byte of those that pairs of characters leave.
func sampleOf(r *rand.Rand, pairs []rune, out []byte) []byte {
	spans := clip(pairs)
	if len(spans) == 0 {
		return out
	}
	span := spans[r.IntN(len(spans))]
	return append(out, span.Lo+byte(r.IntN(int(span.Hi-span.Lo)+1)))
}

// countsOf returns how often sample repeats what an operator applies to.
func countsOf(op syntax.Op) (low, high int) {
	switch op {
	case syntax.OpQuest:
		return 0, 1
	case syntax.OpPlus:
		return 1, 3
	default:
		return 0, 3
	}
}
