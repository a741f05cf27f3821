// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"net/netip"
	"testing"
)

// Numbers of one pair of addresses grow with the clock, of which the random part is a second; those
// of two processes, and of two pairs, have nothing to do with each other.
func TestNumbersOfOnePairGrowAndThoseOfOthersTellNothing(t *testing.T) {
	t.Parallel()
	const second = 1e9 >> tick
	a, b := netip.MustParseAddrPort("10.0.0.1:1000"), netip.MustParseAddrPort("10.0.0.2:80")
	n := newISNGenerator()
	seen := map[uint32]bool{}
	before := n.syn(a, b)
	for range 1000 {
		now := n.syn(a, b)
		// All in less than a minute, and the random part.
		if grown := int32(now - before); grown < -2*second || grown > 61*second {
			t.Fatalf("number %d follows %d", now, before)
		}
		seen[now] = true
	}
	if len(seen) < 900 {
		t.Errorf("of 1000 numbers %d differ: they can be guessed", len(seen))
	}
	near := 0
	for port := range uint16(1000) {
		other := n.syn(netip.AddrPortFrom(a.Addr(), 2000+port), b)
		if d := int32(other - before); -10*second < d && d < 10*second {
			near++
		}
	}
	// By chance some 70.
	if near > 300 {
		t.Errorf("numbers of %d of 1000 other pairs are near this pair's", near)
	}
	if d := int32(newISNGenerator().syn(a, b) - before); d == 0 {
		t.Error("another process has the same numbers")
	}
}
