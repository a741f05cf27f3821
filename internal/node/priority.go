// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// niceness is that of the daemon. It works little, but clients wait for it: on a machine without an idle processor it would get no more of
// the time than one of them, while it accepts the connections of all.
const niceness = -10

// prioritize gives all threads of this process the daemon's niceness, and those that they start. Another one than 0 was chosen by whoever
// has started the process, and stays.
func prioritize() error {
	if nice, err := niceOf(0); err != nil || nice != 0 {
		return err
	}
	// A thread that starts another one meanwhile may have been looked at before, or not yet.
	for {
		changed, err := prioritizeThreads()
		if err != nil || !changed {
			return err
		}
	}
}

// prioritizeThreads reports whether there was a thread of another niceness.
func prioritizeThreads() (changed bool, err error) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return false, fmt.Errorf("list threads: %w", err)
	}
	for _, t := range threads {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return false, fmt.Errorf("list threads: %w", err)
		}
		nice, err := niceOf(id)
		if err == nil && nice != niceness {
			changed = true
			err = unix.Setpriority(unix.PRIO_PROCESS, id, niceness)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return false, fmt.Errorf("set niceness to %d: %w", niceness, err)
		}
	}
	return changed, nil
}

// niceOf is the niceness of a thread, 0 of the calling one.
func niceOf(thread int) (int, error) {
	// The system call adds 20 and changes the sign, so that no answer is negative.
	n, err := unix.Getpriority(unix.PRIO_PROCESS, thread)
	return 20 - n, err
}
