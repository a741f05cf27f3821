// SPDX-License-Identifier: Apache-2.0

package matcher

import (
	"strings"
	"testing"
)

// The expectations in this file are what Envoy 1.40 does; test/routes compares both on random tables.

func mustRegex(t *testing.T, source string) *Regex {
	t.Helper()
	re, err := NewRegex(source)
	if err != nil {
		t.Fatal(err)
	}
	return re
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
		if got := tt.match.Matches(request("host", tt.path)); got != tt.want {
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
				m := CookieMatch{Name: "a", String: Exact("b"), Invert: invert}
				if got := m.Matches(request("host", "/", fields...)); got != (tt.want != invert) {
					t.Errorf("inverted %t: got %t", invert, got)
				}
			}
		})
	}
}

func TestGRPCIsKnownByItsContentType(t *testing.T) {
	for value, want := range map[string]bool{
		"application/grpc": true, "application/grpc+proto": true, "application/grpc+": true,
		"application/grpc-web": false, "application/grpc;a=b": false, "Application/grpc": false, "text/html": false, "": false,
	} {
		if got := request("host", "/", "content-type", value).IsGRPC(); got != want {
			t.Errorf("%q: got %t", value, got)
		}
	}
	if request("host", "/").IsGRPC() {
		t.Error("a request without a content type is taken for gRPC")
	}
}

func TestHeaderMatch(t *testing.T) {
	present, exact, prefix := HeaderMatch{}, HeaderMatch{Kind: HeaderString, String: Exact("one")}, HeaderMatch{Kind: HeaderString, String: Prefix("on")}
	empty := HeaderMatch{Kind: HeaderString}
	joinedExact := HeaderMatch{Kind: HeaderString, String: Exact("one,two")}
	tests := []struct {
		name           string
		match          HeaderMatch
		header         string
		values         []string
		want, inverted bool
	}{
		{"present", present, "x", []string{""}, true, false},
		{"absent", present, "x", nil, false, true},
		{"exact", exact, "x", []string{"one"}, true, false},
		{"exact with case", exact, "x", []string{"One"}, false, true},
		{"exact of a missing header, inverted too", exact, "x", nil, false, false},
		{"prefix", prefix, "x", []string{"one"}, true, false},
		{"prefix of a missing header, inverted too", prefix, "x", nil, false, false},
		{"prefix of an empty value", prefix, "x", []string{""}, false, true},
		{"empty value", empty, "x", []string{""}, true, false},
		{"empty value is not a missing header", empty, "x", nil, false, false},
		{"any value of a repeated header", exact, "x", []string{"two", "one"}, true, false},
		{"no value of a repeated header", exact, "x", []string{"two", "three"}, false, true},
		{"repeated values are not joined", joinedExact, "x", []string{"one", "two"}, false, true},
		{"repeated cookies are not joined", joinedExact, "cookie", []string{"one", "two"}, false, true},
		{"accept is joined", joinedExact, "accept", []string{"one", "two"}, true, false},
		{"joined without empty values", joinedExact, "accept", []string{"", "one", "", "two"}, true, false},
		{"joined is compared as one", exact, "accept", []string{"one", "two"}, false, true},
		{"only empty values joined", empty, "accept", []string{"", ""}, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var headers []string
			for _, v := range tt.values {
				headers = append(headers, tt.header, v)
			}
			h := tt.match
			h.Name = tt.header
			r := request("host", "/", headers...)
			if got := h.Matches(r); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
			h.Invert = true
			if got := h.Matches(r); got != tt.inverted {
				t.Errorf("inverted: got %t, want %t", got, tt.inverted)
			}
		})
	}
}

// request makes a request with headers given as names and values in turn.
func request(host, path string, headers ...string) *Request {
	return &Request{Authority: host, Path: path, Values: func(name string) []string {
		var values []string
		for i := 0; i < len(headers); i += 2 {
			if strings.EqualFold(headers[i], name) {
				values = append(values, headers[i+1])
			}
		}
		return values
	}}
}
