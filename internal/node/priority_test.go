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

func TestAllThreadsHaveTheDaemonsNiceness(t *testing.T) {
	if nice, err := niceOf(0); err != nil || nice != 0 {
		t.Skipf("niceness is %d (%v), and stays", nice, err)
	}
	if err := prioritize(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		eachThread(t, func(id int) {
			if err := unix.Setpriority(unix.PRIO_PROCESS, id, 0); err != nil {
				t.Errorf("give a thread its niceness back: %v", err)
			}
		})
	})
	eachThread(t, func(id int) {
		if nice, err := niceOf(id); err != nil || nice != niceness {
			t.Errorf("niceness of a thread: got %d (%v), want %d", nice, err, niceness)
		}
	})
}
