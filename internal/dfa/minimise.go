// SPDX-License-Identifier: Apache-2.0

package dfa

// blocks is a partition of states: each block is a stretch of order. Marked states are moved to the front
// of their block, so that a block is divided without a search.
type blocks struct {
	order  []uint16 // the states, block by block
	index  []int    // of each state in order
	of     []int    // the block of each state
	begin  []int    // of each block in order
	end    []int
	marked []int // how many states at the front of each block are marked
}

func newBlocks(states int) *blocks {
	p := &blocks{
		order:  make([]uint16, states),
		index:  make([]int, states),
		of:     make([]int, states),
		begin:  []int{0},
		end:    []int{states},
		marked: []int{0},
	}
	for s := range states {
		p.order[s], p.index[s] = uint16(s), s
	}
	return p
}

func (p *blocks) states(block int) []uint16 { return p.order[p.begin[block]:p.end[block]] }

// mark marks a state, and says whether it is the first of its block.
func (p *blocks) mark(state uint16) bool {
	block := p.of[state]
	front := p.begin[block] + p.marked[block]
	if p.index[state] < front {
		return false
	}
	swapped := p.order[front]
	p.order[front], p.order[p.index[state]] = state, swapped
	p.index[swapped], p.index[state] = p.index[state], front
	p.marked[block]++
	return p.marked[block] == 1
}

// split divides a block into its marked and its other states, and removes the
// marks. The smaller part becomes a new block, which is returned; -1 if all states are marked.
func (p *blocks) split(block int) int {
	begin, end := p.begin[block], p.end[block]
	cut := begin + p.marked[block]
	p.marked[block] = 0
	if cut == end {
		return -1
	}
	fresh := len(p.begin)
	if cut-begin <= end-cut {
		p.begin[block], end = cut, cut
	} else {
		p.end[block], begin = cut, cut
	}
	p.begin, p.end, p.marked = append(p.begin, begin), append(p.end, end), append(p.marked, 0)
	for _, state := range p.states(fresh) {
		p.of[state] = fresh
	}
	return fresh
}

// minimise returns the minimal DFA that is equal to s, a set of one pattern (Hopcroft's algorithm).
func minimise(s *Set) *Set {
	p := newBlocks(s.States())
	p.divide(s)
	return s.quotient(p)
}

// divide refines p until states of one block cannot be told apart by any input.
// Every block that is new, or what is left of it, divides all others once: by which states lead into it.
func (p *blocks) divide(s *Set) {
	todo := p.byAccept(s)
	into := predecessors(s)
	var members []uint16
	var touched []int
	for len(todo) > 0 {
		splitter := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		// A copy, because the splitter itself may be divided on the way.
		members = append(members[:0], p.states(splitter)...)
		for class := range s.ClassCount {
			touched = p.markSources(into, members, class, touched[:0])
			for _, block := range touched {
				if fresh := p.split(block); fresh >= 0 {
					todo = append(todo, fresh)
				}
			}
		}
	}
}

// markSources marks the states from which a class leads to one of the targets, and appends the blocks of which one is the first.
func (p *blocks) markSources(into *inverse, targets []uint16, class int, touched []int) []int {
	for _, target := range targets {
		for _, source := range into.of(target, class) {
			if p.mark(source) {
				touched = append(touched, p.of[source])
			}
		}
	}
	return touched
}

// byAccept divides the states by whether the pattern matches, and returns the blocks.
func (p *blocks) byAccept(s *Set) []int {
	first := false
	for state, accept := range s.Accept {
		if accept != 0 {
			first = p.mark(uint16(state)) || first
		}
	}
	if !first {
		return nil // all states are alike: none accepts
	}
	return []int{0, p.split(0)} // two, since Dead never accepts
}

// inverse holds the predecessors of each state by class.
type inverse struct {
	classes int
	begin   []int32 // by state*classes+class; one more at the end
	sources []uint16
}

func (v *inverse) of(state uint16, class int) []uint16 {
	i := int(state)*v.classes + class
	return v.sources[v.begin[i]:v.begin[i+1]]
}

func predecessors(s *Set) *inverse {
	v := &inverse{classes: s.ClassCount, begin: make([]int32, len(s.Next)+1), sources: make([]uint16, len(s.Next))}
	for i, target := range s.Next {
		v.begin[int(target)*s.ClassCount+i%s.ClassCount]++
	}
	total := int32(0)
	for i, count := range v.begin {
		total += count
		v.begin[i] = total
	}
	for i, target := range s.Next { // each begin moves down from its end
		slot := int(target)*s.ClassCount + i%s.ClassCount
		v.begin[slot]--
		v.sources[v.begin[slot]] = uint16(i / s.ClassCount)
	}
	return v
}

// quotient returns s with one state for each block that can be reached, numbered
// breadth first behind Dead, and with classes as coarse as they can be.
func (s *Set) quotient(p *blocks) *Set {
	bytes := s.coarsest(p)
	out := &Set{
		Patterns:   s.Patterns,
		Classes:    bytes.of,
		ClassCount: len(bytes.first),
		Lists:      s.Lists,
	}
	numbers := make([]int, len(p.begin)) // of blocks, plus one
	var order []uint16                   // a state for each number
	number := func(state uint16) uint16 {
		block := p.of[state]
		if numbers[block] == 0 {
			order = append(order, state)
			numbers[block] = len(order)
		}
		return uint16(numbers[block] - 1)
	}
	number(Dead)
	out.Start = number(s.Start)
	for i := 0; i < len(order); i++ {
		for _, b := range bytes.first {
			out.Next = append(out.Next, number(s.next(order[i], s.Classes[b])))
		}
		out.Accept = append(out.Accept, s.Accept[order[i]])
	}
	if out.Start == Dead {
		out.Lists = s.Lists[:1]
	}
	return out
}

// coarsest divides the bytes by where they lead from the states that can be reached.
func (s *Set) coarsest(p *blocks) classes {
	columns := make([]string, s.ClassCount)
	for class := range columns {
		var column []byte
		for block := range p.begin {
			target := p.of[s.next(p.order[p.begin[block]], uint8(class))]
			column = append(column, byte(target), byte(target>>8))
		}
		columns[class] = string(column)
	}
	return classify(func(b byte) string { return columns[s.Classes[b]] })
}
