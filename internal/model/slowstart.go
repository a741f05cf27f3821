// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"time"
)

// SlowStart lets the weight of an endpoint grow after it has become healthy (Cluster.SlowStartConfig). The zero value does not.
type SlowStart struct {
	// Window is how long that takes.
	Window time.Duration
	// Aggression above 1 gives more at the beginning, below 1 less; 0 is 1, linear growth.
	Aggression float64
	// MinWeight is the least part of the weight, 0 to 1.
	MinWeight float64
}

// Factor is the part of its weight that an endpoint has when it has been healthy for so long, as Envoy's: the part of the window that has
// passed, to the power of 1/Aggression.
func (s *SlowStart) Factor(healthy time.Duration) float64 {
	if healthy >= s.Window {
		return 1
	}
	passed := float64(max(healthy, time.Millisecond)) / float64(s.Window)
	if s.Aggression > 0 && s.Aggression != 1 {
		passed = math.Pow(passed, 1/s.Aggression)
	}
	return max(passed, s.MinWeight)
}
