// SPDX-License-Identifier: Apache-2.0

package dfa

import "github.com/xlb-project/xlb/internal/memo"

// Part is a part of a compiler's work, which is the same whenever there is enough left for it.
type Part struct {
	taken          taken
	singles, joint memo.Uses
	// short: it may have come to its end for want of something.
	short bool
}

// taken is what a compiler has taken of its limits, and the patterns it was for.
type taken struct{ compiling, joining, alone, patterns int }

// Begin begins a part, of all that is compiled until End.
func (c *Compiler) Begin() *Part {
	w := c.work
	p := &Part{taken: w.taken()}
	w.memo.singles.Note(&p.singles)
	w.memo.joints.Note(&p.joint)
	return p
}

// End ends a part.
func (c *Compiler) End(p *Part) {
	w := c.work
	w.memo.singles.Note(nil)
	w.memo.joints.Note(nil)
	now := w.taken()
	p.taken = taken{
		compiling: now.compiling - p.taken.compiling, joining: now.joining - p.taken.joining, alone: now.alone - p.taken.alone, patterns: now.patterns - p.taken.patterns,
	}
	p.short = p.taken.patterns > 0 && !w.hasPlenty(taken{})
}

// Again has the effect of a part that ended before, and reports whether what came of it would come of it again. If not, nothing has happened.
func (c *Compiler) Again(p *Part) bool {
	w := c.work
	if p.taken.patterns == 0 {
		return true
	}
	if p.short || !w.hasPlenty(p.taken) {
		return false
	}
	w.compiling.spend(p.taken.compiling)
	w.joining.spend(p.taken.joining)
	w.alone.spend(p.taken.alone)
	w.patterns += p.taken.patterns
	w.memo.singles.UseAgain(&p.singles)
	w.memo.joints.UseAgain(&p.joint)
	return true
}

func (w *work) taken() taken {
	return taken{
		compiling: w.limits.Steps/2 - w.compiling.left, joining: w.limits.Steps/2 - w.joining.left,
		alone: w.limits.AloneBytes - w.alone.left, patterns: w.patterns,
	}
}

// hasPlenty reports whether so much can be taken without coming near to an end: every pattern is granted all the steps that a pattern may take.
func (w *work) hasPlenty(s taken) bool {
	return w.compiling.left-s.compiling >= w.limits.PatternSteps && w.joining.left >= s.joining && w.alone.left >= s.alone
}

// Short reports whether something may have come to its end in the part: then it is not done again.
func (p *Part) Short() bool { return p.short }
