// SPDX-License-Identifier: Apache-2.0

// Package await waits for what a test expects to come, and fails the test where it does not: nothing sleeps for a time and then hopes.
package await

import (
	"testing"
	"time"
)

const (
	// Patience is how long a test waits for what takes milliseconds on a machine that has nothing else to do.
	Patience = 20 * time.Second
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
