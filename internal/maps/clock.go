// SPDX-License-Identifier: Apache-2.0

package maps

import "golang.org/x/sys/unix"

// Now is CLOCK_MONOTONIC in nanoseconds, in which slots and the control block have their times.
func Now() int64 {
	var ts unix.Timespec
	// CLOCK_MONOTONIC always exists.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}
