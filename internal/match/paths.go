// SPDX-License-Identifier: Apache-2.0

package match

import (
	"maps"
	"regexp"
	"slices"

	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/sift"
)

// paths finds those routes of a virtual host whose path match accepts a path. A route is known by its
// position; lists of positions ascend.
type paths struct {
	exact, prefixes map[string][]uint32
	// lengths of the prefixes.
	lengths []int
	// sets have expressions; patterns are the positions of those.
	sets     []*dfa.Set
	patterns []uint32
	// rest are the positions of expressions that no set has, and sieve leaves those of them out that do not match; alone are their own sets,
	// as far as there are any, by position.
	rest  []uint32
	sieve *sift.Sieve
	alone map[uint32]*dfa.Set
	// connects are those of CONNECT.
	connects []uint32
}

// newPaths indexes routes; compiler may be nil where none has an expression.
func newPaths(routes []*model.Route, compiler *dfa.Compiler) *paths {
	p := &paths{exact: map[string][]uint32{}, prefixes: map[string][]uint32{}}
	var expressions []string
	for i, r := range routes {
		position := uint32(i)
		switch m := r.Path; {
		case m.Kind == matcher.PathConnect:
			p.connects = append(p.connects, position)
		case isExpression(m):
			expressions = append(expressions, Expression(m))
			p.patterns = append(p.patterns, position)
		case m.Kind == matcher.PathExact:
			p.exact[m.Value] = append(p.exact[m.Value], position)
		case m.Kind == matcher.PathSeparatedPrefix:
			p.exact[m.Value] = append(p.exact[m.Value], position)
			p.prefixes[m.Value+"/"] = append(p.prefixes[m.Value+"/"], position)
		default:
			p.prefixes[m.Value] = append(p.prefixes[m.Value], position)
		}
	}
	p.addAutomata(expressions, compiler)
	p.lengths = lengthsOf(p.prefixes)
	return p
}

func (p *paths) addAutomata(expressions []string, compiler *dfa.Compiler) {
	if len(expressions) == 0 {
		return
	}
	sets, refused := compiler.Partition(expressions)
	p.sets = sets
	var left []string
	p.alone = map[uint32]*dfa.Set{}
	for _, r := range refused {
		position := p.patterns[r.Index]
		p.rest, left = append(p.rest, position), append(left, r.Pattern)
		if r.Alone != nil {
			p.alone[position] = r.Alone
		}
	}
	if len(left) > 0 {
		p.sieve = sift.New(left)
	}
}

func lengthsOf(texts map[string][]uint32) []int {
	lengths := map[int]bool{}
	for text := range texts {
		lengths[len(text)] = true
	}
	return slices.Sorted(maps.Keys(lengths))
}

// candidates are the routes that may take a path; ok is false if the client has gone meanwhile.
func (p *paths) candidates(path string, at *pace) (c candidates, ok bool) {
	c.add(p.exact[path], nil, true)
	for _, length := range p.lengths {
		if length > len(path) {
			break
		}
		c.add(p.prefixes[path[:length]], nil, true)
	}
	for group := range slices.Chunk(p.sets, dfa.Abreast) {
		states, ok := walk(group, path, at)
		if !ok {
			return candidates{}, false
		}
		for i, set := range group {
			c.add(set.Accepted(states[i]), p.patterns, true)
		}
	}
	if p.sieve != nil {
		passed, ok := p.sieve.Pass(path, at.goOn)
		if !ok {
			return candidates{}, false
		}
		for i, index := range passed {
			passed[i] = p.rest[index]
		}
		c.add(passed, nil, false)
	}
	return c, at.goOn(len(path))
}

// isExpression reports whether keys do not decide about a path match.
func isExpression(m matcher.PathMatch) bool {
	return m.Kind == matcher.PathRegex || m.IgnoreCase && m.Kind != matcher.PathConnect
}

// Expression writes a path match that is not of CONNECT as an expression.
func Expression(m matcher.PathMatch) string {
	if m.Kind == matcher.PathRegex {
		return m.Value
	}
	literal := `(?i)` + regexp.QuoteMeta(m.Value)
	switch m.Kind {
	case matcher.PathPrefix:
		return literal + `(?s:.*)`
	case matcher.PathSeparatedPrefix:
		return literal + `(?s:/.*)?`
	default:
		return literal
	}
}
