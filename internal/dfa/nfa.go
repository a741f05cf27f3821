// SPDX-License-Identifier: Apache-2.0

package dfa

import (
	"errors"
	"regexp/syntax"
	"unicode"

	"github.com/xlb-project/xlb/internal/re2"
)

// operation is what an instruction of the NFA does.
type operation uint8

const (
	opFork   operation = iota // goes on at each of to, without a byte
	opBytes                   // reads a byte of span, goes on at to
	opAssert                  // goes on at to where look holds
	opMatch
)

// instruction is a state of the NFA.
type instruction struct {
	op   operation
	look syntax.EmptyOp
	span re2.Span
	to   []int32
}

// nfa is a pattern as instructions.
type nfa struct {
	code  []instruction
	start int32
	// looks are all assertions that occur: what none asks for need not be remembered.
	looks syntax.EmptyOp
	work  *budget
}

// maxInstructions bounds the memory of an NFA to some 10 MB; it is far above what PatternSteps lets
// a pattern use.
const maxInstructions = 1 << 17

// errWork ends the construction of an NFA that became too large.
var errWork = errors.New("no steps left")

// parse reads a pattern and builds its NFA. The error is a *syntax.Error or errWork.
func parse(pattern string, work *budget) (*nfa, error) {
	re, err := re2.Parse(pattern)
	if err != nil {
		return nil, err
	}
	n := &nfa{work: work}
	end, err := n.emit(instruction{op: opMatch})
	if err != nil {
		return nil, err
	}
	n.start, err = n.build(re, end)
	return n, err
}

func (n *nfa) emit(i instruction) (int32, error) {
	if len(n.code) == maxInstructions || !n.work.spend(1) {
		return 0, errWork
	}
	n.code = append(n.code, i)
	return int32(len(n.code) - 1), nil
}

func (n *nfa) fork(to ...int32) (int32, error) { return n.emit(instruction{op: opFork, to: to}) }

// build adds re such that it goes on at next, and returns where it begins. Its
// recursion is as deep as the pattern's nesting, which regexp/syntax bounds to 1000.
func (n *nfa) build(re *syntax.Regexp, next int32) (int32, error) {
	if !n.work.spend(1) {
		return 0, errWork
	}
	switch re.Op {
	case syntax.OpNoMatch:
		return n.fork()
	case syntax.OpEmptyMatch:
		return next, nil
	case syntax.OpLiteral:
		return n.literal(re, next)
	case syntax.OpCharClass:
		return n.class(re.Rune, next)
	case syntax.OpAnyChar:
		return n.class([]rune{0, unicode.MaxRune}, next)
	case syntax.OpAnyCharNotNL:
		return n.class([]rune{0, '\n' - 1, '\n' + 1, unicode.MaxRune}, next)
	case syntax.OpCapture:
		return n.build(re.Sub[0], next)
	case syntax.OpConcat:
		return n.concat(re.Sub, next)
	case syntax.OpAlternate:
		return n.alternate(re.Sub, next)
	case syntax.OpStar:
		return n.repeat(re.Sub[0], 0, -1, next)
	case syntax.OpPlus:
		return n.repeat(re.Sub[0], 1, -1, next)
	case syntax.OpQuest:
		return n.repeat(re.Sub[0], 0, 1, next)
	case syntax.OpRepeat:
		return n.repeat(re.Sub[0], re.Min, re.Max, next)
	default:
		return n.assert(assertions[re.Op], next)
	}
}

var assertions = map[syntax.Op]syntax.EmptyOp{
	syntax.OpBeginLine:      syntax.EmptyBeginLine,
	syntax.OpEndLine:        syntax.EmptyEndLine,
	syntax.OpBeginText:      syntax.EmptyBeginText,
	syntax.OpEndText:        syntax.EmptyEndText,
	syntax.OpWordBoundary:   syntax.EmptyWordBoundary,
	syntax.OpNoWordBoundary: syntax.EmptyNoWordBoundary,
}

func (n *nfa) assert(look syntax.EmptyOp, next int32) (int32, error) {
	n.looks |= look
	return n.emit(instruction{op: opAssert, look: look, to: []int32{next}})
}

func (n *nfa) concat(subs []*syntax.Regexp, next int32) (int32, error) {
	var err error
	for i := len(subs) - 1; i >= 0 && err == nil; i-- {
		next, err = n.build(subs[i], next)
	}
	return next, err
}

func (n *nfa) alternate(subs []*syntax.Regexp, next int32) (int32, error) {
	starts := make([]int32, len(subs))
	for i, sub := range subs {
		var err error
		if starts[i], err = n.build(sub, next); err != nil {
			return 0, err
		}
	}
	return n.fork(starts...)
}

// repeat adds re at least low times and at most high times, without end if high is -1.
func (n *nfa) repeat(re *syntax.Regexp, low, high int, next int32) (int32, error) {
	var err error
	if high < 0 {
		if next, err = n.loop(re, next); err != nil {
			return 0, err
		}
	}
	for end, i := next, low; i < high; i++ {
		if next, err = n.build(re, next); err != nil {
			return 0, err
		}
		if next, err = n.fork(next, end); err != nil {
			return 0, err
		}
	}
	for range low {
		if next, err = n.build(re, next); err != nil {
			return 0, err
		}
	}
	return next, nil
}

// loop adds re any number of times.
func (n *nfa) loop(re *syntax.Regexp, next int32) (int32, error) {
	head, err := n.fork()
	if err != nil {
		return 0, err
	}
	body, err := n.build(re, head)
	n.code[head].to = []int32{body, next}
	return head, err
}

func (n *nfa) literal(re *syntax.Regexp, next int32) (int32, error) {
	var err error
	for i := len(re.Rune) - 1; i >= 0 && err == nil; i-- {
		next, err = n.class(spelt(re.Rune[i], re.Flags&syntax.FoldCase != 0), next)
	}
	return next, err
}

// spelt returns, as pairs of first and last, the characters that stand for r: itself
// and, if case does not matter, its other cases, some of which no byte is.
func spelt(r rune, anyCase bool) []rune {
	pairs := []rune{r, r}
	if !anyCase {
		return pairs
	}
	for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
		pairs = append(pairs, other, other)
	}
	return pairs
}

// class adds the characters of pairs. One instruction for each span, since most classes have one or two.
func (n *nfa) class(pairs []rune, next int32) (int32, error) {
	spans := clip(pairs)
	starts := make([]int32, len(spans))
	for i, span := range spans {
		var err error
		if starts[i], err = n.emit(instruction{op: opBytes, span: span, to: []int32{next}}); err != nil {
			return 0, err
		}
	}
	if len(starts) == 1 {
		return starts[0], nil
	}
	return n.fork(starts...)
}

// clip returns the bytes that characters stand for, which are given as pairs of first and last.
func clip(pairs []rune) []re2.Span {
	var spans []re2.Span
	for i := 0; i < len(pairs); i += 2 {
		if span, ok := re2.Clip(pairs[i], pairs[i+1]); ok {
			spans = append(spans, span)
		}
	}
	return spans
}
