// SPDX-License-Identifier: Apache-2.0

package shutdown

import "testing"

// The end does not wait for work that goes on for good, and begins none.
func TestWorkIsLeftAtTheEnd(t *testing.T) {
	ending, began, goOn := make(chan struct{}), make(chan struct{}), make(chan struct{})
	defer close(goOn)
	if n, ok := Unless(ending, func() int { return 7 }); n != 7 || !ok {
		t.Errorf("got %d, %t, want what work returns", n, ok)
	}
	go func() {
		<-began
		close(ending)
	}()
	if _, ok := Unless(ending, func() int { close(began); <-goOn; return 7 }); ok {
		t.Error("work that was not done has a result")
	}
	if _, ok := Unless(ending, func() int { t.Error("work was begun behind the end"); return 7 }); ok {
		t.Error("work behind the end has a result")
	}
}
