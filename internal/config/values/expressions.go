// SPDX-License-Identifier: Apache-2.0

package values

import (
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/xlb-project/xlb/internal/model/matcher"
)

// What regular expressions may cost (matcher.Regex.Cost), in steps of some 100 nanoseconds and 100 bytes. An expression
// for a path has some hundred, so that there is room for 40,000 of them; a hostile one, such as \pL{1000}, has
// tens of thousands in a few bytes. They are counted, not timed: a configuration is refused on every machine,
// or on none.
const (
	maxExpression  = 1 << 17
	maxExpressions = 4 << 20
)

// effort is what the expressions of a configuration have cost so far.
type effort struct {
	cost int
	// reported: the resource that is being translated has a problem that says so. It would have one for each expression.
	reported bool
}

// Cost is what the expressions have cost so far, in steps (matcher.Regex.Cost).
func (r *Reader) Cost() int { return r.effort.cost }

// AddCost counts expressions that are taken over from the configuration before, and not compiled again.
func (r *Reader) AddCost(steps int) { r.effort.cost += steps }

// NextResource begins a resource. Where expressions are too many, each resource has one problem that says so.
func (r *Reader) NextResource() { r.effort.reported = false }

// Regex reads an expression (RegexMatcher.regex). Envoy's is RE2, and Go's package takes its syntax, but for \C and the few names of classes that
// one of the two does not know. It returns nil after a problem: an expression with an error of syntax, longer than 131,072 bytes, or of a higher
// cost than as many steps; or one with which those of the configuration cost more than 4,194,304.
func (r *Reader) Regex(m *matcherv3.RegexMatcher, path string) *matcher.Regex {
	path += ".regex"
	source := m.GetRegex()
	if len(source) > maxExpression {
		r.p.Add(path, "an expression of %d bytes, more than %d; divide it, or match by prefixes", len(source), maxExpression)
		return nil
	}
	if !r.affords(len(source)/4, path) {
		return nil
	}
	re, err := matcher.NewRegex(source)
	if err != nil {
		r.p.Add(path, "%v; write an expression of RE2's syntax, without \\C", err)
		return nil
	}
	cost := re.Cost()
	if cost > maxExpression {
		r.p.Add(path, "takes %d steps to compile (one for each character, range of a class and operator, as often as it is repeated), more than %d; "+
			"use smaller repetitions and classes", cost, maxExpression)
		return nil
	}
	if !r.affords(cost, path) {
		return nil
	}
	r.effort.cost += cost
	return re
}

// affords says whether a further expression may be compiled. Once one may not, no other is looked at.
func (r *Reader) affords(cost int, path string) bool {
	if r.effort.cost+cost <= maxExpressions {
		return true
	}
	r.effort.cost = maxExpressions
	if !r.effort.reported {
		r.effort.reported = true
		r.p.Add(path, "the regular expressions of the configuration, up to this one, take more than %d steps to compile; "+
			"use fewer of them, smaller repetitions and classes, or prefixes", maxExpressions)
	}
	return false
}
