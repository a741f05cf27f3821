// SPDX-License-Identifier: Apache-2.0

package sift

import (
	"cmp"
	"regexp/syntax"
	"slices"

	"github.com/xlb-project/xlb/internal/ascii"
	"github.com/xlb-project/xlb/internal/re2"
)

const (
	// maxChoices is how many words a clause has at most.
	maxChoices = 16
	// maxLength and minLength are those of a word in bytes. Of a longer one the end counts: names that are numbered differ there. One byte
	// is in most values.
	maxLength, minLength = 64, 2
	// maxClauses is how many clauses of an expression are looked for.
	maxClauses = 4
)

// clause is words in lower case of which a value has at least one in it.
type clause []string

// needs is what is known of the texts that a part of an expression matches.
type needs struct {
	// exact are all these texts, in lower case, or more; nil if they are too many.
	exact []string
	// clauses hold for each of the texts.
	clauses []clause
}

// words returns the clauses that hold for whatever an expression matches, the most telling first: those with the longest words.
// There are none for an expression that internal/re2 refuses.
func words(expression string) []clause {
	re, err := re2.Parse(expression)
	if err != nil {
		return nil
	}
	all := needsOf(re).asClauses()
	slices.SortStableFunc(all, func(a, b clause) int { return cmp.Compare(b.shortest(), a.shortest()) })
	all = slices.DeleteFunc(all, func(c clause) bool { return c.shortest() < minLength })
	return all[:min(len(all), maxClauses)]
}

func (c clause) shortest() int {
	return len(slices.MinFunc(c, func(a, b string) int { return cmp.Compare(len(a), len(b)) }))
}

// asClauses are the clauses, and one more where all texts are known and none is empty.
func (n needs) asClauses() []clause {
	if len(n.exact) == 0 || slices.Contains(n.exact, "") {
		return n.clauses
	}
	c := make(clause, len(n.exact))
	for i, word := range n.exact {
		c[i] = word[max(len(word)-maxLength, 0):]
	}
	return append(slices.Clip(n.clauses), c)
}

// needsOf recurses as deep as the expression nests, which regexp/syntax bounds to 1000.
func needsOf(re *syntax.Regexp) needs {
	switch re.Op {
	case syntax.OpLiteral:
		return literal(re.Rune)
	case syntax.OpCharClass:
		return class(re.Rune)
	case syntax.OpCapture:
		return needsOf(re.Sub[0])
	case syntax.OpConcat:
		return concat(re.Sub)
	case syntax.OpAlternate:
		return alternate(re.Sub)
	case syntax.OpQuest:
		return needs{exact: choices(needsOf(re.Sub[0]).exact, []string{""})}
	case syntax.OpPlus:
		return needs{clauses: needsOf(re.Sub[0]).asClauses()}
	case syntax.OpRepeat:
		if re.Min > 0 {
			return needs{clauses: needsOf(re.Sub[0]).asClauses()}
		}
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return needs{exact: []string{""}}
	}
	return needs{}
}

func literal(characters []rune) needs {
	var word []byte
	for _, c := range characters {
		span, ok := re2.Clip(c, c)
		if !ok {
			return needs{}
		}
		word = append(word, span.Lo)
	}
	return needs{exact: []string{ascii.Lower(string(word))}}
}

// class takes pairs of first and last characters.
func class(pairs []rune) needs {
	var exact []string
	for i := 0; i < len(pairs); i += 2 {
		span, ok := re2.Clip(pairs[i], pairs[i+1])
		if !ok {
			continue
		}
		if int(span.Hi)-int(span.Lo) > 2*maxChoices {
			return needs{}
		}
		for b := int(span.Lo); b <= int(span.Hi); b++ {
			exact = append(exact, ascii.Lower(string([]byte{byte(b)})))
		}
	}
	return needs{exact: choices(exact, []string{})}
}

// choices are all texts of two lists, each once; nil where they are too many, or one list is nil.
func choices(a, b []string) []string {
	if a == nil || b == nil {
		return nil
	}
	all := slices.Concat(a, b)
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > maxChoices {
		return nil
	}
	return all
}

// concat joins texts of neighbours into longer ones, as long as they are few.
func concat(subs []*syntax.Regexp) needs {
	run, whole := needs{exact: []string{""}}, true
	for _, sub := range subs {
		next := needsOf(sub)
		joined := product(run.exact, next.exact)
		if joined != nil {
			run.exact = joined
			continue
		}
		whole = false
		run = needs{exact: next.exact, clauses: append(run.asClauses(), next.clauses...)}
		if next.exact == nil {
			run.exact = []string{""}
		}
	}
	if whole {
		return run
	}
	return needs{clauses: run.asClauses()}
}

// product is each text of a with each of b behind it; nil where they are too many or too long, or one list is nil.
func product(a, b []string) []string {
	if a == nil || b == nil || len(a)*len(b) > maxChoices {
		return nil
	}
	var all []string
	for _, x := range a {
		for _, y := range b {
			if len(x)+len(y) > maxLength && x != "" {
				return nil
			}
			all = append(all, x+y)
		}
	}
	return choices(all, []string{})
}

// alternate needs one of what each of its parts needs.
func alternate(subs []*syntax.Regexp) needs {
	exact := []string{}
	var either clause
	for _, sub := range subs {
		n := needsOf(sub)
		exact = choices(exact, n.exact)
		all := n.asClauses()
		if len(all) == 0 {
			all = []clause{{""}}
		}
		either = append(either, slices.MaxFunc(all, func(a, b clause) int { return cmp.Compare(a.shortest(), b.shortest()) })...)
	}
	switch {
	case len(exact) > 0:
		return needs{exact: exact}
	case len(either) > maxChoices:
		return needs{}
	}
	return needs{exact: nil, clauses: []clause{either}}
}
