// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"testing"
)

func TestEveryRouteHasARequestOfItsOwn(t *testing.T) {
	for _, kind := range routeKinds {
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
