// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"testing"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

func TestKernelLimitSaysWhyARouteHandsARequestOver(t *testing.T) {
	cookie, query := prefixRoute("/", "c", exactHeader("x", "1")), prefixRoute("/", "c")
	cookie.Cookies = []matcher.CookieMatch{{Name: "a", String: matcher.Exact("v"), Invert: true}}
	query.Query = []matcher.QueryMatch{{Name: "a", Absent: true}}
	direct := prefixRoute("/", "c")
	direct.Clusters, direct.Direct = nil, &model.DirectResponse{Status: 200}
	tests := []struct {
		name  string
		route *model.Route
		want  string
	}{
		{"decided", prefixRoute("/", "c"), ""},
		{"decided by a header", prefixRoute("/", "c", exactHeader("x", "2")), ""},
		{"decided by a query parameter", query, ""},
		{"a cookie", cookie, "cookies"},
		{"an action", direct, "direct_response"},
		{"an expression", pathRoute("c", matcher.PathMatch{Kind: matcher.PathRegex, Value: "/a.*"}), ""},
		{"an action of another path", func() *model.Route { r := *direct; r.Path.Value = "/other"; return &r }(), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := KernelLimit(tt.route, get("h", "/", "x", "1")); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
