// SPDX-License-Identifier: Apache-2.0

package matcher

// Fraction is a share of the requests: Numerator of every Denominator
// (RouteMatch.runtime_fraction.default_value).
type Fraction struct {
	Numerator uint32
	// Denominator is 100, 10,000 or 1,000,000; 0 stands for no fraction: all
	// requests.
	Denominator uint32
}

// Always reports whether the fraction holds for every request.
func (f Fraction) Always() bool { return f.Numerator >= f.Denominator }

// Never reports whether the fraction holds for no request.
func (f Fraction) Never() bool { return f.Numerator == 0 && f.Denominator > 0 }

// Holds for a request's draw. As in Envoy one draw serves all routes: where two
// with 10 and 30 of 100 follow one another, the second gets 20.
func (f Fraction) Holds(draw uint64) bool {
	return f.Always() || draw%uint64(f.Denominator) < uint64(f.Numerator)
}
