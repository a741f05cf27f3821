// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRoutesAreComparedWithinARound(t *testing.T) {
	loads := []Load{KeptAlive(1), KeptAlive(8), ThroughRoutes(8, "path", 1), ThroughRoutes(8, "path", 10), ThroughRoutes(8, "regex", 1), ShortLived(1)}
	want := [][]Load{{loads[0]}, {loads[1]}, {loads[2], loads[3]}, {loads[4]}, {loads[5]}}
	if diff := cmp.Diff(want, Compared(loads)); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

func TestEveryLoadOfACaseHasItsOwnName(t *testing.T) {
	o := validOptions()
	o.Case = All
	names := map[string]bool{}
	for _, l := range o.scaleLoads() {
		if !l.IsScaled() {
			t.Errorf("%s is no case of these", l.Case)
		}
		if names[l.String()] {
			t.Errorf("two loads are called %q", l)
		}
		names[l.String()] = true
	}
	for _, name := range scaleCases {
		o.Case = name
		loads := o.Loads()
		if len(loads) == 0 || loads[0].Case != name {
			t.Errorf("case %s has the loads %v", name, loads)
		}
	}
}

func TestStepsOfOneCaseAreComparedWithinRounds(t *testing.T) {
	sized := func(way string, size int) Load {
		return Load{Case: Sizes, Connections: 8, Scaled: Scaled{Way: way, Size: size}}
	}
	groups := Compared([]Load{
		KeptAlive(1), KeptAlive(8), {Case: Connections, Connections: 1}, {Case: Connections, Connections: 2},
		sized(WayResponse, 0), sized(WayResponse, 10), sized(WayRequest, 0),
	})
	var sizes []int
	for _, group := range groups {
		sizes = append(sizes, len(group))
	}
	if diff := cmp.Diff([]int{1, 1, 2, 2, 1}, sizes); diff != "" {
		t.Errorf("sizes of the groups (-want +got):\n%s", diff)
	}
}
