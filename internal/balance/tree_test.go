// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"math"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
)

// countFrom picks n times from a tree, with each request done before the next; -1 stands for no endpoint.
func countFrom(p *Picker, tree *Tree, n int, skip func(uint32) bool) map[int]float64 {
	shares := map[int]float64{}
	for range n {
		e, ok := p.PickFrom(tree, skip)
		if !ok {
			shares[-1] += 1 / float64(n)
			continue
		}
		shares[int(e)] += 1 / float64(n)
		p.Done(e)
	}
	return shares
}

func TestTreesShareAsGroupsDo(t *testing.T) {
	const picks = 30_000
	leaf := func(policy maps.Policy, turns ...maps.Turn) Tree { return Tree{Policy: policy, Schedule: turns} }
	two := Tree{Policy: maps.PolicyRandom, Schedule: []maps.Turn{0, 1, 1}, Groups: []Tree{leaf(maps.PolicyRandom, 1), leaf(maps.PolicyRandom, 2, 3)}}
	half := Tree{Policy: maps.PolicyRandom, Schedule: []maps.Turn{0, 1}, Groups: []Tree{leaf(maps.PolicyRandom, 1), {}}}
	deep := Tree{Policy: maps.PolicyRandom, Schedule: []maps.Turn{0, 1}, Groups: []Tree{leaf(maps.PolicyRandom, 2), half}}
	not := func(e uint32) func(uint32) bool { return func(x uint32) bool { return x == e } }
	tests := []struct {
		name string
		tree Tree
		skip func(uint32) bool
		want map[int]float64
	}{
		{"turns", leaf(maps.PolicyRoundRobin, 1, 1, 2), nil, map[int]float64{1: 2. / 3, 2: 1. / 3}},
		{"random", leaf(maps.PolicyRandom, 1, 1, 2), nil, map[int]float64{1: 2. / 3, 2: 1. / 3}},
		{"least request", leaf(maps.PolicyLeastRequest, 1, 2), nil, map[int]float64{1: 0.5, 2: 0.5}},
		{"least of all", leaf(maps.PolicyLeastScan, 1, 2), nil, map[int]float64{1: 0.5, 2: 0.5}},
		{"least by weight", leaf(maps.PolicyLeastWeighted, 1, 2, 2, 2), nil, map[int]float64{1: 0.25, 2: 0.75}},
		{"one is to be skipped", leaf(maps.PolicyRoundRobin, 1, 2), not(1), map[int]float64{2: 1}},
		{"groups", two, nil, map[int]float64{1: 1. / 3, 2: 1. / 3, 3: 1. / 3}},
		{"a group has nobody left", two, not(1), map[int]float64{2: 0.5, 3: 0.5}},
		{"half fails", half, nil, map[int]float64{1: 0.5, -1: 0.5}},
		{"a quarter fails", deep, nil, map[int]float64{1: 0.25, 2: 0.5, -1: 0.25}},
		{"nobody", Tree{}, nil, map[int]float64{-1: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := picker(maps.PolicyRandom, 1)
			got := countFrom(p, &tt.tree, picks, tt.skip)
			for e := -1; e < 8; e++ {
				if math.Abs(got[e]-tt.want[e]) > 0.03 { // ten standard deviations
					t.Errorf("shares: got %v, want %v", got, tt.want)
					break
				}
			}
		})
	}
}
