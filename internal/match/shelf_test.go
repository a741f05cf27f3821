// SPDX-License-Identifier: Apache-2.0

package match

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/xlb-project/xlb/internal/model/matcher"
)

// Several goroutines share automata, more than there are places on the shelf, and say of long values what regexp does.
func TestAutomataOnAShelfMatchAsRegexpDoes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var all []*matcher.Regex
	for len(all) < 3*shelved {
		expression := ".*" + randomExpression(r, 3) + ".*" + randomExpression(r, 2)
		all = append(all, expressionRoute(t, expression).Path.Regex)
	}
	s := &shelf{}
	var mu sync.Mutex
	matched, walked := 0, 0
	var work sync.WaitGroup
	for worker := range 4 {
		work.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(worker)))
			for i := range 100 {
				re := all[r.IntN(len(all))]
				value := randomPath(r) + strings.Repeat("cd/", r.IntN(300)) + randomPath(r) + randomPath(r)
				if i < 2 {
					value = strings.Repeat("cd/", stretch/3) + value
				}
				want := re.Matches(value)
				at := &pace{pause: func() bool { return false }}
				accepts, ok := s.walk(re, value, at)
				if ok && accepts != want {
					t.Errorf("%q of %d bytes, %q ... %q: an automaton says %t, want %t", re, len(value), value[:min(20, len(value))], value[max(len(value)-20, 0):], accepts, want)
					return
				}
				mu.Lock()
				if want {
					matched++
				}
				if ok {
					walked++
				}
				mu.Unlock()
			}
		})
	}
	work.Wait()
	if len(s.free) > shelved {
		t.Errorf("%d automata are kept, want at most %d", len(s.free), shelved)
	}
	if t.Logf("%d of 400 matched, %d were walked", matched, walked); matched < 50 || matched > 350 || walked < 350 {
		t.Error("these are too few, or too many, to prove anything")
	}
}

// A client of an expression for which states do not pay gets what regexp says.
func TestWhereStatesDoNotPayRegexpDecides(t *testing.T) {
	re := expressionRoute(t, `.*[ab].{40}[cd].*x`).Path.Regex
	r := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, long)
	for i := range random {
		random[i] = "abcdefgh"[r.IntN(8)]
	}
	pauses := 0
	at := &pace{pause: func() bool { pauses++; return false }}
	s := &shelf{}
	if _, ok := s.walk(re, string(random), at); ok {
		t.Error("states are said to pay")
	}
	made := pauses
	for _, end := range []string{"x", "y"} {
		if got, want := s.matches(re, string(random)+end, at), end == "x"; got != want {
			t.Errorf("ends with %s: %t, want %t", end, got, want)
		}
	}
	if made < 3 || pauses < 3*made {
		t.Errorf("%d pauses of an automaton, %d in all: these are too few", made, pauses)
	}
}
