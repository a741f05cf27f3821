// SPDX-License-Identifier: Apache-2.0

package tcptest

import (
	"os"
	"testing"
)

// Threads is how many this process has. Go's runtime starts some when it likes.
func Threads(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
