// SPDX-License-Identifier: Apache-2.0

package node

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// eachThread calls f with every thread of this process.
func eachThread(t *testing.T, f func(id int)) {
	t.Helper()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err != nil {
			t.Fatal(err)
		}
		f(id)
	}
}

// startWith gives all threads a niceness, and back the one that this process began with after the test.
func startWith(t *testing.T, nice int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a niceness below that of before")
	}
	begun, err := niceOf(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { setNiceness(t, begun) })
	setNiceness(t, nice)
}

func setNiceness(t *testing.T, nice int) {
	t.Helper()
	eachThread(t, func(id int) {
		if err := unix.Setpriority(unix.PRIO_PROCESS, id, nice); err != nil {
			t.Errorf("give a thread the niceness %d: %v", nice, err)
		}
	})
}

func TestNiceness(t *testing.T) {
	for _, tt := range []struct {
		name         string
		begins, want int
	}{
		{"all threads have the daemon's", 0, niceness},
		{"one that was chosen stays", 5, 5},
		{"one that was chosen below the daemon's stays", -15, -15},
	} {
		t.Run(tt.name, func(t *testing.T) {
			startWith(t, tt.begins)
			if err := prioritize(); err != nil {
				t.Fatal(err)
			}
			eachThread(t, func(id int) {
				if nice, err := niceOf(id); err != nil || nice != tt.want {
					t.Errorf("niceness of a thread: got %d (%v), want %d", nice, err, tt.want)
				}
			})
		})
	}
}
