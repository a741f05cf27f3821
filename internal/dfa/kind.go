// SPDX-License-Identifier: Apache-2.0

package dfa

import "regexp/syntax"

// kind is what assertions ask of the neighbour of a position: the byte before it or behind it.
type kind uint8

const (
	other   kind = iota
	edge         // no byte: the beginning or the end of the input
	newline      // asked for by (?m)^ and (?m)$
	word         // [0-9A-Za-z_], asked for by \b and \B
	kinds        // how many there are
)

const (
	lineLooks = syntax.EmptyBeginLine | syntax.EmptyEndLine
	wordLooks = syntax.EmptyWordBoundary | syntax.EmptyNoWordBoundary
)

// kindOf returns the kind of b, as far as one of looks asks for it.
func kindOf(b byte, looks syntax.EmptyOp) kind {
	switch {
	case b == '\n' && looks&lineLooks != 0:
		return newline
	case syntax.IsWordChar(rune(b)) && looks&wordLooks != 0:
		return word
	default:
		return other
	}
}

// holds says whether an assertion is true between two neighbours.
func holds(look syntax.EmptyOp, before, after kind) bool {
	switch look {
	case syntax.EmptyBeginText:
		return before == edge
	case syntax.EmptyEndText:
		return after == edge
	case syntax.EmptyBeginLine:
		return before == edge || before == newline
	case syntax.EmptyEndLine:
		return after == edge || after == newline
	case syntax.EmptyWordBoundary:
		return (before == word) != (after == word)
	default: // syntax.EmptyNoWordBoundary
		return (before == word) == (after == word)
	}
}
