// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// textExpression writes a comparison as an expression for all of a value.
func textExpression(m *matcher.StringMatch) string {
	const anything = `(?s:.*)`
	text := regexp.QuoteMeta(m.Value)
	if m.IgnoreCase {
		text = `(?i)` + text
	}
	switch m.Kind {
	case matcher.StringRegex:
		return m.Value
	case matcher.StringPrefix:
		return text + anything
	case matcher.StringSuffix:
		return anything + text
	case matcher.StringContains:
		return anything + text + anything
	default:
		return text
	}
}

// nothing matches no value.
const nothing = `[^\x00-\xff]`

// rangeExpression writes the decimal integers of a range as matcher.Range.Contains reads them: with a sign, and
// with zeros before them. White space around a value is none of it.
func rangeExpression(r matcher.Range) string {
	if r.Start >= r.End {
		return nothing
	}
	var ways []string
	last := r.End - 1
	if r.Start < 0 {
		ways = append(ways, `-0*`+between(magnitude(min(last, -1)), magnitude(r.Start)))
	}
	if r.Start <= 0 && last >= 0 {
		ways = append(ways, `[+-]?0+`)
	}
	if last > 0 {
		ways = append(ways, `\+?0*`+between(uint64(max(r.Start, 1)), uint64(last)))
	}
	return strings.Join(ways, "|")
}

// magnitude is right for the lowest integer, too.
func magnitude(n int64) uint64 { return -uint64(n) }

// between writes the numbers from first to last, both at least 1, without zeros before them.
func between(first, last uint64) string {
	var ways []string
	low, high := strconv.FormatUint(first, 10), strconv.FormatUint(last, 10)
	for n := len(low); n <= len(high); n++ {
		from, to := "1"+strings.Repeat("0", n-1), strings.Repeat("9", n)
		if n == len(low) {
			from = low
		}
		if n == len(high) {
			to = high
		}
		ways = append(ways, digits(from, to))
	}
	return `(?:` + strings.Join(ways, "|") + `)`
}

// digits writes the texts of digits from one to another of the same length.
func digits(from, to string) string {
	n := len(from)
	switch {
	case n == 0:
		return ""
	case from == strings.Repeat("0", n) && to == strings.Repeat("9", n):
		return fmt.Sprintf(`[0-9]{%d}`, n)
	case from[0] == to[0]:
		return from[:1] + digits(from[1:], to[1:])
	}
	ways := []string{from[:1] + digits(from[1:], strings.Repeat("9", n-1))}
	if from[0]+1 < to[0] {
		ways = append(ways, fmt.Sprintf(`[%c-%c][0-9]{%d}`, from[0]+1, to[0]-1, n-1))
	}
	ways = append(ways, to[:1]+digits(strings.Repeat("0", n-1), to[1:]))
	return `(?:` + strings.Join(ways, "|") + `)`
}

// compileExpressions makes automata of the expressions for one header, and notes which of them none takes. Of
// more than there are bits for, none could tell a request apart.
func (s *conditionSet) compileExpressions(name string, left *Space) {
	of := s.classes[name]
	if n := int(maps.MaxPredicates); len(of.expressions) > n {
		for _, c := range of.expressions[n:] {
			s.refused[c] = fmt.Sprintf("more than %d different conditions on headers and query parameters in one route table", n)
		}
		of.expressions = of.expressions[:n]
	}
	patterns := make([]string, len(of.expressions))
	for i, c := range of.expressions {
		patterns[i] = c.value
	}
	sets, refused := left.compiler.Partition(patterns)
	kind, text := subject(name)
	for _, r := range refused {
		s.refused[of.expressions[r.Index]] = fmt.Sprintf("%s %q: an expression that %v", kind, text, r.Err)
	}
	for _, set := range sets {
		if err := left.take(tables.Blocks(len(set.Next))+tables.Blocks(len(set.Accept)), len(set.Lists), 0); err != nil {
			for _, p := range set.Patterns {
				s.refused[of.expressions[p]] = fmt.Sprintf("%s %q: an expression that %v", kind, text, err)
			}
			continue
		}
		of.sets = append(of.sets, set)
	}
}

// automata writes down the automata for a header of which some condition has a bit.
func (s *conditionSet) automata(of *valueClasses, t *tables.Table) (first, count uint32) {
	first = uint32(len(t.Automata))
	for _, set := range of.sets {
		a := tables.Automaton{Classes: set.Classes, ClassCount: uint32(set.ClassCount), Start: set.Start, Next: set.Next, Accept: set.Accept}
		var all uint64
		for _, list := range set.Lists {
			bits := s.bitsOf(of, list)
			a.Values = append(a.Values, bits)
			all |= bits
		}
		if all != 0 {
			t.Automata = append(t.Automata, a)
		}
	}
	return first, uint32(len(t.Automata)) - first
}

// bitsOf returns the bits of expressions that have one.
func (s *conditionSet) bitsOf(of *valueClasses, list []uint32) (bits uint64) {
	for _, p := range list {
		if _, known := s.bits[of.expressions[p]]; known {
			bits |= s.bit(of.expressions[p])
		}
	}
	return bits
}

// matching returns the conditions on a header that match a value.
func (s *conditionSet) matching(of *valueClasses, value string) (bits uint64) {
	for _, set := range of.sets {
		bits |= s.bitsOf(of, set.Match([]byte(value)))
	}
	return bits
}
