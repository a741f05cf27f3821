// SPDX-License-Identifier: Apache-2.0

// Package await waits for what a test expects to come, and fails the test where it does not: nothing sleeps for a time and then hopes. It also has
// what keeps a verdict from the clock, by the rules of CONTRIBUTING.md ("Tests that a clock can decide").
package await

import (
	"testing"
	"time"
)

const (
	// Patience is how long a test waits for what takes milliseconds on a machine that has nothing else to do. It is the least upper bound that a
	// test may set to a duration: a busy host takes a processor away for seconds, and less than that is no sign of a fault.
	Patience = 30 * time.Second
	// Tries is how often a case is played in which a sample differs: other work on the machine delays one sample, and hardly each.
	Tries    = 3
	interval = time.Millisecond
)

// Quiet polls until check has no complaint, which is "".
func Quiet(t testing.TB, check func() (complaint string)) {
	t.Helper()
	Within(t, Patience, check)
}

// Within is Quiet with a patience of the caller's.
func Within(t testing.TB, patience time.Duration, check func() (complaint string)) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(interval) {
		complaint := check()
		if complaint == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %s: %s", patience, complaint)
		}
	}
}

// Next receives from the channel, or sees it closed. What says what ought to have come.
func Next[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(Patience):
		t.Fatalf("%s: nothing within %s", what, Patience)
		panic("unreachable")
	}
}

// OneOfThree plays a case until a sample has no difference, which is "", and fails the test where each of three samples (Tries) has one. What names
// the case. Each difference is logged. A sample that fails the test by itself is the last: that is for violations, which must not happen once.
func OneOfThree(t testing.TB, what string, play func() (difference string)) {
	t.Helper()
	difference := ""
	for try := 1; try <= Tries; try++ {
		difference = play()
		if difference == "" || t.Failed() {
			return
		}
		t.Logf("%s: try %d of %d: %s", what, try, Tries, difference)
	}
	t.Errorf("%s: each of %d tries differs, the last one: %s", what, Tries, difference)
}

// Clock counts from before a cause. Who sees a cause late, such as a server that accepts a connection when it gets a processor, measures less time than
// has passed: no lower bound may count from there.
type Clock struct{ began time.Time }

// Since starts a clock and then does what causes something: it connects, or it sends.
func Since(cause func()) Clock {
	c := Clock{time.Now()}
	cause()
	return c
}

// Elapsed is the time from before the cause until now: at least the time that has passed since the cause.
func (c Clock) Elapsed() time.Duration { return time.Since(c.began) }

// NoSooner fails the test if less time than least has passed since before the cause: what comes now has come too soon. What says what it is.
func (c Clock) NoSooner(t testing.TB, least time.Duration, what string) {
	t.Helper()
	if took := c.Elapsed(); took < least {
		t.Errorf("%s: came after %v, want no sooner than %v", what, took, least)
	}
}
