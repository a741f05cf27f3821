// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

func TestFirstRouteWinsWhateverFindsIt(t *testing.T) {
	table, notes := compileTable("table", oneHost(
		regexRoute("first", "/a/[0-9]+"),
		prefixRoute("/a/1", "second"),
		regexRoute("third", "/a/.*x"),
		exactRoute("/a/2x", "hidden"),
		pathRoute("fourth", matcher.PathMatch{Value: "/A/", IgnoreCase: true}),
		prefixRoute("/a", "fifth"),
		regexRoute("hidden", "/a.*"),
	))
	if len(notes) != 0 {
		t.Errorf("notes %v", notes)
	}
	fates(t, &table, map[string]string{
		"/a/1": "first", "/a/1?x": "first", "/a/1x": "second", "/a/2x": "third", "/A/1": "fourth", "/a/": "fourth", "/a/y": "fourth", "/ab": "fifth", "/b": "no_route",
	})
}

func TestPathsBeyondTheLimitAreHandedOverWhereTheRestDecides(t *testing.T) {
	long := strings.Repeat("a", int(maps.MaxPath))
	table, _ := compileTable("table", oneHost(regexRoute("regex", "/a+"), prefixRoute("/", "rest")))
	fates(t, &table, map[string]string{
		"/" + long[:249]: "regex", "/" + long[:250]: "route_slow", "/" + long: "route_slow", "/b" + long: "rest",
	})
}

func TestAutomataAreAskedWhereTheyCanWin(t *testing.T) {
	table, _ := compileTable("table", oneHost(
		prefixRoute("/static/", "static"), regexRoute("regex", ".*\\.png"), prefixRoute("/", "rest"), regexRoute("never", "/static/.*"),
	))
	for _, p := range table.Paths {
		if asked := p.Automata > 0; asked != (p.Key == "" || p.Key == "/") {
			t.Errorf("%q: %d automata", p.Key, p.Automata)
		}
	}
}

// More sets of headers than there are tuples cut the list behind the automaton's route, not before it.
func TestAutomataAreAskedBesideAFullIndex(t *testing.T) {
	routes := []*model.Route{pathRoute("first", matcher.PathMatch{Value: "/a", IgnoreCase: true})}
	for _, prefix := range []string{"/", "/a", "/ab"} {
		for set := 1; set < 1<<5; set++ {
			r := prefixRoute(prefix, "other")
			for i := range 5 {
				if set>>i&1 != 0 {
					r.Headers = append(r.Headers, exactHeader(fmt.Sprintf("x-%d", i), prefix))
				}
			}
			routes = append(routes, r)
		}
	}
	for i := range 4 {
		routes = append(routes, prefixRoute("/abc", "other", exactHeader(fmt.Sprintf("x-%d", i), "c")))
	}
	table, notes := compileTable("table", oneHost(routes...))
	if len(notes) == 0 {
		t.Errorf("%d tuples: no note, so none was cut", len(table.Tuples))
	}
	fates(t, &table, map[string]string{"/ab": "first", "/abc": "first", "/AB": "first"})
}

// TestHostileExpressionsEnd holds that a configuration never fails for its expressions: what is too much is
// handed over, with a note.
func TestHostileExpressionsEnd(t *testing.T) {
	header := exactHeader("x", "1")
	numbered := func(n int, format string) (routes []*model.Route) {
		for i := range n {
			routes = append(routes, regexRoute("c", fmt.Sprintf(format, i)))
		}
		return routes
	}
	conditional := numbered(24, ".*word%d.*")
	for _, r := range conditional {
		r.Headers = []matcher.HeaderMatch{header}
	}
	var whole []*model.Route
	for i := range 10000 {
		whole = append(whole, exactRoute(fmt.Sprintf("/path/to/number/%d", i), "c"))
	}
	values := numbered(300, "/a/[0-9]+|%d")
	for i, r := range values {
		r.Headers = []matcher.HeaderMatch{exactHeader("x", fmt.Sprint(i))}
	}
	for _, tt := range []struct {
		name   string
		routes []*model.Route
		note   string
	}{
		{"exponential", []*model.Route{regexRoute("c", "/(a|b)*a(a|b){20}")}, "needs more than"},
		{"words anywhere", numbered(300, ".*word%d.*"), "found no room in 8 sets"},
		{"words anywhere, with conditions", conditional, ""},
		{"one path, many values", values, ""},
		{"words anywhere, and whole paths", append(numbered(10000, ".*word%d.*"), whole...), "found no room in 8 sets"},
		{"distinct", numbered(10000, "/api/v[0-9]+/service%d/[^/]+"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table, notes := compileTable("table", oneHost(tt.routes...))
			if got := fmt.Sprint(notes); tt.note == "" && len(notes) > 0 || !strings.Contains(got, tt.note) {
				t.Errorf("notes %.300s, want %q", got, tt.note)
			}
			if err := withinLimits(&table); err != nil {
				t.Error(err)
			}
			blocks := 0
			for i := range table.Automata {
				blocks += tables.Blocks(len(table.Automata[i].Next)) + tables.Blocks(len(table.Automata[i].Accept))
			}
			t.Logf("%d automata, %d kB, %d routes", len(table.Automata), blocks*64/1000, len(table.Routes))
			if blocks > maxBlocks || len(table.Routes) > maxAcceptedRoutes+len(table.Paths)*int(maps.MaxCandidates) {
				t.Errorf("%d blocks, %d routes", blocks, len(table.Routes))
			}
		})
	}
}
