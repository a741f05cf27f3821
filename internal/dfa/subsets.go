// SPDX-License-Identifier: Apache-2.0

package dfa

import (
	"encoding/binary"
	"errors"
	"slices"
)

// subset is a state of the DFA: where the NFA can be. Forks are resolved, assertions are not: they depend on
// the next byte.
type subset struct {
	at       []int32 // instructions, ascending: opBytes, opAssert and opMatch
	before   kind    // of the byte before; other if there is no opAssert
	hasLooks bool
}

// construction makes a DFA of an NFA by following all its ways at once.
type construction struct {
	*nfa
	bytes     classes
	maxStates int
	subsets   []subset
	numberOf  map[string]uint16 // of subsets, by their key
	followers map[string]uint16 // the same by what number was asked for, to close each but once
	memory    int               // bytes of subsets, numbers and followers
	key       []byte
	visited   []int // by instruction: the last closure that came by
	closures  int
	stack     []int32 // of close
	reached   []int32 // its result
}

func newConstruction(n *nfa, maxStates int) *construction {
	return &construction{
		nfa:       n,
		bytes:     n.classes(),
		maxStates: maxStates,
		numberOf:  map[string]uint16{},
		followers: map[string]uint16{},
		visited:   make([]int, len(n.code)),
	}
}

// determinise returns the DFA of n, as the set of pattern 0. It is not minimal.
func determinise(n *nfa, maxStates int) (*Set, error) {
	c := newConstruction(n, maxStates)
	set := &Set{
		Patterns:   []uint32{0},
		Classes:    c.bytes.of,
		ClassCount: len(c.bytes.first),
		Lists:      [][]uint32{nil, {0}},
	}
	if _, err := c.stateAt(nil, other); err != nil { // Dead
		return nil, err
	}
	start, err := c.stateAt([]int32{n.start}, edge)
	if err != nil {
		return nil, err
	}
	set.Start = start
	for i := 0; i < len(c.subsets); i++ {
		accept, err := c.expand(set, c.subsets[i])
		if err != nil {
			return nil, err
		}
		set.Accept = append(set.Accept, accept)
	}
	return set, nil
}

// expand appends the row of a state to the set, and returns the index of what it accepts.
func (c *construction) expand(set *Set, from subset) (uint16, error) {
	var live [kinds][]int32 // what is left of from, by the kind of the next byte
	var known [kinds]bool
	resolve := func(after kind) []int32 {
		if !from.hasLooks {
			return from.at
		}
		if !known[after] {
			live[after], known[after] = slices.Clone(c.resolve(from, after)), true
		}
		return live[after]
	}

	var targets []int32
	for _, b := range c.bytes.first {
		after := kindOf(b, c.looks)
		targets = c.step(targets[:0], resolve(after), b)
		next, err := c.stateAt(targets, after)
		if err != nil {
			return 0, err
		}
		set.Next = append(set.Next, next)
	}
	if c.matches(resolve(edge)) {
		return 1, nil
	}
	return 0, nil
}

// matches says whether the NFA has matched at one of these instructions.
func (c *construction) matches(at []int32) bool {
	return slices.ContainsFunc(at, func(i int32) bool { return c.code[i].op == opMatch })
}

// resolve returns the instructions of a subset that are left where the next byte is of a kind. The result is valid until the next closure.
func (c *construction) resolve(s subset, after kind) []int32 {
	if !s.hasLooks {
		return s.at
	}
	return c.close(s.at, func(i *instruction) bool { return holds(i.look, s.before, after) })
}

// step appends where the instructions go on after byte b.
func (c *construction) step(targets, at []int32, b byte) []int32 {
	c.work.spend(len(at))
	for _, i := range at {
		in := &c.code[i]
		if in.op == opBytes && in.span.Lo <= b && b <= in.span.Hi {
			targets = append(targets, in.to[0])
		}
	}
	return targets
}

// stateAt returns the number of the state that is at these instructions, and at what they fork to.
func (c *construction) stateAt(at []int32, before kind) (uint16, error) {
	if !c.work.spend(1 + len(at)) {
		return 0, errWork
	}
	c.setKey(at, before)
	if known, ok := c.followers[string(c.key)]; ok {
		return known, nil
	}
	asked := string(c.key)
	c.memory += entryBytes + len(asked)
	number, err := c.number(c.close(at, nil), before)
	c.followers[asked] = number
	return number, err
}

// number returns the number of the state that is at these instructions.
func (c *construction) number(at []int32, before kind) (uint16, error) {
	hasLooks := slices.ContainsFunc(at, func(i int32) bool { return c.code[i].op == opAssert })
	if !hasLooks {
		before = other
	}
	slices.Sort(at)
	c.setKey(at, before)
	if known, ok := c.numberOf[string(c.key)]; ok {
		return known, nil
	}
	if len(c.subsets) == c.maxStates {
		return 0, errStates
	}
	fresh := uint16(len(c.subsets))
	c.memory += entryBytes + 2*len(c.key)
	c.numberOf[string(c.key)] = fresh
	c.subsets = append(c.subsets, subset{slices.Clone(at), before, hasLooks})
	return fresh, nil
}

func (c *construction) setKey(at []int32, before kind) {
	c.key = append(c.key[:0], byte(before))
	for _, i := range at {
		c.key = binary.NativeEndian.AppendUint32(c.key, uint32(i))
	}
}

// entryBytes is what an entry of a map takes besides its key, and a subset besides its instructions.
const entryBytes = 64

// errStates ends the construction of a DFA that became too large.
var errStates = errors.New("too many states")

// close returns the instructions that can be reached from some without a byte: by forks, and by
// those assertions of which pass is true. Without pass, assertions stay as they are. The result is valid until
// the next call.
func (c *construction) close(from []int32, pass func(*instruction) bool) []int32 {
	c.closures++
	todo := c.stack[:0]
	todo = append(todo, from...)
	reached := c.reached[:0]
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if c.visited[i] == c.closures {
			continue
		}
		c.visited[i] = c.closures
		in := &c.code[i]
		c.work.spend(1 + len(in.to))
		switch {
		case in.op == opFork, in.op == opAssert && pass != nil && pass(in):
			todo = append(todo, in.to...)
		case in.op == opAssert && pass != nil: // a way that ends
		default:
			reached = append(reached, i)
		}
	}
	c.stack, c.reached = todo, reached
	return reached
}
