// SPDX-License-Identifier: Apache-2.0

package model

import (
	"math"
	"testing"
	"time"
)

func TestSlowStartFactor(t *testing.T) {
	tests := []struct {
		name    string
		s       SlowStart
		healthy time.Duration
		want    float64
	}{
		{"none", SlowStart{}, 0, 1},
		{"half of the window", SlowStart{Window: 10 * time.Second}, 5 * time.Second, 0.5},
		{"the least", SlowStart{Window: 10 * time.Second, MinWeight: 0.1}, 0, 0.1},
		{"nothing is a millisecond", SlowStart{Window: 10 * time.Second}, 0, 0.0001},
		{"more at the beginning", SlowStart{Window: 16 * time.Second, Aggression: 2}, 4 * time.Second, 0.5},
		{"less at the beginning", SlowStart{Window: 16 * time.Second, Aggression: 0.5}, 4 * time.Second, 0.0625},
		{"the end", SlowStart{Window: 16 * time.Second, Aggression: 0.5}, 16 * time.Second, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.s.Factor(tt.healthy); math.Abs(got-tt.want) > 1e-9 {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
