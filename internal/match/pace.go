// SPDX-License-Identifier: Apache-2.0

package match

import "github.com/xlb-project/xlb/internal/model/matcher"

// stretch is how many steps are done at a time, of a few nanoseconds each, ten at most: some hundreds of microseconds.
const stretch = 1 << 15

// lookUp is how many steps it takes to find a header field.
const lookUp = 64

// pace is that of one match: it pauses again and again, until the client has gone.
type pace struct {
	// pause reports whether the client has gone; nil: there are no pauses.
	pause func() (gone bool)
	// steps since the last pause.
	steps int
	gone  bool
}

// goOn counts steps, and reports whether to go on.
func (p *pace) goOn(steps int) bool {
	p.steps += steps
	if p.steps >= stretch && p.pause != nil && !p.gone {
		p.steps = 0
		p.gone = p.pause()
	}
	return !p.gone
}

// counted is a request whose header fields and regular expressions are counted.
func (p *pace) counted(r *matcher.Request, lazies *shelf) *matcher.Request {
	out := *r
	out.Whole = func(re *matcher.Regex, value string) bool { return lazies.matches(re, value, p) }
	out.Values = func(name string) []string {
		values := r.Values(name)
		for _, v := range values {
			p.goOn(len(v))
		}
		return values
	}
	return &out
}
