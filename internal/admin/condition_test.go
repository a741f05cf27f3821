// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// everything is a route that asks everything.
var everything = &model.Route{
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

func TestMatchIsShownInEnvoysForm(t *testing.T) {
	for _, r := range []*model.Route{everything, {Path: matcher.PathMatch{Kind: matcher.PathRegex, Value: "/.*"}}} {
		text, err := json.Marshal(matchObject(r))
		if err != nil {
			t.Fatal(err)
		}
		m := &routev3.RouteMatch{}
		if err := protojson.Unmarshal(text, m); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if err := m.ValidateAll(); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}
