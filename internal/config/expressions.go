// SPDX-License-Identifier: Apache-2.0

package config

import (
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/xlb-project/xlb/internal/model"
)

// What regular expressions may cost (model.Regex.Cost), in steps of some 100 nanoseconds and 100 bytes. An expression
// for a path has some hundred, so that there is room for 40,000 of them; a hostile one, such as \pL{1000}, has
// tens of thousands in a few bytes. They are counted, not timed: a configuration is refused on every machine,
// or on none.
const (
	maxExpression  = 1 << 17
	maxExpressions = 4 << 20
)

// effort is what the expressions of a configuration have cost so far.
type effort struct {
	spent int
	// told: what is being translated has been told that there are too many. It would be told of each of them.
	told bool
}

// regex reads an expression. Envoy's is RE2, and Go's package takes its syntax,
// but for \C and the few names of classes that one of the two does not know.
func (t *translator) regex(m *matcherv3.RegexMatcher, path string) *model.Regex {
	path += ".regex"
	source := m.GetRegex()
	if len(source) > maxExpression {
		t.p.Add(path, "an expression of %d bytes, more than %d; divide it, or match by prefixes", len(source), maxExpression)
		return nil
	}
	if !t.affords(len(source)/4, path) {
		return nil
	}
	re, err := model.NewRegex(source)
	if err != nil {
		t.p.Add(path, "%v; write an expression of RE2's syntax, without \\C", err)
		return nil
	}
	cost := re.Cost()
	if cost > maxExpression {
		t.p.Add(path, "takes %d steps to compile (one for each character, range of a class and operator, as often as it is repeated), more than %d; "+
			"use smaller repetitions and classes", cost, maxExpression)
		return nil
	}
	if !t.affords(cost, path) {
		return nil
	}
	t.effort.spent += cost
	return re
}

// affords says whether a further expression may be compiled. Once one may not, no other is looked at.
func (t *translator) affords(cost int, path string) bool {
	if t.effort.spent+cost <= maxExpressions {
		return true
	}
	t.effort.spent = maxExpressions
	if !t.effort.told {
		t.effort.told = true
		t.p.Add(path, "the regular expressions of the configuration, up to this one, take more than %d steps to compile; "+
			"use fewer of them, smaller repetitions and classes, or prefixes", maxExpressions)
	}
	return false
}
