// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"time"
)

// bounds of how long it takes to serve a network namespace, in seconds.
var bounds = []float64{0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5}

// Durations are those of many events.
type Durations struct {
	// Bounds are in seconds, in rising order. Counts says of each how many lasted no longer.
	Bounds []float64
	Counts []uint64
	// Count is of all of them, Sum that of their seconds.
	Count uint64
	Sum   float64
}

func newDurations() Durations {
	return Durations{Bounds: bounds, Counts: make([]uint64, len(bounds))}
}

func (d *Durations) add(one time.Duration) {
	d.Count++
	d.Sum += one.Seconds()
	for i, bound := range d.Bounds {
		if one.Seconds() <= bound {
			d.Counts[i]++
		}
	}
}

func (d *Durations) clone() Durations {
	c := *d
	c.Counts = slices.Clone(d.Counts)
	return c
}
