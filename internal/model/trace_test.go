// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/model/matcher"
)

func TestTraceSaysWhatEachRouteLacks(t *testing.T) {
	value := matcher.Exact("v")
	vh := &VirtualHost{Domains: []string{"other", "*.test"}, Routes: []*Route{
		{Path: matcher.PathMatch{Value: "/x"}},
		{Path: matcher.PathMatch{Kind: matcher.PathConnect}},
		{Fraction: matcher.Fraction{Numerator: 10, Denominator: 100}},
		{GRPC: true},
		{Headers: []matcher.HeaderMatch{{Name: "content-type"}, {Name: "x-canary", Kind: matcher.HeaderString, String: value}}},
		{Headers: []matcher.HeaderMatch{{Name: ":method", Kind: matcher.HeaderString, String: matcher.Exact("POST")}}},
		{Query: []matcher.QueryMatch{{Name: "a"}, {Name: "b"}}},
		{Cookies: []matcher.CookieMatch{{Name: "c", String: value}}},
		{Name: "winner"},
		{Name: "behind the winner"},
	}}
	table := &RouteTable{VirtualHosts: []*VirtualHost{{Domains: []string{"*"}}, vh}}
	r := request("shop.test", "/cart?a=1", "content-type", "text/html", "x-canary", "a", "x-canary", "b", "cookie", `c="w"`)
	r.Method, r.Draw = "GET", 57
	trace := table.Trace(r)
	if trace.VirtualHost != vh || trace.Domain != "*.test" || trace.Route != vh.Routes[8] {
		t.Errorf("got virtual host %v by %q and route %+v", trace.VirtualHost, trace.Domain, trace.Route)
	}
	want := []Unmet{
		{Kind: UnmetPath},
		{Kind: UnmetPath},
		{Kind: UnmetFraction},
		{Kind: UnmetGRPC},
		{UnmetHeader, 1},
		{UnmetHeader, 0},
		{UnmetQuery, 1},
		{UnmetCookie, 0},
	}
	if diff := cmp.Diff(want, trace.Lost); diff != "" {
		t.Errorf("what is unmet (-want +got):\n%s", diff)
	}
	var seen [][]string
	for i, u := range trace.Lost {
		seen = append(seen, u.Seen(vh.Routes[i], r))
	}
	if diff := cmp.Diff([][]string{nil, nil, nil, {"text/html"}, {"a", "b"}, {"GET"}, nil, {"w"}}, seen); diff != "" {
		t.Errorf("what the request has (-want +got):\n%s", diff)
	}
}

func TestTraceWithoutVirtualHostIsEmpty(t *testing.T) {
	table := &RouteTable{VirtualHosts: []*VirtualHost{{Domains: []string{"foo"}, Routes: []*Route{{}}}}}
	if diff := cmp.Diff(Trace{}, table.Trace(request("bar", "/"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPossibleRoutesAreThoseOfEveryDraw(t *testing.T) {
	half := matcher.Fraction{Numerator: 50, Denominator: 100}
	routes := []*Route{
		{Name: "other path", Path: matcher.PathMatch{Value: "/x"}},
		{Name: "never", Fraction: matcher.Fraction{Denominator: 100}},
		{Name: "half", Fraction: half},
		{Name: "all", Fraction: matcher.Fraction{Numerator: 100, Denominator: 100}},
		{Name: "behind all"},
	}
	tests := []struct {
		name   string
		routes []*Route
		host   string
		want   []string
		orNone bool
	}{
		{"one behind a fraction", routes, "a", []string{"half", "all"}, false},
		{"nothing behind a fraction", routes[:3], "a", []string{"half"}, true},
		{"nothing", routes[:2], "a", nil, true},
		{"no virtual host", routes, "b", nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := &RouteTable{VirtualHosts: []*VirtualHost{{Domains: []string{"a"}, Routes: tt.routes}}}
			for draw := range uint64(100) {
				r := request(tt.host, "/")
				r.Draw = draw
				possible, orNone := table.Possible(r)
				var names []string
				for _, p := range possible {
					names = append(names, p.Name)
				}
				if !slices.Equal(names, tt.want) || orNone != tt.orNone {
					t.Fatalf("draw %d: got %q, or none: %t", draw, names, orNone)
				}
				if won := table.Match(r); won == nil && !orNone || won != nil && !slices.Contains(possible, won) {
					t.Fatalf("draw %d: %+v wins, which is not possible", draw, won)
				}
			}
		})
	}
}
