// SPDX-License-Identifier: Apache-2.0

package re2

import (
	"math"
	"regexp/syntax"
)

// maxCost keeps sums and products of costs within an int32.
const maxCost = math.MaxInt32

// Check reads an expression as [CompileWhole] does, which then has no error, and returns what it costs to
// compile, in steps: one for each character, each range of a class and each operator, as often as
// repetitions want them; at least a quarter of its length in bytes, and at most math.MaxInt32. Time and
// memory of compiling are linear in them, those of Check in the length. The error is a *syntax.Error.
func Check(source string) (cost int, err error) {
	text, err := translate(source)
	if err != nil {
		return 0, err
	}
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0, inBytes(err)
	}
	// Inside of a group it nests more deeply.
	if _, err := syntax.Parse(whole(text), syntax.Perl); err != nil {
		return 0, inBytes(err)
	}
	return max(costOf(re), len(source)/4), nil
}

// costOf recurses as deep as the expression nests, which regexp/syntax bounds to 1000.
func costOf(re *syntax.Regexp) int {
	cost := 1
	switch re.Op {
	case syntax.OpLiteral:
		cost += len(re.Rune)
	case syntax.OpCharClass:
		cost += len(re.Rune) / 2
	}
	for _, sub := range re.Sub {
		cost = min(cost+costOf(sub), maxCost)
	}
	if re.Op == syntax.OpRepeat {
		// At most 1000 (RE2 and regexp/syntax), so that the product stays within an int64.
		times := re.Max
		if times < 0 {
			times = re.Min + 1
		}
		cost = min(1+(cost-1)*max(times, 1), maxCost)
	}
	return cost
}
