// SPDX-License-Identifier: Apache-2.0

package dfa

import (
	"errors"
	"math"
	"slices"
)

const (
	// lazyBytes is the size of a Lazy's states, and of what finds them, above which it forgets them all. RE2 does the same within its memory budget.
	lazyBytes = 4 << 20
	// perState is how many bytes have to be walked for each state that is made: if there were fewer until all are forgotten, states do not pay, and a
	// machine without them is faster. It is RE2's number.
	perState = 10
	// LazyInstructions is how large the NFA of a Lazy may be, so that it is made within a millisecond and takes some 500 KB.
	LazyInstructions = 1 << 12
	// missing is the work of a state that is not known yet, besides that of its construction, in steps.
	missing = 32
)

// Lazy walks the DFA of one pattern whose states are made as inputs ask for them, and forgotten when they are too many: for patterns whose DFA is too
// large for a [Set]. It must not be used by several goroutines at a time.
type Lazy struct {
	*construction
	// next holds a row for each state; entries that nobody has asked for are unknown.
	next    []uint16
	targets []int32
	// walked is how many bytes were since all states were forgotten.
	walked int
}

// unknown is no state.
const unknown = math.MaxUint16

// Position is where a walk has come to. The zero Position is before the first byte. All Lazies of a pattern take the Positions of one.
type Position struct {
	started bool
	subset
}

// IsDead says whether the pattern matches no input that comes by this position.
func (p Position) IsDead() bool { return p.started && len(p.at) == 0 }

// NewLazy returns the DFA of a pattern, without states. The error is a *syntax.Error, or a *LimitError for a pattern that is too large.
func NewLazy(pattern string) (*Lazy, error) {
	n, err := parse(pattern, &budget{left: 2 * LazyInstructions})
	switch {
	case errors.Is(err, errWork), err == nil && len(n.code) > LazyInstructions:
		return nil, &LimitError{PatternSteps, LazyInstructions}
	case err != nil:
		return nil, err
	}
	l := &Lazy{construction: newConstruction(n, unknown)}
	l.forget()
	return l, nil
}

// forget drops all states but [Dead].
func (l *Lazy) forget() {
	l.subsets, l.next = l.subsets[:0], l.next[:0]
	clear(l.numberOf)
	clear(l.followers)
	l.memory, l.walked = 0, 0
	l.work.left = math.MaxInt
	l.state(l.stateAt(nil, other))
}

// state takes what follow and number return. They have no error, since there is always room for a state, and for the steps of one.
func (l *Lazy) state(number uint16, _ error) uint16 {
	for len(l.next) < len(l.subsets)*len(l.bytes.first) {
		l.next = append(l.next, unknown)
	}
	return number
}

// enter returns the state at a position.
func (l *Lazy) enter(p Position) uint16 {
	if !p.started {
		return l.state(l.stateAt([]int32{l.start}, edge))
	}
	return l.state(l.number(p.at, p.before))
}

// position returns where a state is.
func (l *Lazy) position(state uint16) Position {
	s := l.subsets[state]
	s.at = slices.Clone(s.at)
	return Position{true, s}
}

// Walk goes on from a position, until the text ends or so many steps are done, and one byte at least. A byte takes one step where its state is known, and more
// where it has to be made. It returns the position behind, the rest of the text, and the steps. If states do not pay, ok is false, and the position of no use.
func (l *Lazy) Walk(from Position, text string, steps int) (to Position, rest string, done int, ok bool) {
	l.work.left = math.MaxInt
	state := l.enter(from)
	row := len(l.bytes.first)
	i := 0
	for ; i < len(text) && state != Dead; i++ {
		class := l.bytes.of[text[i]]
		next := l.next[int(state)*row+int(class)]
		if next != unknown {
			state = next
			continue
		}
		if done = i + l.steps(); done >= steps && i > 0 {
			break
		}
		if l.isFull() {
			if l.walked+i < perState*len(l.subsets) {
				l.forget()
				return Position{}, "", done, false
			}
			state = l.renew(state)
			l.walked = -i
		}
		state = l.make(state, class)
	}
	l.walked += i
	if state == Dead {
		i = len(text)
	}
	return l.position(state), text[i:], i + l.steps(), true
}

func (l *Lazy) steps() int { return math.MaxInt - l.work.left }

func (l *Lazy) isFull() bool { return l.size() > lazyBytes || len(l.subsets) >= unknown-1 }

// renew forgets all states but one, and returns its new number.
func (l *Lazy) renew(state uint16) uint16 {
	at, left := l.position(state), l.work.left
	l.forget()
	l.work.left = left
	return l.enter(at)
}

// make makes the state behind a state and a byte of a class.
func (l *Lazy) make(state uint16, class uint8) uint16 {
	first := l.bytes.first[class]
	after := kindOf(first, l.looks)
	l.targets = l.step(l.targets[:0], l.resolve(l.subsets[state], after), first)
	next := l.state(l.stateAt(l.targets, after))
	l.next[int(state)*len(l.bytes.first)+int(class)] = next
	l.work.left -= missing
	return next
}

// Accepts says whether the pattern matches an input that ends at a position.
func (l *Lazy) Accepts(p Position) bool { return l.matches(l.resolve(l.subsets[l.enter(p)], edge)) }

// size is that of the states and of what finds them, in bytes.
func (l *Lazy) size() int { return l.memory + 2*len(l.next) }
