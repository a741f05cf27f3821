// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// everything is a route that asks everything.
var everything = &Route{
	Path: PathMatch{Kind: PathSeparatedPrefix, Value: "/a", IgnoreCase: true},
	Headers: []HeaderMatch{
		{Name: "there"},
		{Name: "absent", Invert: true},
		{Name: "exact", Kind: HeaderString, String: Exact("v"), MissingAsEmpty: true},
		{Name: "suffix", Kind: HeaderString, String: StringMatch{Kind: StringSuffix, Value: "v", IgnoreCase: true}, Invert: true},
		{Name: "contains", Kind: HeaderString, String: StringMatch{Kind: StringContains, Value: "v"}},
		{Name: "regex", Kind: HeaderString, String: StringMatch{Kind: StringRegex, Value: "v+"}},
		{Name: "range", Kind: HeaderRange, Range: Range{Start: -1, End: 5}},
	},
	Query:    []QueryMatch{{Name: "q", String: &StringMatch{Kind: StringPrefix, Value: "v"}}, {Name: "r"}, {Name: "s", Absent: true}},
	Cookies:  []CookieMatch{{Name: "c", String: Exact("v"), Invert: true}},
	GRPC:     true,
	Fraction: Fraction{Numerator: 5, Denominator: 10_000},
}

func TestConditionsAreReadable(t *testing.T) {
	want := []string{
		"there", "!absent", `exact?="v"`, `suffix!$="v"i`, `contains*="v"`, `regex~="v+"`, "range=[-1,5)",
		`query q^="v"`, "query r", "query !s", `cookie c!="v"`, "grpc", "fraction 5/10000",
	}
	if diff := cmp.Diff(want, everything.Conditions()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for want, m := range map[string]PathMatch{
		"path_separated_prefix /a (any case)": everything.Path,
		"regex /.*":                           {Kind: PathRegex, Value: "/.*"},
		"prefix /":                            {Value: "/"},
	} {
		if got := m.Text(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
