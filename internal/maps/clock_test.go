// SPDX-License-Identifier: Apache-2.0

package maps

import "testing"

// What the kernel notes behind a look at the clock has no earlier time: by that the release program knows whether a server has read a request.
func TestTheClockIsNeverAheadOfTheKernels(t *testing.T) {
	savedOrigin, savedNs := origin, originNs
	defer func() { origin, originNs = savedOrigin, savedNs }()
	for range 1000 {
		origin, originNs = pairClocks()
		now := Now()
		if later := readClock(); now > later {
			t.Fatalf("%d ns ahead", now-later)
		}
	}
}
