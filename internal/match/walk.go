// SPDX-License-Identifier: Apache-2.0

package match

import (
	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// walk returns the states of some sets, at most dfa.Abreast, behind a text; ok is false if the client has gone meanwhile.
func walk(sets []*dfa.Set, text string, at *pace) (states []uint16, ok bool) {
	states = make([]uint16, len(sets))
	for i, set := range sets {
		states[i] = set.Start
	}
	for text != "" {
		part := text[:min(len(text), stretch/dfa.Abreast)]
		dfa.WalkAbreast(sets, states, part)
		text = text[len(part):]
		if !at.goOn(len(part) * len(sets)) {
			return states, false
		}
	}
	return states, true
}

// verdicts are what expressions that no set has say of a path. Those with a set of their own are asked some at a time, the next ones with the one that
// is wanted: that takes hardly longer.
type verdicts struct {
	*paths
	lazies *shelf
	path   string
	at     *pace
	// known are the last ones.
	known map[uint32]bool
}

// of reports whether the path match of the route at a position accepts the path, or anything if the client has gone meanwhile. ahead returns the
// candidates behind it.
func (v *verdicts) of(position uint32, m *matcher.PathMatch, ahead func() []uint32) bool {
	if accepts, known := v.known[position]; known {
		return accepts
	}
	switch {
	case v.alone[position] != nil:
		v.ask(position, ahead())
		return v.known[position]
	case m.Kind == matcher.PathRegex:
		return v.lazies.matches(m.Regex, v.path, v.at)
	default:
		return v.at.goOn(len(v.path)) && m.Matches(v.path)
	}
}

// ask asks the expression at a position, and as many of those ahead as are walked at once.
func (v *verdicts) ask(position uint32, ahead []uint32) {
	positions, sets := []uint32{position}, []*dfa.Set{v.alone[position]}
	for _, p := range ahead {
		if set := v.alone[p]; set != nil {
			positions, sets = append(positions, p), append(sets, set)
		}
		if len(sets) == dfa.Abreast {
			break
		}
	}
	states, _ := walk(sets, v.path, v.at)
	v.known = map[uint32]bool{}
	for i, set := range sets {
		v.known[positions[i]] = len(set.Accepted(states[i])) > 0
	}
}
