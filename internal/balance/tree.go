// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"math/rand/v2"

	"github.com/xlb-project/xlb/internal/maps"
)

// Tree is a group that is in no map: of endpoints, or of other groups. Its policy does not hash.
type Tree struct {
	Policy maps.Policy
	// Choices of LEAST_REQUEST.
	Choices uint32
	// Schedule are indices of endpoints, or where there are some of Groups.
	Schedule []maps.Turn
	Groups   []Tree
}

// PickFrom is Pick among the endpoints of a tree. Where others take turns it draws.
func (p *Picker) PickFrom(t *Tree, skip func(endpoint uint32) bool) (endpoint uint32, ok bool) {
	asked := question{usable: func(e uint32) bool { return p.Serving(e) && (skip == nil || !skip(e)) }}
	if endpoint, ok = p.chooseFrom(t, &asked); ok {
		p.Claim(endpoint)
	}
	return endpoint, ok
}

func (p *Picker) chooseFrom(t *Tree, asked *question) (uint32, bool) {
	if asked.fails = len(t.Schedule) == 0; asked.fails {
		return 0, false
	}
	turns := schedule(t.Schedule)
	if len(t.Groups) > 0 {
		return p.belowTree(t, turns.at(rand.Uint64()), asked)
	}
	if t.Policy == maps.PolicyRoundRobin {
		return turns.firstFrom(rand.Uint64N(uint64(len(turns))), asked.usable)
	}
	return p.byPolicy(t.Policy, t.Choices, turns, asked.usable)
}

// belowTree is below for a Tree.
func (p *Picker) belowTree(t *Tree, first uint32, asked *question) (uint32, bool) {
	if e, ok := p.chooseFrom(&t.Groups[first], asked); ok || asked.fails {
		return e, ok
	}
	for i := range t.Groups {
		if uint32(i) == first {
			continue
		}
		if e, ok := p.chooseFrom(&t.Groups[i], asked); ok {
			return e, true
		}
	}
	asked.fails = false
	return 0, false
}
