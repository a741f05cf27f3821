// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Pace is between two looks whether memory is to be given back: each time the whole heap is looked through, which takes a millisecond of processor time for each
// MB.
const Pace = time.Minute

// What may be left, in bytes: leastExcess, or a part of what is live, as a divisor, if that is more.
const (
	leastExcess = 4 << 20
	liveShare   = 4
)

// usage is what the runtime holds, in bytes.
type usage struct {
	// live was reachable at the end of the last collection. objects are live or garbage, free is neither, and has not been given back.
	live, objects, free uint64
}

// IsExcessive reports whether so much of the heap is garbage, or free, that it is to be given back. It does not wait.
func IsExcessive() bool {
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(samples)
	u := usage{samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64()}
	return u.isExcessive()
}

func (u usage) isExcessive() bool {
	return u.objects+u.free > u.live+max(leastExcess, u.live/liveShare)
}

// Return gives back to the system what is not live.
func Return() { debug.FreeOSMemory() }
