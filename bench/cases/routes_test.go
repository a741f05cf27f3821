// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"slices"
	"testing"
)

func TestEveryRouteHasARequestOfItsOwn(t *testing.T) {
	for _, kind := range slices.Concat(routeKinds, longKinds) {
		routes := RoutesOf(kind, 400)
		matches, requests := map[string]bool{}, map[string]bool{}
		for _, r := range routes {
			matches[r.Match] = true
			requests[r.Path+" "+r.Header] = true
		}
		if len(matches) != 400 || len(requests) != 400 {
			t.Errorf("%s: %d different matches, %d different requests, want 400 of each", kind, len(matches), len(requests))
		}
	}
}

func TestLongPathsHaveTheLengthOfTheirKind(t *testing.T) {
	for kind, want := range map[string]int{ByRegex100: 100, ByRegex1000: 1000, ByRegex10000: 10_000, ByRegex60000: 60_000} {
		if got := len(RoutesOf(kind, 1)[0].Path); got != want {
			t.Errorf("%s: a path of %d bytes, want %d", kind, got, want)
		}
	}
}
