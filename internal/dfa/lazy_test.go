// SPDX-License-Identifier: Apache-2.0

package dfa

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// walkLazily goes in parts, each with another Lazy of the pattern, and with few steps at a time.
func walkLazily(t *testing.T, r *rand.Rand, pattern, input string) bool {
	t.Helper()
	lazies := [2]*Lazy{}
	for i := range lazies {
		var err error
		if lazies[i], err = NewLazy(pattern); err != nil {
			t.Fatalf("pattern %q: %v", pattern, err)
		}
	}
	var at Position
	for rest := input; rest != ""; {
		at, rest, _, _ = lazies[r.IntN(2)].Walk(at, rest, 1+r.IntN(200))
	}
	return lazies[0].Accepts(at)
}

func TestLaziesMatchAsRegexpDoes(t *testing.T) {
	const patterns, inputs = 1500, 14
	r := rand.New(rand.NewPCG(1, 2))
	matched, pairs := 0, 0
	for range patterns {
		pattern := randomPattern(r, 3)
		if _, err := NewLazy(pattern); err != nil {
			requireLimit(t, pattern, err)
			continue
		}
		re := mustCompile(t, pattern)
		for range inputs {
			input := randomInput(r, pattern)
			want := fullMatch(re, input)
			if got := walkLazily(t, r, pattern, input); got != want {
				t.Fatalf("pattern %q, input %q: matches %v, regexp says %v", pattern, input, got, want)
			}
			pairs++
			if want {
				matched++
			}
		}
	}
	t.Logf("%d pairs, %d match", pairs, matched)
	if pairs < 15000 || matched < pairs/5 || matched > pairs/5*4 {
		t.Errorf("%d pairs of which %d match are too few, or too one-sided, to prove anything", pairs, matched)
	}
}

// A pattern with more states than there is memory for is walked all the same, in bounded memory, and rightly behind each loss of them; but not where
// nearly every byte needs a state of its own.
func TestALazyForgetsItsStates(t *testing.T) {
	const pattern = `.*[ab].{24}c`
	l, err := NewLazy(pattern)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	for text.Len() < 4_000_000 {
		part := make([]byte, 60)
		for i := range part {
			part[i] = "abcd"[r.IntN(4)]
		}
		text.WriteString(strings.Repeat(string(part), 30))
	}
	input := text.String()
	at, losses, states := Position{}, 0, 0
	for rest := input; rest != ""; {
		var ok bool
		if at, rest, _, ok = l.Walk(at, rest, 5000); !ok {
			t.Fatal("states do not pay")
		}
		if size := l.size(); size > lazyBytes+64<<10 {
			t.Fatalf("%d bytes, want at most %d", size, lazyBytes)
		}
		if len(l.subsets) < states {
			losses++
		}
		states = len(l.subsets)
		read := input[:len(input)-len(rest)]
		want := len(read) >= 26 && read[len(read)-1] == 'c' && strings.IndexByte("ab", read[len(read)-26]) >= 0
		if got := l.Accepts(at); got != want {
			t.Fatalf("behind %d bytes: %v, want %v", len(read), got, want)
		}
	}
	if losses < 3 {
		t.Errorf("states were forgotten %d times: too seldom to prove anything", losses)
	}

	random := make([]byte, 1_000_000)
	for i := range random {
		random[i] = "abcd"[r.IntN(4)]
	}
	at = Position{}
	for rest, ok := string(random), true; ok; {
		if at, rest, _, ok = l.Walk(at, rest, 5000); rest == "" && ok {
			t.Fatal("states are said to pay where each byte needs one")
		}
	}
	if len(l.subsets) > 2 {
		t.Errorf("%d states are kept", len(l.subsets))
	}
}

// What a walk does at a time is bounded, also where each byte needs a state.
func TestAWalkEndsAfterItsSteps(t *testing.T) {
	pattern := `.*[ab].{1000}c`
	l, err := NewLazy(pattern)
	if err != nil {
		t.Fatal(err)
	}
	input, parts := strings.Repeat("abcd", 1000), 0
	var at Position
	for rest := input; rest != ""; parts++ {
		var done int
		at, rest, done, _ = l.Walk(at, rest, 10_000)
		if done > 10_000+3*LazyInstructions {
			t.Fatalf("%d steps at a time", done)
		}
	}
	if parts < 20 {
		t.Errorf("%d parts for %d bytes with hundreds of ways each", parts, len(input))
	}
	if _, err := NewLazy(`(?:.{1000}){5}`); err == nil {
		t.Error("a pattern of 5,000 instructions is taken")
	}
}

func BenchmarkLazy(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{4, 12, 30} {
		l, err := NewLazy(fmt.Sprintf(`.*[ab].{%d}[cd].*x`, size))
		if err != nil {
			b.Fatal(err)
		}
		random := make([]byte, 60_000)
		for i := range random {
			random[i] = "abcdefgh"[r.IntN(8)]
		}
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(len(random)))
			for b.Loop() {
				var at Position
				for rest := string(random); rest != ""; {
					at, rest, _, _ = l.Walk(at, rest, 1<<15)
				}
			}
		})
	}
}
