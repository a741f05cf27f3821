// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/match"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// matcherOf is the only table's.
func matcherOf(rt *model.RouteTable) *match.Table {
	return match.NewBuilder().Build(&model.Config{Listeners: []*model.Listener{{Routes: rt}}})[rt]
}

func TestMatchersFindTheModelsRoutes(t *testing.T) {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d: repeat with -seed=%d", seed, seed)
	w := newWorld(seed)
	builder := match.NewBuilder()
	found, none := 0, 0
	for range randomTables / 4 {
		rt := w.table()
		m := builder.Build(&model.Config{Listeners: []*model.Listener{{Routes: rt}}})[rt]
		for range requestsPerTable {
			r := w.request()
			r.Connect = w.oneIn(20)
			want := rt.Match(r)
			if got := m.Match(r, nil); got != want {
				t.Fatalf("%s%s: route %p, want %p of %+v", r.Authority, r.Path, got, want, rt)
			}
			if want == nil {
				none++
			} else {
				found++
			}
		}
	}
	if t.Logf("%d requests have a route, %d none", found, none); found < leastOften || none < leastOften {
		t.Error("these are too few")
	}
}

// expressionTable has so many routes with an expression each, behind which comes one for all paths.
func expressionTable(t testing.TB, routes int, expression func(i int) string) *model.RouteTable {
	vh := &model.VirtualHost{Domains: []string{"*"}}
	for i := range routes {
		source := expression(i)
		re, err := matcher.NewRegex(source)
		if err != nil {
			t.Fatal(err)
		}
		vh.Routes = append(vh.Routes, &model.Route{Path: matcher.PathMatch{Kind: matcher.PathRegex, Value: source, Regex: re}})
	}
	vh.Routes = append(vh.Routes, &model.Route{})
	return &model.RouteTable{VirtualHosts: []*model.VirtualHost{vh}}
}

func usualExpression(i int) string { return fmt.Sprintf(`/v1/service-%d/[^/]+/items(/.*)?`, i) }

// What no automaton takes is compared one by one, and the client may leave meanwhile.
func TestMatchingEndsWithItsClient(t *testing.T) {
	rt := expressionTable(t, 20, func(i int) string { return fmt.Sprintf("%s|.*b/%d", tooLong, i) })
	m := matcherOf(rt)
	r := &matcher.Request{Authority: "a", Path: "/a" + strings.Repeat("b", 100_000)}
	if got, want := m.Match(r, func() bool { return false }), rt.Match(r); got != want {
		t.Errorf("route: got %p, want %p", got, want)
	}
	looks := 0
	got := m.Match(r, func() bool { looks++; return looks == 3 })
	if got != nil || looks != 3 {
		t.Errorf("of a client that leaves: route %p after %d looks, want none after 3", got, looks)
	}
}

// Tables whose pointer is the same are not indexed again.
func TestMatchersOfUnchangedTablesStay(t *testing.T) {
	same, gone := expressionTable(t, 10, usualExpression), expressionTable(t, 20, usualExpression)
	b := match.NewBuilder()
	first := b.Build(&model.Config{Listeners: []*model.Listener{{Routes: same}, {Routes: gone}, {}}})
	second := b.Build(&model.Config{Listeners: []*model.Listener{{Routes: same}}})
	if len(first) != 2 || len(second) != 1 || second[same] != first[same] {
		t.Errorf("matchers: %v, then %v", first, second)
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, routes := range []int{1, 100, 10_000} {
		rt := expressionTable(b, routes, usualExpression)
		m := matcherOf(rt)
		for _, length := range []int{100, 8_000, 60_000} {
			path := fmt.Sprintf("/v1/service-%d/", routes-1)
			r := &matcher.Request{Authority: "a", Path: path + strings.Repeat("x", length-len(path))}
			b.Run(fmt.Sprintf("%d routes, %d bytes", routes, length), func(b *testing.B) {
				for b.Loop() {
					m.Match(r, nil)
				}
			})
		}
	}
}
