// SPDX-License-Identifier: Apache-2.0

// Package violation reports what must not happen even once: a byte in a wrong place, a wrong order, something left behind. A test that fails
// otherwise gets a second chance, because other work on the machine may be the reason. A violation does not: scripts/gotest does not run the
// test again, and package verdict makes the run red.
package violation

import (
	"fmt"
	"testing"
)

// Marker begins each report of a violation in a test's output.
const Marker = "VIOLATION: "

// Errorf fails the test for a violation.
func Errorf(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Errorf("%s", Text(format, args...))
}

// Text is the report of a violation that no test can make: one that shows after the last test.
func Text(format string, args ...any) string { return Marker + fmt.Sprintf(format, args...) }
