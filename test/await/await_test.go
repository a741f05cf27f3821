// SPDX-License-Identifier: Apache-2.0

package await

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

// watched notes what a test reports, in place of this one.
type watched struct {
	testing.TB
	ended, failed bool
	logged        []string
}

func (w *watched) Fatalf(string, ...any) {
	w.ended, w.failed = true, true
	runtime.Goexit()
}

func (w *watched) Errorf(string, ...any) { w.failed = true }

func (w *watched) Logf(format string, args ...any) {
	w.logged = append(w.logged, fmt.Sprintf(format, args...))
}

func (w *watched) Failed() bool { return w.failed }

// watch does something to a test of its own.
func watch(t *testing.T, do func(testing.TB)) *watched {
	t.Helper()
	w, done := &watched{TB: t}, make(chan struct{})
	go func() {
		defer close(done)
		do(w)
	}()
	<-done
	return w
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
	if !watch(t, func(t testing.TB) { Within(t, 3*time.Millisecond, func() string { return "never" }) }).ended {
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

func TestOneOfThree(t *testing.T) {
	tests := []struct {
		name string
		// differences of the samples; "fail" fails the test by itself.
		differences []string
		played      int
		failed      bool
		logged      []string
	}{
		{"the first is as expected", []string{""}, 1, false, nil},
		{"the last is as expected", []string{"late", "later", ""}, 3, false, []string{"case: try 1 of 3: late", "case: try 2 of 3: later"}},
		{"each differs", []string{"a", "b", "c"}, 3, true, []string{"case: try 1 of 3: a", "case: try 2 of 3: b", "case: try 3 of 3: c"}},
		{"a violation is the last", []string{"late", "fail"}, 2, true, []string{"case: try 1 of 3: late"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			played := 0
			w := watch(t, func(t testing.TB) {
				OneOfThree(t, "case", func() string {
					played++
					difference := tt.differences[played-1]
					if difference == "fail" {
						t.Errorf("a violation")
					}
					return difference
				})
			})
			if played != tt.played || w.failed != tt.failed || !slices.Equal(w.logged, tt.logged) {
				t.Errorf("got %d played, failed %v, log %q; want %d, %v, %q", played, w.failed, w.logged, tt.played, tt.failed, tt.logged)
			}
		})
	}
}

func TestClockCountsFromBeforeTheCause(t *testing.T) {
	const long = 5 * time.Millisecond
	clock := Since(func() { time.Sleep(long) })
	if took := clock.Elapsed(); took < long {
		t.Errorf("got %v, want the %v of the cause in it", took, long)
	}
	clock.NoSooner(t, long, "what has taken long")
	if !watch(t, func(t testing.TB) { clock.NoSooner(t, time.Hour, "what came too soon") }).failed {
		t.Error("what came too soon passes")
	}
}

func TestPatienceIsNoSignOfAFault(t *testing.T) {
	if Patience < 30*time.Second {
		t.Errorf("got %v, want 30 s or more", Patience)
	}
}
