// SPDX-License-Identifier: Apache-2.0

package match

import (
	"slices"
	"sync"

	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

const (
	// shelved is how many automata a shelf keeps, of some 4.5 MB at most.
	shelved = 8
	// quick is a match that regexp does in less time than an automaton is made in: so many steps, of its instructions times the bytes.
	quick = 1 << 15
	// making is how many steps it takes to make an automaton, for each instruction.
	making = 32
)

// shelf has automata whose states are made as they are needed, for expressions for which there are no tables. It may be used by many goroutines. An
// automaton is taken for a stretch of work at a time, so that there are as many of them as work at once, besides those on the shelf.
type shelf struct {
	mu sync.Mutex
	// free is guarded by mu; the one that was used last is last.
	free []book
}

type book struct {
	of   *matcher.Regex
	lazy *dfa.Lazy
}

// take returns an automaton of an expression; nil: there is none on the shelf.
func (s *shelf) take(re *matcher.Regex) *dfa.Lazy {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, b := range slices.Backward(s.free) {
		if b.of == re {
			s.free = slices.Delete(s.free, i, i+1)
			return b.lazy
		}
	}
	return nil
}

func (s *shelf) put(re *matcher.Regex, lazy *dfa.Lazy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == shelved {
		s.free = slices.Delete(s.free, 0, 1)
	}
	s.free = append(s.free, book{re, lazy})
}

// matches is [matcher.Regex.Matches], or anything if the client has gone meanwhile.
func (s *shelf) matches(re *matcher.Regex, value string, at *pace) bool {
	if re.Cost()*len(value) > quick && re.Cost() <= dfa.LazyInstructions {
		if accepts, ok := s.walk(re, value, at); ok {
			return accepts
		}
	}
	return re.MatchesAt(at.goOn, value)
}

// walk does it with an automaton; ok is false where there is none, or where it does not pay.
func (s *shelf) walk(re *matcher.Regex, value string, at *pace) (accepts, ok bool) {
	var position dfa.Position
	for {
		lazy := s.take(re)
		if lazy == nil {
			var err error
			if lazy, err = dfa.NewLazy(re.String()); err != nil {
				return false, false
			}
			if !at.goOn(making * re.Cost()) {
				return false, true
			}
		}
		part := value[:min(len(value), stretch)]
		next, rest, steps, pays := lazy.Walk(position, part, stretch)
		if !pays {
			return false, false
		}
		position, value = next, value[len(part)-len(rest):]
		ended := value == "" || position.IsDead()
		accepts = ended && lazy.Accepts(position)
		s.put(re, lazy)
		if !at.goOn(steps) || ended {
			return accepts, true
		}
	}
}
