// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"testing"
	"time"
)

func TestBusyTimeLeavesOutIdleAndStolenTime(t *testing.T) {
	got, err := busyTime("cpu  100 20 30 9999 888 4 6 777 55 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n")
	if err != nil || got != 1600*time.Millisecond {
		t.Errorf("busyTime() = %v, %v, want 1.6s", got, err)
	}
	for _, bad := range []string{"", "intr 5\n", "cpu  1 2 3\n", "cpu  a b c d e f g h\n"} {
		if got, err := busyTime(bad); err == nil {
			t.Errorf("busyTime(%q) = %v, want an error", bad, got)
		}
	}
}
