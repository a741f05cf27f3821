// SPDX-License-Identifier: Apache-2.0

package model

import (
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/golden"
)

func TestEachIdleSlotHasOnePlace(t *testing.T) {
	t.Parallel()
	got, err := explore(stack{tagged: true, takers: stackTakers, turns: 3}, mostStates)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d states, %d steps between them", got.states, got.steps)
	if got.wrong != "" {
		t.Errorf("%s, behind these steps:\n%s", got.wrong, strings.Join(got.trace, "\n"))
	}
}

// A slot that left and came back between the look at the head and the exchange is what the tag is
// for.
func TestStackWithoutATagIsFoundWrong(t *testing.T) {
	got, err := explore(stack{takers: 2, turns: 4}, mostStates)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/no-tag.txt", strings.Join(append(got.trace, got.wrong), "\n")+"\n")
	if !strings.Contains(got.wrong, "slot") {
		t.Errorf("nothing is wrong in %d states", got.states)
	}
}
