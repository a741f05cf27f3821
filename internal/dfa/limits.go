// SPDX-License-Identifier: Apache-2.0

package dfa

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strconv"
)

// Limits bound what patterns may cost: compiling ends after bounded time with
// bounded memory, whatever the patterns are. They count work, not time, so that one
// configuration gives the same tables on every machine.
type Limits struct {
	// PatternLength is the length of one pattern in bytes.
	PatternLength int
	// PatternStates are the states of one pattern's minimal DFA; at most 16,384, since
	// four times as many are allowed before minimisation. A pattern above it is nearly
	// always one whose number of states is exponential in its length.
	PatternStates int
	// PatternSteps is the work for one pattern: visits of an NFA's instruction.
	PatternSteps int
	// SetStates are the states of one set, at most 65,536.
	SetStates int
	// SetBytes is the size of one set's tables, see [Set.Bytes].
	SetBytes int
	// UnanchoredBytes is the same for sets with several patterns of which one is unanchored, see [Partition]; at most SetBytes. Several small
	// sets hold more of those than a large one.
	UnanchoredBytes int
	// Sets is how many sets Partition makes.
	Sets int
	// AloneBytes is the size of those sets together that are in no other set, see [PatternError.Alone].
	AloneBytes int
	// Steps is the work for all patterns together: half of it for their PatternSteps, half for
	// the entries of every table that is tried out on the way to the sets. It is a hard
	// stop: what is not in a set by then is refused.
	Steps int
}

// maxStates is how many states a uint16 can number.
const maxStates = 1 << 16

// Default returns the limits that the benchmarks of this package justify. 1,000
// usual path patterns need 3,000 states and 120 KB, 10,000 of them 30,000 and 1.2 MB; of
// the form .*word.*, thirteen need some 50,000 states. On a busy core of 2026 the
// hardest pattern takes a second, all patterns together some six, with less than
// 200 MB of memory on the way.
func Default() Limits {
	return Limits{
		PatternLength:   4096,
		PatternStates:   4096,
		PatternSteps:    4 << 20,
		SetStates:       maxStates,
		SetBytes:        4 << 20,
		UnanchoredBytes: 4 << 20,
		Sets:            16,
		AloneBytes:      32 << 20,
		Steps:           128 << 20,
	}
}

// LimitError says that a limit was reached.
type LimitError struct {
	Limit Limit
	Max   int
}

// Limit names a field of Limits.
type Limit int

// The limits, each with the field that sets it.
const (
	PatternLength Limit = iota
	PatternStates
	PatternSteps
	RawStates // four times PatternStates
	SetStates
	SetBytes
	Sets
	Steps
)

var limitTexts = map[Limit]string{
	PatternLength: "is longer than %d bytes",
	PatternStates: "needs more than %d states; bound its repetitions more closely, or anchor them with literal text",
	PatternSteps:  "needs more than %d steps to compile; use fewer repetitions and smaller character classes",
	RawStates:     "needs more than %d states before minimisation; bound its repetitions more closely, or anchor them with literal text",
	SetStates:     "needs more than %d states in one set; use fewer patterns",
	SetBytes:      "needs more than %d bytes of tables in one set; use fewer patterns, or smaller ones",
	Sets:          "found no room in %d sets of tables; use fewer patterns, or begin them with distinct literal text",
	Steps:         "was not compiled: all patterns together need more than %d steps; use fewer or simpler ones",
}

func (e *LimitError) Error() string { return fmt.Sprintf(limitTexts[e.Limit], e.Max) }

// PatternError says why one pattern was not compiled: Err is a *syntax.Error or a
// *LimitError.
type PatternError struct {
	Index   int // in the slice that was passed
	Pattern string
	Err     error
	// Alone is the set of this pattern and no other, in which it has number 0; nil if it was not made, or if those of the patterns before
	// it take [Limits.AloneBytes].
	Alone *Set
}

// reason is Err without the words that regexp/syntax puts before it, which repeat the pattern.
func (e *PatternError) reason() string {
	var bad *syntax.Error
	if !errors.As(e.Err, &bad) {
		return e.Err.Error()
	}
	return fmt.Sprintf("%s at %s", bad.Code, quoted(bad.Expr))
}

// maxQuoted is how much of a pattern an error shows, in bytes.
const maxQuoted = 80

func quoted(pattern string) string {
	if len(pattern) > maxQuoted {
		return strconv.Quote(pattern[:maxQuoted]) + "..."
	}
	return strconv.Quote(pattern)
}

func (e *PatternError) Error() string {
	return fmt.Sprintf("regular expression %s: %s", quoted(e.Pattern), e.reason())
}

func (e *PatternError) Unwrap() error { return e.Err }

// budget counts down the work that is left.
type budget struct{ left int }

// spend takes n steps, and says whether there were as many.
func (b *budget) spend(n int) bool {
	b.left -= n
	return b.left >= 0
}
