// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"time"

	"golang.org/x/sys/unix"
)

// origin is a time of Go's monotonic clock, which is CLOCK_MONOTONIC too, and originNs the same in nanoseconds.
var origin, originNs = time.Now(), readClock()

func readClock() int64 {
	var ts unix.Timespec
	// CLOCK_MONOTONIC always exists.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

// Now is CLOCK_MONOTONIC in nanoseconds, in which slots and the control block have their times. It is no system call.
func Now() int64 { return originNs + int64(time.Since(origin)) }
