// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"testing"

	"github.com/xlb-project/xlb/internal/model/matcher"
)

// BenchmarkMatch is a request that the last of a hundred routes serves: those before it lose by path or by header.
func BenchmarkMatch(b *testing.B) {
	vh := &VirtualHost{Domains: []string{"*"}}
	for i := range 100 {
		r := &Route{Path: matcher.PathMatch{Value: fmt.Sprintf("/api/%d/", i)}}
		if i%2 == 0 {
			r.Path.Value = "/api/"
			r.Headers = []matcher.HeaderMatch{{Name: "x-canary", Kind: matcher.HeaderString, String: matcher.Exact("yes")}}
		}
		vh.Routes = append(vh.Routes, r)
	}
	table := &RouteTable{VirtualHosts: []*VirtualHost{vh}}
	canary := []string{"no"}
	r := &matcher.Request{Authority: "shop.test", Path: "/api/99/x?a=b", Method: "GET", Values: func(string) []string { return canary }}
	b.ReportAllocs()
	for b.Loop() {
		if table.Match(r) != vh.Routes[99] {
			b.Fatal("another route")
		}
	}
}
