// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/model/matcher"
)

// The expectations in this file are what Envoy 1.40 does; the tests of
// internal/config compare both on the same requests.

func TestVirtualHostPrecedence(t *testing.T) {
	table := &RouteTable{}
	for _, d := range []string{
		"*", "foo.example", "foo.example:8080", "*.foo.example", "*-x.foo.example", "*.example", "foo.*", "foo.ex*",
	} {
		table.VirtualHosts = append(table.VirtualHosts, &VirtualHost{Name: d, Domains: []string{d}})
	}
	tests := []struct{ name, host, want string }{
		{"exact", "foo.example", "foo.example"},
		{"exact without case", "FOO.Example", "foo.example"},
		{"exact with port", "foo.example:8080", "foo.example:8080"},
		{"other port is another host", "foo.example:80", "foo.ex*"},
		{"suffix", "a.foo.example", "*.foo.example"},
		{"longest suffix", "a-x.foo.example", "*-x.foo.example"},
		{"wildcard stands for at least one character", ".foo.example", "*.example"},
		{"suffix before prefix", "foo.exa.example", "*.example"},
		{"longest prefix", "foo.exa", "foo.ex*"},
		{"prefix of a shorter host", "foo.ex", "foo.*"},
		{"prefix needs a character more", "foo.", "*"},
		{"no domain", "bar", "*"},
		{"empty host", "", "*"},
		{"Kelvin sign is not k", "foo.example\u212a", "foo.ex*"},
		{"bytes that are no text", "\xff.foo.example", "*.foo.example"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := table.VirtualHost(tt.host).Name; got != tt.want {
				t.Errorf("VirtualHost(%q) = %s, want %s", tt.host, got, tt.want)
			}
		})
	}
}

func TestHostIsLoweredInASCIIOnly(t *testing.T) {
	table := &RouteTable{VirtualHosts: []*VirtualHost{{Domains: []string{"k"}}, {Domains: []string{"\xff*"}}}}
	if vh := table.VirtualHost("\u212a"); vh != nil {
		t.Errorf("the Kelvin sign matches %q", vh.Domains)
	}
	if vh := table.VirtualHost("\xffA"); vh == nil {
		t.Error("a byte outside ASCII is not compared as it is")
	}
}

func TestNoVirtualHostMeansNoRoute(t *testing.T) {
	table := &RouteTable{VirtualHosts: []*VirtualHost{{Domains: []string{"foo"}, Routes: []*Route{{}}}}}
	if table.Match(request("bar", "/")) != nil {
		t.Error("a host without a virtual host has a route")
	}
	if table.Match(request("foo", "/")) == nil {
		t.Error("its own host has none")
	}
}

func TestFirstMatchingRouteWins(t *testing.T) {
	table := tableOf(
		&Route{Name: "exact", Path: matcher.PathMatch{Kind: matcher.PathExact, Value: "/a"}},
		&Route{Name: "header", Path: matcher.PathMatch{Value: "/a"}, Headers: []matcher.HeaderMatch{{Name: "x"}}},
		&Route{Name: "prefix", Path: matcher.PathMatch{Value: "/a"}},
		&Route{Name: "longer", Path: matcher.PathMatch{Value: "/ab"}},
		&Route{Name: "query", Path: matcher.PathMatch{Value: "/q?"}},
	)
	tests := []struct{ name, path, header, want string }{
		{"exact", "/a", "", "exact"},
		{"exact without its query", "/a?b=/ab", "", "exact"},
		{"exact is not a prefix", "/a/", "", "prefix"},
		{"prefix ends inside a segment", "/ab", "", "prefix"},
		{"header decides", "/ab", "x", "header"},
		{"path with case", "/A", "", ""},
		{"query is not path", "/q?", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := request("host", tt.path)
			if tt.header != "" {
				r = request("host", tt.path, tt.header, "")
			}
			got := ""
			if route := table.Match(r); route != nil {
				got = route.Name
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestConnectMatchesItsOwnMatcherOnly(t *testing.T) {
	table := tableOf(
		&Route{Name: "prefix"},
		&Route{Name: "header", Path: matcher.PathMatch{Kind: matcher.PathConnect}, Headers: []matcher.HeaderMatch{{Name: "x"}}},
		&Route{Name: "connect", Path: matcher.PathMatch{Kind: matcher.PathConnect}},
	)
	connect := request("host:80", "")
	connect.Connect = true
	if got := table.Match(connect).Name; got != "connect" {
		t.Errorf("CONNECT: got %s", got)
	}
	connect.Values = func(string) []string { return []string{""} }
	if got := table.Match(connect).Name; got != "header" {
		t.Errorf("CONNECT with a header: got %s", got)
	}
	table.VirtualHosts[0].Routes = table.VirtualHosts[0].Routes[1:]
	if got := table.Match(request("host:80", "/")); got != nil {
		t.Errorf("GET: got %s", got.Name)
	}
}

func TestUpgradeIsComparedWholeAndWithoutCase(t *testing.T) {
	r := &Route{Upgrades: []string{"a", "websocket"}}
	for name, want := range map[string]bool{
		"websocket": true, "WebSocket": true, "A": true, "": false, "web": false, "a,websocket": false, "websocket, websocket": false,
	} {
		if got := r.Allows(name); got != want {
			t.Errorf("%q: got %t", name, got)
		}
	}
}

func tableOf(routes ...*Route) *RouteTable {
	return &RouteTable{VirtualHosts: []*VirtualHost{{Domains: []string{"*"}, Routes: routes}}}
}

// request makes a request with headers given as names and values in turn.
func request(host, path string, headers ...string) *matcher.Request {
	return &matcher.Request{Authority: host, Path: path, Values: func(name string) []string {
		var values []string
		for i := 0; i < len(headers); i += 2 {
			if strings.EqualFold(headers[i], name) {
				values = append(values, headers[i+1])
			}
		}
		return values
	}}
}

func mustRegex(t *testing.T, source string) *matcher.Regex {
	t.Helper()
	re, err := matcher.NewRegex(source)
	if err != nil {
		t.Fatal(err)
	}
	return re
}

func TestPathMatch(t *testing.T) {
	regex := matcher.PathMatch{Kind: matcher.PathRegex, Regex: mustRegex(t, "/a|/b[0-9]*")}
	separated := matcher.PathMatch{Kind: matcher.PathSeparatedPrefix, Value: "/api"}
	tests := []struct {
		name, path string
		match      matcher.PathMatch
		want       bool
	}{
		{"separated prefix itself", "/api", separated, true},
		{"separated prefix and a slash", "/api/", separated, true},
		{"separated prefix and a segment", "/api/v1", separated, true},
		{"separated prefix inside a segment", "/apis", separated, false},
		{"separated prefix with case", "/API", separated, false},
		{"separated prefix without case", "/API/x", matcher.PathMatch{Kind: matcher.PathSeparatedPrefix, Value: "/api", IgnoreCase: true}, true},
		{"prefix without case", "/FooBar", matcher.PathMatch{Value: "/foo", IgnoreCase: true}, true},
		{"prefix without case, shorter", "/FO", matcher.PathMatch{Value: "/foo", IgnoreCase: true}, false},
		{"path without case", "/FOO", matcher.PathMatch{Kind: matcher.PathExact, Value: "/fOo", IgnoreCase: true}, true},
		{"path without case is no prefix", "/FOOO", matcher.PathMatch{Kind: matcher.PathExact, Value: "/foo", IgnoreCase: true}, false},
		{"case is one of ASCII", "/\u212a", matcher.PathMatch{Kind: matcher.PathExact, Value: "/k", IgnoreCase: true}, false},
		{"first of two alternatives", "/a", regex, true},
		{"second of two alternatives", "/b12", regex, true},
		{"a regex matches all", "/a1", regex, false},
		{"a regex matches from the beginning", "/x/a", regex, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tableOf(&Route{Path: tt.match}).Match(request("host", tt.path)) != nil; got != tt.want {
				t.Errorf("%q: got %t, want %t", tt.path, got, tt.want)
			}
			if got := tableOf(&Route{Path: tt.match}).Match(request("host", tt.path+"?x")) != nil; got != tt.want {
				t.Errorf("%q with a query: got %t, want %t", tt.path, got, tt.want)
			}
		})
	}
}

func TestOneDrawServesAllFractions(t *testing.T) {
	table := tableOf(
		&Route{Name: "never", Fraction: matcher.Fraction{Numerator: 0, Denominator: 100}},
		&Route{Name: "10", Fraction: matcher.Fraction{Numerator: 10, Denominator: 100}},
		&Route{Name: "30", Fraction: matcher.Fraction{Numerator: 3000, Denominator: 10_000}},
		&Route{Name: "always", Fraction: matcher.Fraction{Numerator: 101, Denominator: 100}},
		&Route{Name: "none"},
	)
	for draw, want := range map[uint64]string{0: "10", 9: "10", 10: "30", 2999: "30", 3000: "10", 3010: "always", 9999: "always", 12_909: "10"} {
		r := request("host", "/")
		r.Draw = draw
		if got := table.Match(r).Name; got != want {
			t.Errorf("draw %d: got %s, want %s", draw, got, want)
		}
	}
}

func TestIgnoredPort(t *testing.T) {
	table := &RouteTable{IgnorePort: true}
	for _, d := range []string{"a", "*.b", "[::1]", "c:80", "*"} {
		table.VirtualHosts = append(table.VirtualHosts, &VirtualHost{Name: d, Domains: []string{d}})
	}
	for host, want := range map[string]string{
		"a": "a", "A:80": "a", "a:": "a", "a:x": "a", "x.b:1": "*.b", "[::1]": "[::1]", "[::1]:80": "[::1]", "c:80": "*", "a:1:2": "*",
	} {
		if got := table.VirtualHost(host).Name; got != want {
			t.Errorf("%s: got %s, want %s", host, got, want)
		}
	}
}

func TestIgnoredPathParameters(t *testing.T) {
	table := tableOf(&Route{Path: matcher.PathMatch{Kind: matcher.PathExact, Value: "/a/b"}})
	table.IgnorePathParameters = true
	for path, want := range map[string]bool{"/a/b": true, "/a;x/b;y=1": true, "/a/b;x?q": true, "/a;/b": true, "/a/;b": false, "/a;/c": false} {
		if got := table.Match(request("host", path)) != nil; got != want {
			t.Errorf("%s: got %t", path, got)
		}
	}
	if got := fmt.Sprint(table.ComparedPath(request("host", "/;a/;"))); got != "//" {
		t.Errorf("/;a/; is compared as %s", got)
	}
}

// everything is a route that asks everything.
var everything = &Route{
	Path: matcher.PathMatch{Kind: matcher.PathSeparatedPrefix, Value: "/a", IgnoreCase: true},
	Headers: []matcher.HeaderMatch{
		{Name: "there"},
		{Name: "absent", Invert: true},
		{Name: "exact", Kind: matcher.HeaderString, String: matcher.Exact("v"), MissingAsEmpty: true},
		{Name: "suffix", Kind: matcher.HeaderString, String: matcher.StringMatch{Kind: matcher.StringSuffix, Value: "v", IgnoreCase: true}, Invert: true},
		{Name: "contains", Kind: matcher.HeaderString, String: matcher.StringMatch{Kind: matcher.StringContains, Value: "v"}},
		{Name: "regex", Kind: matcher.HeaderString, String: matcher.StringMatch{Kind: matcher.StringRegex, Value: "v+"}},
		{Name: "range", Kind: matcher.HeaderRange, Range: matcher.Range{Start: -1, End: 5}},
	},
	Query:    []matcher.QueryMatch{{Name: "q", String: &matcher.StringMatch{Kind: matcher.StringPrefix, Value: "v"}}, {Name: "r"}, {Name: "s", Absent: true}},
	Cookies:  []matcher.CookieMatch{{Name: "c", String: matcher.Exact("v"), Invert: true}},
	GRPC:     true,
	Fraction: matcher.Fraction{Numerator: 5, Denominator: 10_000},
}

func TestConditionsAreReadable(t *testing.T) {
	want := []string{
		"there", "!absent", `exact?="v"`, `suffix!$="v"i`, `contains*="v"`, `regex~="v+"`, "range=[-1,5)",
		`query q^="v"`, "query r", "query !s", `cookie c!="v"`, "grpc", "fraction 5/10000",
	}
	if diff := cmp.Diff(want, everything.Conditions()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for want, m := range map[string]matcher.PathMatch{
		"path_separated_prefix /a (any case)": everything.Path,
		"regex /.*":                           {Kind: matcher.PathRegex, Value: "/.*"},
		"prefix /":                            {Value: "/"},
	} {
		if got := m.Text(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
