// SPDX-License-Identifier: Apache-2.0

package matcher

import (
	"regexp"
	"sync"

	"github.com/xlb-project/xlb/internal/re2"
)

// Regex is a regular expression in RE2's syntax that has to match all of a value
// (envoy.type.matcher.v3.RegexMatcher).
//
// Expression and value are bytes, not text: see internal/re2.
type Regex struct {
	source string
	cost   int
	whole  pattern
}

// pattern is compiled when it is first used: nearly all are matched by automata alone (internal/dfa).
type pattern struct {
	once sync.Once
	re   *regexp.Regexp
}

// get is for an expression that re2.Check has passed.
func (p *pattern) get(source string, compile func(source string) (*regexp.Regexp, error)) *regexp.Regexp {
	p.once.Do(func() { p.re, _ = compile(source) })
	return p.re
}

// NewRegex checks an expression. The error is that of regexp/syntax.
func NewRegex(source string) (*Regex, error) {
	cost, err := re2.Check(source)
	if err != nil {
		return nil, err
	}
	return &Regex{source: source, cost: cost}, nil
}

// Cost is what it costs to compile the expression, in steps (re2.Check).
func (r *Regex) Cost() int { return r.cost }

// String is the expression as it was written.
func (r *Regex) String() string { return r.source }

// Equal compares the expressions as they were written.
func (r *Regex) Equal(other *Regex) bool {
	if r == nil || other == nil {
		return r == other
	}
	return r.source == other.source
}

// Matches reports whether the expression matches all of the value.
func (r *Regex) Matches(value string) bool {
	return r.whole.get(r.source, re2.CompileWhole).MatchString(re2.Text(value))
}

// Pace is called, as work proceeds, with a number of steps of it, of some ten nanoseconds each. It may wait, and reports whether to go on.
type Pace func(steps int) bool

// quick is how many steps are done at a time: some hundreds of microseconds.
const quick = 1 << 15

// MatchesAt is Matches at a pace. If the pace says not to go on it returns anything.
func (r *Regex) MatchesAt(pace Pace, value string) bool {
	// Regexp takes no more steps for each character than it has instructions.
	if r.cost*len(value) <= quick {
		return pace(r.cost*len(value)) && r.Matches(value)
	}
	return r.whole.get(r.source, re2.CompileWhole).MatchReader(re2.NewReader(value, paced(pace, r.cost)))
}

// paced counts characters that take so many steps each.
func paced(pace Pace, cost int) func() bool {
	steps := 0
	return func() bool {
		steps += cost
		if steps < quick {
			return true
		}
		done := steps
		steps = 0
		return pace(done)
	}
}

// Unpaced is the pace of work that never waits.
func Unpaced(int) bool { return true }
