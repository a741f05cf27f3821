// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// origin is a time of Go's monotonic clock, which is CLOCK_MONOTONIC too, and originNs the same in nanoseconds, or a moment earlier.
var origin, originNs = pairClocks()

// pairings is how often both clocks are read for the closest pair: the processor may be taken away between two reads.
const pairings = 16

// pairClocks reads CLOCK_MONOTONIC and, behind it, Go's clock, as shortly after each other as it can.
func pairClocks() (at time.Time, ns int64) {
	closest := time.Duration(math.MaxInt64)
	for range pairings {
		before := time.Now()
		read := readClock()
		after := time.Now()
		if apart := after.Sub(before); apart < closest {
			closest, at, ns = apart, after, read
		}
	}
	return at, ns
}

func readClock() int64 {
	var ts unix.Timespec
	// CLOCK_MONOTONIC always exists.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

// Now is CLOCK_MONOTONIC in nanoseconds, in which slots and the control block have their times. It is no system call. It is never ahead of the kernel's clock:
// what a program notes later has no earlier time.
func Now() int64 { return originNs + int64(time.Since(origin)) }
