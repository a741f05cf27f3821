// SPDX-License-Identifier: Apache-2.0

package dfa

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/xlb-project/xlb/test/suite"
)

// TestAPartThatIsDoneAgainComesToTheSame divides patterns with all that they need, and again with about as much.
func TestAPartThatIsDoneAgainComesToTheSame(t *testing.T) {
	random := rand.New(rand.NewPCG(suite.Seed(t), 1))
	limits := Default()
	limits.PatternSteps, limits.PatternStates, limits.Sets = 1<<9, 64, 2
	limits.SetBytes, limits.UnanchoredBytes = 1<<10, 1<<9
	again, refused := 0, 0
	for range 400 {
		var patterns []string
		for range random.IntN(12) {
			patterns = append(patterns, fmt.Sprintf("/%d[a-f]+%s%d", random.IntN(9), []string{"", ".*", "{3,9}"}[random.IntN(3)], random.IntN(9)))
		}
		memo := NewMemo(limits)
		first := memo.Compiler()
		part := first.Begin()
		sets, errs := first.Partition(patterns)
		first.End(part)
		memo.EndRound()

		scarce := func() *work {
			w := memo.Compiler().work
			w.compiling.left = part.taken.compiling + limits.PatternSteps*random.IntN(3)/2
			w.joining.left = part.taken.joining + random.IntN(21) - 10
			w.alone.left = part.taken.alone + random.IntN(21) - 10
			return w
		}()
		whole := *scarce
		whole.memo = NewMemo(limits)
		if (&Compiler{scarce}).Again(part) {
			again++
			gotSets, gotErrs := (&Compiler{&whole}).Partition(patterns)
			if !reflect.DeepEqual(gotSets, sets) || !reflect.DeepEqual(gotErrs, errs) {
				t.Fatalf("%q: %d sets, errors %v, want %d, %v", patterns, len(gotSets), gotErrs, len(sets), errs)
			}
			if scarce.taken() != whole.taken() {
				t.Fatalf("%q: taken %+v, want %+v", patterns, scarce.taken(), whole.taken())
			}
		} else {
			refused++
		}
	}
	if again < 50 || refused < 50 {
		t.Errorf("%d parts were done again, %d not; want more of both", again, refused)
	}
}
