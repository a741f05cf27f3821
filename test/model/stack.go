// SPDX-License-Identifier: Apache-2.0

package model

import "fmt"

// A stack is the idle slots of an endpoint (bpf/lib/lease.h, internal/maps/lease.go), read and
// exchanged step by step by programs and the daemon at once.
type stack struct {
	// The head changes its tag with each exchange.
	tagged bool
	// Who works on it, and how often each takes or gives back a slot.
	takers, turns uint8
}

const (
	stackSlots  = 3
	stackTakers = 3
)

const (
	stackIdle uint8 = iota
	// It has read the head; and the slot behind that.
	popHead
	popNext
	pushHead
	pushNext
)

// A taker holds slots, one bit each.
type taker struct {
	at, holds, turns uint8
	// What it has read, and which slot it gives back. Slots count from 1.
	head, tag, next, slot uint8
}

type stackState struct {
	head, tag uint8
	next      [stackSlots]uint8
	takers    [stackTakers]taker
}

var _ system[stackState] = stack{}

func (c stack) initial() stackState {
	s := stackState{head: stackSlots}
	for i := range s.next {
		s.next[i] = uint8(i)
	}
	for i := range c.takers {
		s.takers[i].turns = c.turns
	}
	return s
}

func (c stack) next(s *stackState, emit func(step, *stackState)) {
	for i := range c.takers {
		k := &s.takers[i]
		do := func(what string, slot uint8, f func(*stackState, *taker)) {
			n := *s
			f(&n, &n.takers[i])
			emit(step{what: what, who: i, count: slot}, &n)
		}
		switch k.at {
		case stackIdle:
			if k.turns == 0 {
				continue
			}
			do("reads the head to take a slot", 0, func(n *stackState, k *taker) { *k = k.reads(n, popHead, 0) })
			for slot := uint8(1); slot <= stackSlots; slot++ {
				if k.holds>>slot&1 != 0 {
					do("reads the head to give back a slot", slot, func(n *stackState, k *taker) { *k = k.reads(n, pushHead, slot) })
				}
			}
		case popHead:
			do("reads what is behind the uppermost", k.head, func(n *stackState, k *taker) {
				if k.head == 0 {
					*k = taker{holds: k.holds, turns: k.turns}
					return
				}
				k.at, k.next = popNext, n.next[k.head-1]
			})
		case pushHead:
			do("puts the head behind the slot", k.slot, func(n *stackState, k *taker) {
				n.next[k.slot-1] = k.head
				k.at = pushNext
			})
		case popNext:
			do("exchanges the head for what was behind it", k.head, func(n *stackState, k *taker) { c.exchange(n, k, k.next, k.holds|1<<k.head) })
		case pushNext:
			do("exchanges the head for the slot", k.slot, func(n *stackState, k *taker) { c.exchange(n, k, k.slot, k.holds&^(1<<k.slot)) })
		}
	}
}

// reads begins to take a slot, or to give one back.
func (k *taker) reads(s *stackState, at, slot uint8) taker {
	return taker{at: at, holds: k.holds, turns: k.turns - 1, head: s.head, tag: s.tag, slot: slot}
}

// exchange ends a turn if the head is as it was read; otherwise the turn begins anew.
func (c stack) exchange(s *stackState, k *taker, head, holds uint8) {
	if s.head != k.head || c.tagged && s.tag != k.tag {
		k.turns++
		if k.at == popNext {
			*k = k.reads(s, popHead, 0)
			return
		}
		*k = k.reads(s, pushHead, k.slot)
		return
	}
	s.head = head
	s.tag++
	*k = taker{holds: holds, turns: k.turns}
}

func (c stack) wrong(s *stackState, _ bool) string {
	var found [stackSlots + 1]uint8
	for at := s.head; at != 0; at = s.next[at-1] {
		if found[at]++; found[at] > 1 {
			return fmt.Sprintf("slot %d lies in the stack twice", at)
		}
	}
	for i := range s.takers {
		for slot := range found {
			found[slot] += s.takers[i].holds >> slot & 1
		}
	}
	for slot := 1; slot <= stackSlots; slot++ {
		if found[slot] != 1 {
			return fmt.Sprintf("slot %d has %d places", slot, found[slot])
		}
	}
	return ""
}

func (c stack) tell(st step, _, _ *stackState) string {
	if st.count == 0 {
		return fmt.Sprintf("%d: %s", st.who, st.what)
	}
	return fmt.Sprintf("%d: %s (%d)", st.who, st.what, st.count)
}
