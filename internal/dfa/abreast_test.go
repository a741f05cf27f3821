// SPDX-License-Identifier: Apache-2.0

package dfa

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Sets that are walked side by side, and in parts, end where each ends by itself.
func TestSetsThatAreWalkedAbreastEndWhereEachDoes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var pool []*Set
	for len(pool) < 200 {
		if set, err := Compile([]string{randomPattern(r, 3)}, small()); err == nil {
			pool = append(pool, set)
		}
	}
	live := 0
	for range 4000 {
		sets := make([]*Set, 1+r.IntN(Abreast))
		states := make([]uint16, len(sets))
		for i := range sets {
			sets[i] = pool[r.IntN(len(pool))]
			states[i] = sets[i].Start
		}
		input := strings.Repeat("a", r.IntN(3)*250) + randomInput(r, "ab")
		cut := r.IntN(len(input) + 1)
		WalkAbreast(sets, states, input[:cut])
		WalkAbreast(sets, states, input[cut:])
		for i, set := range sets {
			if want := set.Walk(set.Start, input); states[i] != want {
				t.Fatalf("set %d of %d, input %q cut at %d: state %d, want %d", i, len(sets), input, cut, states[i], want)
			} else if want != Dead {
				live++
			}
		}
	}
	if live < 1000 {
		t.Errorf("%d walks end alive: these are too few", live)
	}
}

func BenchmarkWalk(b *testing.B) {
	var sets []*Set
	for i := range Abreast {
		set, err := Compile([]string{fmt.Sprintf(".*word%d[a-z]+.*end.*", i)}, Default())
		if err != nil {
			b.Fatal(err)
		}
		sets = append(sets, set)
	}
	input := strings.Repeat("/word1/word2/end", 60_000/16)
	for n := 1; n <= Abreast; n++ {
		b.Run(fmt.Sprintf("%d sets", n), func(b *testing.B) {
			b.SetBytes(int64(n * len(input)))
			for b.Loop() {
				states := make([]uint16, n)
				for i := range states {
					states[i] = sets[i].Start
				}
				WalkAbreast(sets[:n], states, input)
			}
		})
	}
}
