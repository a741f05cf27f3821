// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"regexp/syntax"
	"strings"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/re2"
)

// regexPath is a path match that no single key decides: an expression, one that
// ignores case, or one longer than the kernel compares. All paths that match begin with its
// stem, which is a key: so they find it or a longer key. What no automaton takes may match.
type regexPath struct {
	position int
	match    matcher.PathMatch
	// set is the number of the set of expressions that it is in; 0: none.
	set int
	// automaton finds the paths that match: its index in the table. If it is negative, none does, and why says why.
	automaton int
	why       string
}

// reach says how a path match stands to the paths that find a key.
type reach uint8

const (
	// misses: it accepts none of them.
	misses reach = iota
	// mayAccept: it may accept some.
	mayAccept
	// accepts: it accepts all.
	accepts
)

// reach decides over a key that begins with the stem: a prefix, or a whole path.
func (p *regexPath) reach(value string, whole bool) reach {
	switch {
	case whole && p.match.Matches(value):
		return accepts
	case whole:
		return misses
	case p.match.Kind == matcher.PathRegex:
		return mayAccept
	}
	want := p.match.Value
	if p.match.IgnoreCase {
		value, want = ascii.Lower(value), ascii.Lower(want)
	}
	if p.match.Kind == matcher.PathSeparatedPrefix {
		want += "/"
	}
	switch {
	case p.match.Kind != matcher.PathExact && strings.HasPrefix(value, want):
		return accepts
	case strings.HasPrefix(want, value):
		return mayAccept
	default:
		return misses
	}
}

// isRegexPath reports whether no single key decides about a match.
func isRegexPath(m matcher.PathMatch) bool {
	return m.Kind == matcher.PathRegex || m.IgnoreCase && hasLetters(m.Value) || len(m.Value) > longestPath(m.Kind)
}

// longestPath is how long a value can be for keys to decide about it. A separated
// prefix needs room for its "/".
func longestPath(kind matcher.PathKind) int {
	if kind == matcher.PathPrefix {
		return maxPrefixPath
	}
	return maxExactPath
}

// stemOf returns what begins every path that matches, as far as the kernel compares it. What begins the texts of an expression is asked
// of prefixOf.
func stemOf(m matcher.PathMatch, prefixOf func(expression string) string) string {
	stem := m.Value
	if m.Kind == matcher.PathRegex {
		stem = prefixOf(m.Value)
	}
	if m.IgnoreCase {
		stem = stem[:lettersAt(stem)]
	}
	return stem[:min(len(stem), maxPrefixPath)]
}

// lettersAt is where the first ASCII letter stands, or the length.
func lettersAt(s string) int {
	isLetter := func(c rune) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
	if i := strings.IndexFunc(s, isLetter); i >= 0 {
		return i
	}
	return len(s)
}

func hasLetters(s string) bool { return lettersAt(s) < len(s) }

// literalPrefix returns what begins every text that an expression matches as a whole.
func literalPrefix(source string) string {
	re, err := re2.Parse(source)
	if err != nil {
		return ""
	}
	prefix, _ := literalBeginning(re)
	return re2.Bytes(prefix)
}

// literalBeginning also says whether the expression is nothing but that literal.
func literalBeginning(re *syntax.Regexp) (prefix string, all bool) {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginText:
		return "", true
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return string(re.Rune), true
		}
	case syntax.OpCapture:
		return literalBeginning(re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			more, all := literalBeginning(sub)
			prefix += more
			if !all {
				return prefix, false
			}
		}
		return prefix, true
	}
	return "", false
}

// reasonOf says, for a note, why a key does not decide about a path match.
func reasonOf(m matcher.PathMatch) string {
	switch {
	case m.Kind == matcher.PathRegex:
		return "a regular expression"
	case m.IgnoreCase && hasLetters(m.Value):
		return "a path of which the case is ignored, where it differs"
	}
	what := "path prefix"
	if m.Kind == matcher.PathExact {
		what = "exact path"
	}
	return fmt.Sprintf("%s of %d bytes, more than %d", what, len(m.Value), longestPath(m.Kind))
}
