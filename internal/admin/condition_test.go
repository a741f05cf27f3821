// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xlb-project/xlb/internal/model"
)

// everything is a route that asks everything.
var everything = &model.Route{
	Path: model.PathMatch{Kind: model.PathSeparatedPrefix, Value: "/a", IgnoreCase: true},
	Headers: []model.HeaderMatch{
		{Name: "there"},
		{Name: "absent", Invert: true},
		{Name: "exact", Kind: model.HeaderString, String: model.Exact("v"), MissingAsEmpty: true},
		{Name: "suffix", Kind: model.HeaderString, String: model.StringMatch{Kind: model.StringSuffix, Value: "v", IgnoreCase: true}, Invert: true},
		{Name: "contains", Kind: model.HeaderString, String: model.StringMatch{Kind: model.StringContains, Value: "v"}},
		{Name: "regex", Kind: model.HeaderString, String: model.StringMatch{Kind: model.StringRegex, Value: "v+"}},
		{Name: "range", Kind: model.HeaderRange, Range: model.Range{Start: -1, End: 5}},
	},
	Query:    []model.QueryMatch{{Name: "q", String: &model.StringMatch{Kind: model.StringPrefix, Value: "v"}}, {Name: "r"}, {Name: "s", Absent: true}},
	Cookies:  []model.CookieMatch{{Name: "c", String: model.Exact("v"), Invert: true}},
	GRPC:     true,
	Fraction: model.Fraction{Numerator: 5, Denominator: 10_000},
}

func TestMatchIsShownInEnvoysForm(t *testing.T) {
	for _, r := range []*model.Route{everything, {Path: model.PathMatch{Kind: model.PathRegex, Value: "/.*"}}} {
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
