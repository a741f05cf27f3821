// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"slices"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

func TestRetriesLeavePrioritiesOut(t *testing.T) {
	const bad, degraded = model.Unhealthy, model.Degraded
	var never uint32
	tests := []struct {
		name     string
		members  []Member
		balance  model.Balancing
		excluded []bool
		want     []float64 // of each member; nil: none
	}{
		{"none", []Member{at(0), at(1)}, model.Balancing{}, []bool{false}, []float64{1, 0}},
		{"the first", []Member{at(0), at(1), at(2)}, model.Balancing{}, []bool{true}, []float64{0, 1, 0}},
		{"the second", []Member{at(0), at(1), at(2)}, model.Balancing{}, []bool{true, true}, []float64{0, 0, 1}},
		{"all", []Member{at(0), at(1)}, model.Balancing{}, []bool{true, true}, nil},
		{"the other is sick", []Member{at(0), at(1).is(bad)}, model.Balancing{}, []bool{true}, nil},
		{"degraded", []Member{at(0), at(1).is(degraded)}, model.Balancing{}, []bool{true}, []float64{0, 1}},
		{"a third of each, without rounding", []Member{at(0), at(1), at(1).is(bad), at(1).is(bad), at(2), at(2).is(bad), at(2).is(bad)},
			model.Balancing{PanicThreshold: &never, Overprovisioning: 100}, []bool{true}, []float64{0, 0.5, 0, 0, 0.5, 0, 0}},
		{"what the rest cannot take", []Member{at(0), at(1), at(1).is(bad), at(2)}, model.Balancing{Overprovisioning: 100}, []bool{true}, []float64{0, 0.5, 0, 0.5}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := inPlaces(tt.balance, tt.members...)
			root, ok := c.RetryRoot(0, Learned{Excluded: tt.excluded})
			if ok != (tt.want != nil) {
				t.Fatalf("a priority is left: %t, want %t", ok, tt.want != nil)
			}
			if !ok {
				return
			}
			if got := root.Shares(len(c.Endpoints)); !slices.Equal(got, tt.want) {
				t.Errorf("shares: got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestHashesDoNotLeavePrioritiesOut(t *testing.T) {
	c := inPlaces(model.Balancing{}, at(0), at(1))
	c.Policy = maps.PolicyMaglev
	if _, ok := c.RetryRoot(0, Learned{Excluded: []bool{true}}); ok {
		t.Error("a policy that hashes has a root for retries")
	}
}
