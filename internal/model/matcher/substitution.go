// SPDX-License-Identifier: Apache-2.0

package matcher

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/xlb-project/xlb/internal/plural"
	"github.com/xlb-project/xlb/internal/re2"
)

// Substitution replaces whatever a regular expression finds
// (envoy.type.matcher.v3.RegexMatchAndSubstitute).
type Substitution struct {
	pattern pattern
	// behind finds the first match behind the first character, which is looked at by those conditions that ask for what is in front of a match: \b, ^.
	behind pattern
	// cost is that of the expression, in steps for each character.
	cost         int
	source, with string
	// segments are the literals of the substitution and between them the groups.
	segments []segment
}

// segment is a literal, and behind it a group of the expression unless it is negative.
type segment struct {
	literal string
	group   int
}

// NewSubstitution checks an expression and what stands in place of its matches:
// there \0 to \9 are what the groups found, and \\ is a backslash.
func NewSubstitution(regex, with string) (*Substitution, error) {
	re, err := re2.Parse(regex)
	if err != nil {
		return nil, err
	}
	if err := re2.CheckBehind(regex); err != nil {
		return nil, err
	}
	cost, err := re2.Check(regex)
	if err != nil {
		return nil, err
	}
	groups := re.MaxCap()
	s := &Substitution{source: regex, with: with, cost: cost}
	for rest := with; ; {
		literal, escape, found := strings.Cut(rest, `\`)
		if !found {
			s.segments = append(s.segments, segment{literal, -1})
			return s, nil
		}
		if escape == "" || escape[0] != '\\' && (escape[0] < '0' || escape[0] > '9') {
			return nil, fmt.Errorf(`substitution %q: behind a backslash stands a digit or another backslash`, with)
		}
		next := segment{literal: literal + `\`, group: -1}
		if escape[0] != '\\' {
			next = segment{literal, int(escape[0] - '0')}
		}
		if next.group > groups {
			return nil, fmt.Errorf(`substitution %q: \%d, and the expression has %s`, with, next.group, plural.Of(groups, "group"))
		}
		s.segments = append(s.segments, next)
		rest = escape[1:]
	}
}

// Replace replaces every match in a value of ASCII.
func (s *Substitution) Replace(value string) string { return s.ReplaceAt(Unpaced, value) }

// ReplaceAt is Replace at a pace, which must say to go on.
func (s *Substitution) ReplaceAt(pace Pace, value string) string {
	if s.cost*len(value) <= quick || !isASCII(value) {
		pace(s.cost * len(value))
		return s.substitute(value, s.pattern.get(s.source, re2.Compile).FindAllStringSubmatchIndex(value, -1))
	}
	return s.substitute(value, s.find(pace, value))
}

// find is [regexp.Regexp.FindAllStringSubmatchIndex], which reads as long as there are bytes. An empty match at the end of another one does not count.
func (s *Substitution) find(pace Pace, value string) (all [][]int) {
	count := paced(pace, s.cost)
	for at, last := 0, -1; at <= len(value); {
		match := s.next(count, value, at)
		if match == nil {
			break
		}
		isNone := match[1] == at && match[0] == last
		last = match[1]
		at = max(at+1, last)
		if !isNone {
			all = append(all, match)
		}
	}
	return all
}

// next is the first match from an offset on, or nil.
func (s *Substitution) next(count func() bool, value string, at int) []int {
	if at == 0 {
		return s.pattern.get(s.source, re2.Compile).FindReaderSubmatchIndex(re2.NewReader(value, count))
	}
	re := s.behind.get(s.source, re2.CompileBehind)
	match := re.FindReaderSubmatchIndex(re2.NewReader(value[at-1:], count))
	if match == nil {
		return nil
	}
	match = match[2:]
	for i := range match {
		if match[i] >= 0 {
			match[i] += at - 1
		}
	}
	return match
}

// substitute replaces matches, each with the places of its groups.
func (s *Substitution) substitute(value string, matches [][]int) string {
	var out strings.Builder
	end := 0
	for _, match := range matches {
		out.WriteString(value[end:match[0]])
		for _, p := range s.segments {
			out.WriteString(p.literal)
			if p.group >= 0 && match[2*p.group] >= 0 {
				out.WriteString(value[match[2*p.group]:match[2*p.group+1]])
			}
		}
		end = match[1]
	}
	out.WriteString(value[end:])
	return out.String()
}

func isASCII(value string) bool {
	return !strings.ContainsFunc(value, func(r rune) bool { return r >= utf8.RuneSelf })
}

// Regex is the expression as it was written.
func (s *Substitution) Regex() string { return s.source }

// With is the substitution as it was written.
func (s *Substitution) With() string { return s.with }

// Equal compares what was written.
func (s *Substitution) Equal(other *Substitution) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.source == other.source && s.with == other.with
}
