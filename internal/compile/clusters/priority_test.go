// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// hosts is a priority of a hundred hosts, of which so many percent are healthy and degraded.
func hosts(healthy, degraded int) priority {
	all := make([]Member, 100)
	return priority{all: all, healthy: all[:healthy], degraded: all[healthy : healthy+degraded]}
}

// The tables of Envoy's documentation (Priority levels, Degraded endpoints, Panic threshold), in percent. With a hundred hosts
// in every priority nothing is lost to rounding before it.
func TestLoadsAreThoseOfEnvoysDocumentation(t *testing.T) {
	tests := []struct {
		name              string
		priorities        []priority
		healthy, degraded []uint64
		panic             []bool
	}{
		{"all healthy", []priority{hosts(100, 0), hosts(100, 0)}, []uint64{100, 0}, nil, nil},
		{"just enough", []priority{hosts(72, 0), hosts(72, 0)}, []uint64{100, 0}, nil, nil},
		{"71 healthy", []priority{hosts(71, 0), hosts(71, 0)}, []uint64{99, 1}, nil, nil},
		{"half", []priority{hosts(50, 0), hosts(50, 0)}, []uint64{70, 30}, nil, nil},
		{"a quarter", []priority{hosts(25, 0), hosts(100, 0)}, []uint64{35, 65}, nil, nil},
		{"the first is empty", []priority{hosts(0, 0), hosts(100, 0)}, []uint64{0, 100}, nil, nil},
		{"both at 25", []priority{hosts(25, 0), hosts(25, 0)}, []uint64{50, 50}, nil, []bool{true, true}},
		{"three levels", []priority{hosts(25, 0), hosts(25, 0), hosts(100, 0)}, []uint64{35, 35, 30}, nil, nil},
		{"three levels, the last at 20", []priority{hosts(25, 0), hosts(25, 0), hosts(20, 0)}, []uint64{36, 35, 29}, nil, []bool{true, true, true}},
		{"degraded take the rest", []priority{hosts(25, 75)}, []uint64{35}, []uint64{65}, nil},
		{"healthy of the next come first", []priority{hosts(35, 65), hosts(35, 65)}, []uint64{49, 49}, []uint64{2, 0}, nil},
		{"degraded of the first come first", []priority{hosts(20, 80), hosts(0, 100)}, []uint64{28, 0}, []uint64{72, 0}, nil},
		{"nobody", []priority{hosts(0, 0), hosts(0, 0)}, []uint64{50, 50}, nil, []bool{true, true}},
		{"one level calm, one in panic", []priority{hosts(30, 0), hosts(0, 0)}, []uint64{50, 50}, nil, []bool{true, true}},
		{"no host at all", []priority{{}}, []uint64{0}, nil, []bool{true}},
	}
	// Rounding: of 35 + 35 + 28, 35*100/98 is 35, 35 and 28, and 2 are left.
	tests[8].healthy = []uint64{34, 33, 33}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			none := make([]uint64, len(tt.priorities))
			want := loads{tt.healthy, tt.degraded, tt.panic}
			if want.degraded == nil {
				want.degraded = none
			}
			if want.panic == nil {
				want.panic = make([]bool, len(tt.priorities))
			}
			got := loadsOf(tt.priorities, &model.Balancing{})
			if diff := cmp.Diff(got, want, cmp.AllowUnexported(loads{})); diff != "" {
				t.Errorf("loads (-got +want):\n%s", diff)
			}
		})
	}
}

func TestRoundingGoesToTheFirstThatCanTakeAnything(t *testing.T) {
	var calm uint32
	b := model.Balancing{PanicThreshold: &calm, Overprovisioning: 100}
	tests := []struct {
		name              string
		priorities        []priority
		healthy, degraded []uint64
	}{
		{"a third of three each", []priority{hosts(3, 0), hosts(3, 0), hosts(3, 0)}, []uint64{34, 33, 33}, []uint64{0, 0, 0}},
		{"healthy before degraded", []priority{hosts(0, 3), hosts(3, 3)}, []uint64{0, 34}, []uint64{33, 33}},
		{"degraded alone", []priority{hosts(0, 0), hosts(0, 3), hosts(0, 3), hosts(0, 3)}, []uint64{0, 0, 0, 0}, []uint64{0, 34, 33, 33}},
		{"without panic the first fails", []priority{hosts(0, 0), hosts(0, 0)}, []uint64{100, 0}, []uint64{0, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := loadsOf(tt.priorities, &b)
			want := loads{tt.healthy, tt.degraded, make([]bool, len(tt.priorities))}
			if diff := cmp.Diff(got, want, cmp.AllowUnexported(loads{})); diff != "" {
				t.Errorf("loads (-got +want):\n%s", diff)
			}
		})
	}
}

func TestWeightedHealthCountsWeights(t *testing.T) {
	p := priority{all: []Member{{Weight: 1, HealthWeight: 1}, {Weight: 1, HealthWeight: 9}}}
	p.healthy = p.all[:1]
	for weighted, want := range map[bool]uint64{false: 70, true: 14} {
		if got := p.availability(p.healthy, &model.Balancing{WeightedHealth: weighted}); got != want {
			t.Errorf("weighted %t: %d %%, want %d", weighted, got, want)
		}
	}
}

// flags makes the state of the endpoints from their flags.
func flags(of ...maps.EndpointFlags) func(uint32) EndpointState {
	return func(e uint32) EndpointState { return EndpointState{Flags: of[e]} }
}

// inPlaces is a cluster of one endpoint for each member, numbered.
func inPlaces(b model.Balancing, members ...Member) *Cluster {
	c := &Cluster{Balancing: b}
	for i, m := range members {
		m.Endpoint, m.Weight = uint32(i), max(1, m.Weight)
		c.Members = append(c.Members, m)
		c.Endpoints = append(c.Endpoints, Endpoint{Weight: m.Weight})
	}
	return c
}

// text is a group in one line: RR(0 1), RANDOM 2/3 RR(0), 1/3 RR(1).
func text(g *Group) string {
	if len(g.Groups) == 0 {
		return fmt.Sprint(g.Schedule)
	}
	turns := map[uint32]int{}
	for _, t := range g.Schedule {
		turns[t]++
	}
	s := policyNames[g.Policy] + "{"
	for i := range g.Groups {
		s += fmt.Sprintf("%d/%d %s;", turns[uint32(i)], len(g.Schedule), text(&g.Groups[i]))
	}
	return s + "}"
}

func at(priority uint32) Member { return Member{Placement: model.Placement{Priority: priority}} }

func in(zone string, weight uint32) Member {
	return Member{Placement: model.Placement{Locality: model.Locality{Zone: zone}, LocalityWeight: weight}}
}

func (m Member) is(h model.HealthStatus) Member {
	m.Health = h
	return m
}

func TestRootGroups(t *testing.T) {
	const bad, ejected, degraded, excluded = maps.EndpointUnhealthy, maps.EndpointEjected, maps.EndpointDegraded, maps.EndpointExcluded
	var never uint32
	calm := model.Balancing{PanicThreshold: &never}
	weighted := model.Balancing{LocalityWeighted: true}
	tests := []struct {
		name    string
		cluster *Cluster
		states  []maps.EndpointFlags
		want    string
	}{
		{"one priority, all healthy", inPlaces(model.Balancing{}, at(0), at(0)), nil, "[0 1]"},
		{"a weight", inPlaces(model.Balancing{}, at(0), Member{Weight: 2}), nil, "[1 0 1]"},
		{"the second stands by", inPlaces(model.Balancing{}, at(0), at(1)), nil, "[0]"},
		{"the first has gone", inPlaces(model.Balancing{}, at(0), at(1)), []maps.EndpointFlags{bad, 0}, "[1]"},
		{"half of the first", inPlaces(model.Balancing{}, at(0), at(0), at(1)), []maps.EndpointFlags{0, bad, 0}, "RANDOM{7/10 [0];3/10 [2];}"},
		{"ejected is unhealthy", inPlaces(model.Balancing{}, at(0), at(0), at(0)), []maps.EndpointFlags{0, ejected, 0}, "[0 2]"},
		{"down is not a matter of health", inPlaces(model.Balancing{}, at(0), at(0)), []maps.EndpointFlags{maps.EndpointDown, 0}, "[0 1]"},
		{"draining is not missed", inPlaces(model.Balancing{}, at(0), at(0).is(model.Draining), at(0).is(model.Draining), at(1)), nil, "[0]"},
		{"draining", inPlaces(model.Balancing{}, at(0), at(0).is(model.Draining), at(0)), nil, "[0 2]"},
		{"timeout", inPlaces(model.Balancing{}, at(0), at(0).is(model.HealthTimeout), at(0)), nil, "[0 2]"},
		{"healthy as told, but it fails", inPlaces(model.Balancing{}, at(0).is(model.Healthy), at(0), at(0)), []maps.EndpointFlags{bad, 0, 0}, "[1 2]"},
		{"degraded beside healthy", inPlaces(model.Balancing{}, at(0), at(0).is(model.Degraded)), nil, "RANDOM{7/10 [0];3/10 [1];}"},
		{"degraded as learned", inPlaces(model.Balancing{}, at(0), at(0)), []maps.EndpointFlags{0, degraded}, "RANDOM{7/10 [0];3/10 [1];}"},
		{"worse than degraded", inPlaces(calm, at(0).is(model.Degraded), at(0)), []maps.EndpointFlags{bad, 0}, "[1]"},
		{"panic takes all", inPlaces(model.Balancing{}, at(0), at(0), at(0)), []maps.EndpointFlags{0, bad, bad}, "[0 1 2]"},
		{"half is no panic", inPlaces(model.Balancing{}, at(0), at(0)), []maps.EndpointFlags{0, bad}, "[0]"},
		{"no panic", inPlaces(calm, at(0), at(0), at(0)), []maps.EndpointFlags{0, bad, bad}, "[0]"},
		{"no panic, and nobody", inPlaces(calm, at(0), at(1)), []maps.EndpointFlags{bad, bad}, "[]"},
		{"failing in panic", inPlaces(model.Balancing{FailOnPanic: true}, at(0), at(0), at(0)), []maps.EndpointFlags{0, bad, bad}, "[]"},
		{"calm, because the next can take the rest", inPlaces(model.Balancing{}, at(0), at(0), at(0), at(0), at(1), at(1)),
			[]maps.EndpointFlags{0, bad, bad, bad, 0, bad}, "RANDOM{7/20 [0];13/20 [4];}"},
		{"only one priority in panic", inPlaces(model.Balancing{}, at(0), at(0), at(0), at(0), at(0), at(0), at(1), at(1)),
			[]maps.EndpointFlags{0, bad, bad, bad, bad, bad, 0, bad}, "RANDOM{1/4 [0 1 2 3 4 5];3/4 [6];}"},
		{"excluded are not counted", inPlaces(model.Balancing{}, at(0), at(0), at(0), at(1)),
			[]maps.EndpointFlags{0, excluded, excluded, 0}, "[0]"},
		{"a priority without hosts", inPlaces(model.Balancing{}, at(2)), nil, "[0]"},
		{"localities by weight", inPlaces(weighted, in("a", 1), in("a", 1), in("b", 3)), nil, "ROUND_ROBIN{1/4 [0 1];3/4 [2];}"},
		{"localities unweighted", inPlaces(weighted, in("a", 0), in("b", 0)), nil, "[0 1]"},
		{"a locality without weight gets nothing", inPlaces(weighted, in("a", 0), in("b", 1)), nil, "[1]"},
		{"a locality that is half healthy", inPlaces(weighted, in("a", 1), in("a", 1), in("b", 1), in("b", 1)),
			[]maps.EndpointFlags{0, bad, 0, 0}, "ROUND_ROBIN{7/17 [0];10/17 [2 3];}"},
		{"a locality that has all gone", inPlaces(weighted, in("a", 1), in("b", 1), in("c", 1)),
			[]maps.EndpointFlags{0, bad, 0}, "ROUND_ROBIN{1/2 [0];1/2 [2];}"},
		{"panic forgets localities", inPlaces(weighted, in("a", 1), in("b", 5), in("c", 1)),
			[]maps.EndpointFlags{0, bad, bad}, "[0 1 2]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var states func(uint32) EndpointState
			if tt.states != nil {
				states = flags(tt.states...)
			}
			root := tt.cluster.Root(states)
			if got := text(&root); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestWholeKeepsProportions(t *testing.T) {
	for _, tt := range []struct {
		in   []float64
		want []uint64
	}{
		{[]float64{1, 3}, []uint64{1, 3}},
		{[]float64{0.7, 1}, []uint64{7, 10}},
		{[]float64{1.0 / 3, 1}, []uint64{1, 3}},
		{[]float64{1e-9, 1}, []uint64{1, 1 << 24}},
		{[]float64{4294967295, 4294967295 * 0.7}, []uint64{8589934590, 6012954213}},
	} {
		if got := whole(tt.in); !cmp.Equal(got, tt.want) {
			t.Errorf("%v: got %d, want %d", tt.in, got, tt.want)
		}
	}
}

func TestWeightsOfASlowStart(t *testing.T) {
	factors := func(of ...float64) func(uint32) EndpointState {
		return func(e uint32) EndpointState { return EndpointState{Factor: of[e]} }
	}
	c := inPlaces(model.Balancing{}, Member{Weight: 1}, Member{Weight: 3})
	for _, tt := range []struct {
		factors []float64
		want    []float64
	}{
		{[]float64{0, 0}, []float64{0.25, 0.75}},
		{[]float64{1, 1}, []float64{0.25, 0.75}},
		{[]float64{0.337, 0.337}, []float64{0.25, 0.75}},
		{[]float64{1, 0.1}, []float64{1 / 1.3, 0.3 / 1.3}},
		{[]float64{0.5, 0}, []float64{0.5 / 3.5, 3 / 3.5}},
	} {
		root := c.Root(factors(tt.factors...))
		for i, share := range root.Shares(2) {
			if math.Abs(share-tt.want[i]) > 1./4096 {
				t.Errorf("factors %v: share %d is %.4f, want %.4f", tt.factors, i, share, tt.want[i])
			}
		}
	}
}

func TestOnlyHealthyEndpointsStartSlowly(t *testing.T) {
	c := inPlaces(model.Balancing{}, Member{Weight: 1}, Member{Weight: 1}, Member{Weight: 1})
	root := c.Root(func(e uint32) EndpointState {
		// Panic: one of three is healthy.
		return EndpointState{Flags: []maps.EndpointFlags{0, maps.EndpointUnhealthy, maps.EndpointUnhealthy}[e], Factor: 0.5}
	})
	for i, want := range []float64{0.2, 0.4, 0.4} {
		if got := root.Shares(3)[i]; math.Abs(got-want) > 1e-9 {
			t.Errorf("share %d is %.4f, want %.1f", i, got, want)
		}
	}
}
