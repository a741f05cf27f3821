// SPDX-License-Identifier: Apache-2.0

package sift

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/re2"
)

func TestWordsThatExpressionsNeed(t *testing.T) {
	for _, tt := range []struct {
		expression string
		want       []clause
	}{
		{`.*word.*`, []clause{{"word"}}},
		{`.*(?i)WORD.*`, []clause{{"word"}}},
		{`.*word-[0-9]+/end.*`, []clause{{"word-"}, {"/end"}}},
		{`/(red|green)/x`, []clause{{"/green/x", "/red/x"}}},
		{`.*(red|green).*`, []clause{{"green", "red"}}},
		{`.*(red.*|.*green).*`, []clause{{"red", "green"}}},
		{`.*ab[12]c.*`, []clause{{"ab1c", "ab2c"}}},
		{`.*ab?cd.*`, []clause{{"abcd", "acd"}}},
		{`.*(ab)+.*`, []clause{{"ab"}}},
		{`.*(ab){2,}.*`, []clause{{"ab"}}},
		{`.*\bab$`, []clause{{"ab"}}},
		{`.*\xe9\xfe.*`, []clause{{"\xe9\xfe"}}},
		{`.*` + strings.Repeat("x", 100) + `.*`, []clause{{strings.Repeat("x", maxLength)}}},
		{`.*`, nil},
		{`.*a.*`, nil},
		{`(ab)*`, nil},
		{`(ab|.)`, nil},
		{`ab|`, nil},
		{`[a-z]{3}`, nil},
		{`(ab){0,3}`, nil},
		{`(`, nil},
	} {
		got := words(tt.expression)
		for _, c := range got {
			slices.Sort(c)
		}
		for _, c := range tt.want {
			slices.Sort(c)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" && len(tt.want)+len(got) > 0 {
			t.Errorf("%q (-want +got):\n%s", tt.expression, diff)
		}
	}
}

// random draws an expression over few letters, so that values often match.
func random(r *rand.Rand, depth int) string {
	if depth == 0 {
		return []string{"a", "b", "ab", "ba", "abc", "[ab]", "[^a]", ".", "B", `\xe9`, "(?i:ab)", "(?i:é)", `\b`, "^", "$", "", "[a-c]", `\d`, "aab"}[r.IntN(19)]
	}
	part := func() string { return random(r, depth-1) }
	switch r.IntN(9) {
	case 0, 1, 2, 3:
		return part() + part()
	case 4:
		return "(" + part() + "|" + part() + ")"
	case 5:
		return "(?:" + part() + ")*"
	case 6:
		return "(?:" + part() + ")+"
	case 7:
		return "(?:" + part() + ")?"
	default:
		return "(?:" + part() + "){1,2}"
	}
}

// What an expression matches passes its sieve, whatever the expressions beside it.
func TestNothingThatMatchesIsLeftOut(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	matched, leftOut := 0, 0
	for range 300 {
		var expressions []string
		for range 1 + r.IntN(20) {
			expressions = append(expressions, random(r, 4))
		}
		s := New(expressions)
		for range 40 {
			value := make([]byte, r.IntN(10))
			for i := range value {
				value[i] = "aabbbcABC1\xe9\xc9"[r.IntN(12)]
			}
			passed := passedOf(s, string(value))
			if !slices.IsSorted(passed) || len(slices.Compact(slices.Clone(passed))) != len(passed) {
				t.Fatalf("%q: %v is not ascending", value, passed)
			}
			leftOut += len(expressions) - len(passed)
			for i, expression := range expressions {
				re, err := re2.CompileWhole(expression)
				if err != nil {
					t.Fatal(err)
				}
				if !re.MatchString(re2.Text(string(value))) {
					continue
				}
				matched++
				if !slices.Contains(passed, uint32(i)) {
					t.Fatalf("%q matches %q and is left out, beside %q", expression, value, expressions)
				}
			}
		}
	}
	if t.Logf("%d matched, %d were left out", matched, leftOut); matched < 5000 || leftOut < 5000 {
		t.Error("these are too few")
	}
}

// A sieve of one expression leaves out whatever lacks a word, however the words of others overlap.
func TestWhatLacksAWordIsLeftOut(t *testing.T) {
	s := New([]string{`.*abcd.*`, `.*bc.*`, `.*c.*bcde.*`, `.*(bcx|cd).*`, `.*[0-9].*`, `.*bc.*yz.*`})
	for value, want := range map[string][]uint32{
		"":          {4},
		"abc":       {1, 4},
		"ABCD":      {0, 1, 3, 4},
		"xbcde":     {1, 2, 3, 4},
		"aabcabcx":  {1, 3, 4},
		"cd cd":     {3, 4},
		"yz-bc":     {1, 4, 5},
		"\xff\x00b": {4},
	} {
		if diff := cmp.Diff(want, passedOf(s, value)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", value, diff)
		}
	}
}

// Words for which the automaton has no room are not looked for: their expressions pass.
func TestAnAutomatonIsBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var expressions []string
	for range 20_000 {
		word := make([]byte, 60)
		for i := range word {
			word[i] = byte('a' + r.IntN(26))
		}
		expressions = append(expressions, fmt.Sprintf(".*%s.*", word))
	}
	s := New(expressions)
	if size := 4 * len(s.next); size > maxBytes {
		t.Errorf("%d bytes, want at most %d", size, maxBytes)
	}
	passed := passedOf(s, strings.Trim(expressions[0], ".*"))
	if len(s.open) == 0 || len(s.open) == len(expressions) || len(passed) != len(s.open)+1 || passed[0] != 0 {
		t.Errorf("of %d expressions %d are open, and %d pass", len(expressions), len(s.open), len(passed))
	}
}

func BenchmarkPass(b *testing.B) {
	var expressions []string
	for i := range 10_000 {
		expressions = append(expressions, fmt.Sprintf(".*word%dx.*", i))
	}
	s := New(expressions)
	for name, value := range map[string]string{"no word": strings.Repeat("/item1234/abcdef", 60_000/16), "words": strings.Repeat("/word1234x/abcde", 60_000/16)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(value)))
			for b.Loop() {
				passedOf(s, value)
			}
		})
	}
}

// passedOf is Pass without a client that may go.
func passedOf(s *Sieve, value string) []uint32 {
	passed, _ := s.Pass(value, func(int) bool { return true })
	return passed
}

// held is how many bytes a sieve holds that grow with its words.
func (s *Sieve) held() int {
	n := 4*cap(s.next) + 4*cap(s.owners) + cap(s.ends)*int(unsafe.Sizeof(end{}))
	for _, e := range s.ends {
		n += 4 * cap(e.clauses)
	}
	return n
}

// Words of few letters have short rows: all else that belongs to a state counts, too.
func TestASieveIsBounded(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, tt := range []struct {
		name   string
		letter string
		length int
	}{{"two letters", "ab", 64}, {"many letters", "abcdefghijklmnopqrstuvwxyz", 20}} {
		expressions := make([]string, 10_000)
		for i := range expressions {
			word := make([]byte, tt.length)
			for j := range word {
				word[j] = tt.letter[random.IntN(len(tt.letter))]
			}
			expressions[i] = ".*" + string(word) + ".*"
		}
		s := New(expressions)
		if n := s.held(); n > maxBytes || n < maxBytes/2 {
			t.Errorf("%s: %d bytes are held, of at most %d", tt.name, n, maxBytes)
		}
		if len(s.open) == 0 || len(s.owners) == 0 {
			t.Errorf("%s: %d expressions are not looked for, %d clauses are", tt.name, len(s.open), len(s.owners))
		}
	}
}

func TestASievePassesInStretches(t *testing.T) {
	s := New([]string{`.*word.*`, `.*other.*`})
	value := strings.Repeat("x", 3*stretch) + "word"
	counted, pauses := 0, 0
	passed, ok := s.Pass(value, func(steps int) bool { counted += steps; pauses++; return true })
	if !ok || !slices.Equal(passed, []uint32{0}) || counted < len(value) || pauses < 3 {
		t.Errorf("passed %v, %v after %d steps in %d stretches", passed, ok, counted, pauses)
	}
	pauses = 0
	if passed, ok = s.Pass(value, func(int) bool { pauses++; return false }); ok || pauses != 1 {
		t.Errorf("passed %v, %v after %d stretches for a client that has gone in the first", passed, ok, pauses)
	}
}
