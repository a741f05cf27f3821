// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"testing"
)

// As in match_test.go the expectations are what Envoy 1.40 does; test/routes
// compares both on random tables.

func mustRegex(t *testing.T, source string) *Regex {
	t.Helper()
	re, err := NewRegex(source)
	if err != nil {
		t.Fatal(err)
	}
	return re
}

func TestPathMatch(t *testing.T) {
	regex := PathMatch{Kind: PathRegex, Regex: mustRegex(t, "/a|/b[0-9]*")}
	separated := PathMatch{Kind: PathSeparatedPrefix, Value: "/api"}
	tests := []struct {
		name, path string
		match      PathMatch
		want       bool
	}{
		{"separated prefix itself", "/api", separated, true},
		{"separated prefix and a slash", "/api/", separated, true},
		{"separated prefix and a segment", "/api/v1", separated, true},
		{"separated prefix inside a segment", "/apis", separated, false},
		{"separated prefix with case", "/API", separated, false},
		{"separated prefix without case", "/API/x", PathMatch{Kind: PathSeparatedPrefix, Value: "/api", IgnoreCase: true}, true},
		{"prefix without case", "/FooBar", PathMatch{Value: "/foo", IgnoreCase: true}, true},
		{"prefix without case, shorter", "/FO", PathMatch{Value: "/foo", IgnoreCase: true}, false},
		{"path without case", "/FOO", PathMatch{Kind: PathExact, Value: "/fOo", IgnoreCase: true}, true},
		{"path without case is no prefix", "/FOOO", PathMatch{Kind: PathExact, Value: "/foo", IgnoreCase: true}, false},
		{"case is one of ASCII", "/\u212a", PathMatch{Kind: PathExact, Value: "/k", IgnoreCase: true}, false},
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

func TestStringMatch(t *testing.T) {
	tests := []struct {
		kind        StringKind
		want, value string
		withCase    bool
		withoutCase bool
	}{
		{StringExact, "Ab", "Ab", true, true},
		{StringExact, "Ab", "aB", false, true},
		{StringExact, "é", "É", false, false},
		{StringPrefix, "ab", "abc", true, true},
		{StringPrefix, "ab", "ABC", false, true},
		{StringPrefix, "ab", "a", false, false},
		{StringSuffix, "bc", "abc", true, true},
		{StringSuffix, "bc", "aBC", false, true},
		{StringSuffix, "bc", "bcd", false, false},
		{StringContains, "b", "abc", true, true},
		{StringContains, "b", "ABC", false, true},
		{StringContains, "b", "", false, false},
	}
	for _, tt := range tests {
		m := StringMatch{Kind: tt.kind, Value: tt.want}
		if got := m.Matches(tt.value); got != tt.withCase {
			t.Errorf("%+v of %q: got %t", m, tt.value, got)
		}
		m.IgnoreCase = true
		if got := m.Matches(tt.value); got != tt.withoutCase {
			t.Errorf("%+v of %q: got %t", m, tt.value, got)
		}
	}
}

// Envoy reads expression and value as Latin-1.
func TestRegexComparesBytes(t *testing.T) {
	tests := []struct {
		source, value string
		want          bool
	}{
		{".", "\xff", true},
		{".", "é", false},
		{"..", "é", true},
		{"é", "é", true},
		{`\x{e9}`, "\xe9", true},
		{`\x{e9}`, "é", false},
		{"(?i)k", "\u212a", false},
		{`(?i)[\xe9]`, "\xc9", false},
		{`\Qa.b`, "a.b", true},
		{`\Qa)(\E+`, "a)((", true},
		{"[^a]*", "\xffb\xed\xa0\x80", true},
		{"a|b", "ab", false},
		{"^a$", "a", true},
		{"", "", true},
	}
	for _, tt := range tests {
		if got := mustRegex(t, tt.source).Matches(tt.value); got != tt.want {
			t.Errorf("%q of %q: got %t", tt.source, tt.value, got)
		}
	}
	for _, source := range []string{"(a", "a)|(?:b", `\C`, "*", `\x{100}`} {
		if _, err := NewRegex(source); err == nil {
			t.Errorf("%q: accepted", source)
		}
	}
}

func TestRange(t *testing.T) {
	r := Range{Start: -5, End: 10}
	for value, want := range map[string]bool{
		"-5": true, "9": true, "10": false, "-6": false, "+5": true, "05": true, "": false, "5a": false, "5.0": false, "0x5": false,
		"9223372036854775808": false, "-": false,
	} {
		if got := r.Contains(value); got != want {
			t.Errorf("%q: got %t", value, got)
		}
	}
	if (Range{Start: 5, End: 1}).Contains("3") {
		t.Error("a range that ends before it begins holds 3")
	}
}

func TestMissingHeaderCountsAsEmptyWhereAsked(t *testing.T) {
	tests := []struct {
		name           string
		match          HeaderMatch
		want, inverted bool
	}{
		{"present", HeaderMatch{}, true, false},
		{"exact", HeaderMatch{Kind: HeaderString, String: Exact("a")}, false, true},
		{"exact and empty", HeaderMatch{Kind: HeaderString, String: Exact("")}, true, false},
		{"regex", HeaderMatch{Kind: HeaderString, String: StringMatch{Kind: StringRegex, Regex: mustRegex(t, "a?")}}, true, false},
		{"range", HeaderMatch{Kind: HeaderRange, Range: Range{Start: 0, End: 10}}, false, true},
	}
	for _, tt := range tests {
		h := tt.match
		h.Name, h.MissingAsEmpty = "x", true
		if got := h.Matches(request("host", "/")); got != tt.want {
			t.Errorf("%s: got %t", tt.name, got)
		}
		h.Invert = true
		if got := h.Matches(request("host", "/")); got != tt.inverted {
			t.Errorf("%s, inverted: got %t", tt.name, got)
		}
	}
}

func TestPseudoHeaders(t *testing.T) {
	r := request("A:80", "/p?q", "host", "A:80")
	r.Method, r.Scheme = "PUT", "https"
	for name, value := range map[string]string{":method": "PUT", ":path": "/p?q", ":scheme": "https", "host": "A:80"} {
		h := HeaderMatch{Name: name, Kind: HeaderString, String: Exact(value)}
		if !h.Matches(r) {
			t.Errorf("%s is not %q", name, value)
		}
	}
	for _, tt := range []struct {
		absolute string
		proto    []string
		want     string
	}{
		{"", nil, "http"},
		{"", []string{"https"}, "https"},
		{"", []string{"HTTPS"}, "https"},
		{"", []string{"ftp"}, "http"},
		{"", []string{"https", "https"}, "http"},
		{"https", []string{"http"}, "https"},
		{"HTTP", []string{"https"}, "http"},
	} {
		if got := SchemeOf(tt.absolute, tt.proto); got != tt.want {
			t.Errorf("SchemeOf(%q, %q) = %s, want %s", tt.absolute, tt.proto, got, tt.want)
		}
	}
}

func TestQueryMatch(t *testing.T) {
	b, empty := Exact("b"), Exact("")
	tests := []struct {
		path  string
		match QueryMatch
		want  bool
	}{
		{"/?a=b", QueryMatch{Name: "a", String: &b}, true},
		{"/?x&a=b", QueryMatch{Name: "a", String: &b}, true},
		{"/?a=c&a=b", QueryMatch{Name: "a", String: &b}, false},
		{"/?a=%62", QueryMatch{Name: "a", String: &b}, false},
		{"/?A=b", QueryMatch{Name: "a", String: &b}, false},
		{"/?x;a=b", QueryMatch{Name: "a", String: &b}, false},
		{"/?x?a=b", QueryMatch{Name: "a", String: &b}, false},
		{"/", QueryMatch{Name: "a", String: &empty}, false},
		{"/?a", QueryMatch{Name: "a", String: &empty}, true},
		{"/?a=", QueryMatch{Name: "a", String: &empty}, true},
		{"/?a", QueryMatch{Name: "a"}, true},
		{"/?b", QueryMatch{Name: "a"}, false},
		{"/?b", QueryMatch{Name: "a", Absent: true}, true},
		{"/?a", QueryMatch{Name: "a", Absent: true}, false},
		{"/?a%20=b", QueryMatch{Name: "a%20", String: &b}, true},
	}
	for _, tt := range tests {
		route := &Route{Path: PathMatch{Value: "/"}, Query: []QueryMatch{tt.match}}
		if got := tableOf(route).Match(request("host", tt.path)) != nil; got != tt.want {
			t.Errorf("%s with %+v: got %t", tt.path, tt.match, got)
		}
	}
}

func TestCookieMatch(t *testing.T) {
	tests := []struct {
		name    string
		cookies []string
		want    bool
	}{
		{"alone", []string{"a=b"}, true},
		{"behind another", []string{"x=y; a=b"}, true},
		{"in a second field", []string{"x=y", "a=b"}, true},
		{"quoted", []string{`a="b"`}, true},
		{"one quote", []string{`a="b`}, false},
		{"first of two", []string{"a=c; a=b"}, false},
		{"without a value", []string{"a"}, false},
		{"other case", []string{"A=b"}, false},
		{"space before the sign", []string{"a =b"}, false},
		{"none", nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var fields []string
			for _, c := range tt.cookies {
				fields = append(fields, "cookie", c)
			}
			for _, invert := range []bool{false, true} {
				route := &Route{Cookies: []CookieMatch{{Name: "a", String: Exact("b"), Invert: invert}}}
				if got := tableOf(route).Match(request("host", "/", fields...)) != nil; got != (tt.want != invert) {
					t.Errorf("inverted %t: got %t", invert, got)
				}
			}
		})
	}
}

func TestGRPCIsKnownByItsContentType(t *testing.T) {
	table := tableOf(&Route{GRPC: true})
	for value, want := range map[string]bool{
		"application/grpc": true, "application/grpc+proto": true, "application/grpc+": true,
		"application/grpc-web": false, "application/grpc;a=b": false, "Application/grpc": false, "text/html": false, "": false,
	} {
		if got := table.Match(request("host", "/", "content-type", value)) != nil; got != want {
			t.Errorf("%q: got %t", value, got)
		}
	}
	if table.Match(request("host", "/")) != nil {
		t.Error("a request without a content type is taken for gRPC")
	}
}

func TestOneDrawServesAllFractions(t *testing.T) {
	table := tableOf(
		&Route{Name: "never", Fraction: Fraction{Numerator: 0, Denominator: 100}},
		&Route{Name: "10", Fraction: Fraction{Numerator: 10, Denominator: 100}},
		&Route{Name: "30", Fraction: Fraction{Numerator: 3000, Denominator: 10_000}},
		&Route{Name: "always", Fraction: Fraction{Numerator: 101, Denominator: 100}},
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
	table := tableOf(&Route{Path: PathMatch{Kind: PathExact, Value: "/a/b"}})
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

func TestHostRule(t *testing.T) {
	anyPort, matching, dot := HostRule{AnyPort: true}, HostRule{Port: 80}, HostRule{TrailingDot: true}
	both := HostRule{Port: 80, TrailingDot: true}
	tests := []struct {
		rule       HostRule
		host, want string
	}{
		{HostRule{}, "a.:80", "a.:80"},
		{anyPort, "a:80", "a"},
		{anyPort, "a:081", "a"},
		{anyPort, "a:", "a:"},
		{anyPort, "a:x", "a:x"},
		{anyPort, "[::1]:80", "[::1]"},
		{anyPort, "[::1]", "[::1]"},
		{anyPort, "a.", "a."},
		{matching, "A:80", "A"},
		{matching, "a:080", "a"},
		{matching, "a:81", "a:81"},
		{dot, "a.", "a"},
		{dot, "a..", "a."},
		{dot, "a.:80", "a:80"},
		{dot, "a:80.", "a:80"},
		{dot, "a.b:80", "a.b:80"},
		{both, "a.:80", "a"},
		{both, "a.:81", "a:81"},
	}
	for _, tt := range tests {
		if got := tt.rule.Apply(tt.host); got != tt.want {
			t.Errorf("%+v of %q: got %q, want %q", tt.rule, tt.host, got, tt.want)
		}
	}
}
