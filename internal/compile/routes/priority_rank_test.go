// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"slices"
	"testing"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/model"
)

// insertedIn compiles a table with a route more in the middle.
func insertedIn(routes []*model.Route, r *model.Route) (before, after tables.Table) {
	before, _ = compileTable("table", oneHost(routes...))
	after, _ = compileTable("table", oneHost(slices.Insert(slices.Clone(routes), len(routes)/2, r)...))
	return before, after
}

func TestARouteThatComesLeavesTheOthersAsTheyAre(t *testing.T) {
	for _, kind := range []struct {
		name  string
		route func(i int) *model.Route
	}{
		{"exact", func(i int) *model.Route { return exactRoute(fmt.Sprintf("/%d", i), fmt.Sprintf("c%d", i)) }},
		{"prefix", func(i int) *model.Route { return prefixRoute(fmt.Sprintf("/%d/", i), fmt.Sprintf("c%d", i)) }},
		{"value of a header", func(i int) *model.Route {
			return prefixRoute("/", fmt.Sprintf("c%d", i), exactHeader("x", fmt.Sprintf("%03d", i)))
		}},
		{"expression", func(i int) *model.Route { return regexRoute(fmt.Sprintf("c%d", i), fmt.Sprintf("/[a-z]/%d", i)) }},
	} {
		t.Run(kind.name, func(t *testing.T) {
			var routes []*model.Route
			for i := range 40 {
				routes = append(routes, kind.route(i))
			}
			before, after := insertedIn(routes, kind.route(40))
			if len(after.Routes) != len(before.Routes)+1 {
				t.Errorf("%d routes, want one more than %d", len(after.Routes), len(before.Routes))
			}
			for _, r := range before.Routes {
				if !slices.Contains(after.Routes, r) {
					t.Errorf("%+v has changed", r)
				}
			}
		})
	}
}
