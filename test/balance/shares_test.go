// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"math"
	"net/netip"
	"testing"
)

func TestLikelihoodIsThatOfABinomial(t *testing.T) {
	for _, tt := range []struct {
		n, count int
		p, want  float64
	}{
		{10, 10, 0.5, 1. / 1024}, {10, 9, 0.5, 11. / 1024}, {10, 0, 0.5, 1. / 1024}, {2, 1, 0.5, 0.75}, {3, 1, 0.9, 0.028}, {5, 5, 1, 1}, {5, 4, 1, 0}, {5, 1, 0, 0}, {5, 0, 0, 1},
		{4000, 1000, 0.25, 0.5},
	} {
		if got := Likelihood(tt.n, tt.count, tt.p); math.Abs(got-tt.want) > 0.01*tt.want+1e-12 && math.Abs(got-tt.want) > 0.02*float64(tt.n/4000) {
			t.Errorf("%d of %d at %v: got %v, want %v", tt.count, tt.n, tt.p, got, tt.want)
		}
	}
}

func TestSharesDiffer(t *testing.T) {
	a, b := netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:2")
	shares := map[netip.AddrPort]float64{a: 0.75, b: 0.25}
	for _, tt := range []struct {
		name   string
		counts map[netip.AddrPort]int
		differ bool
	}{
		{"as due", map[netip.AddrPort]int{a: 750, b: 250}, false},
		{"six deviations away", map[netip.AddrPort]int{a: 750 - 82, b: 250 + 82}, false},
		{"seven deviations away", map[netip.AddrPort]int{a: 750 - 96, b: 250 + 96}, true},
		{"one left out", map[netip.AddrPort]int{a: 1000}, true},
		{"one too many", map[netip.AddrPort]int{a: 750, b: 249, Failed: 1}, true},
	} {
		if why := Differ(tt.counts, shares); (why != "") != tt.differ {
			t.Errorf("%s: got %q", tt.name, why)
		}
	}
}
