// SPDX-License-Identifier: Apache-2.0

package await

import (
	"runtime"
	"testing"
	"time"
)

// fatal notes that a test has ended, in place of ending this one.
type fatal struct {
	testing.TB
	ended bool
}

func (f *fatal) Fatalf(string, ...any) {
	f.ended = true
	runtime.Goexit()
}

// ends reports whether what is done ends its test.
func ends(t *testing.T, do func(testing.TB)) bool {
	t.Helper()
	f, done := &fatal{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		do(f)
	}()
	<-done
	return f.ended
}

func TestPollsUntilThereIsNoComplaint(t *testing.T) {
	asked := 0
	Quiet(t, func() string {
		if asked++; asked < 3 {
			return "not yet"
		}
		return ""
	})
	if asked != 3 {
		t.Errorf("asked %d times, want 3", asked)
	}
}

func TestEndsATestWhoseComplaintStays(t *testing.T) {
	if !ends(t, func(t testing.TB) { Within(t, 3*time.Millisecond, func() string { return "never" }) }) {
		t.Error("the test goes on")
	}
}

func TestNextReceives(t *testing.T) {
	c := make(chan int, 1)
	c <- 7
	if got := Next(t, c, "a number"); got != 7 {
		t.Errorf("got %d, want 7", got)
	}
	close(c)
	if got := Next(t, c, "the end"); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
}
