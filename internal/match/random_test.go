// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// randomExpression draws one over few letters, so that paths often match.
func randomExpression(r *rand.Rand, depth int) string {
	if depth == 0 {
		atoms := []string{"a", "b", "ab", "bab", "[ab]", "[^a]", ".", `\xe9`, "(?i:AB)", `\b`, "^", "$", "", "/", "abba", ".*"}
		return atoms[r.IntN(len(atoms))]
	}
	part := func() string { return randomExpression(r, depth-1) }
	switch r.IntN(8) {
	case 0, 1, 2:
		return part() + part()
	case 3:
		return "(" + part() + "|" + part() + ")"
	case 4:
		return "(?:" + part() + ")*"
	case 5:
		return "(?:" + part() + "){1,2}"
	default:
		return ".*" + part() + ".*"
	}
}

func randomPath(r *rand.Rand) string {
	path := []byte("/")
	for range r.IntN(9) {
		path = append(path, "aabbAB/\xe9\xc9\n"[r.IntN(10)])
	}
	if r.IntN(8) == 0 {
		return strings.Repeat("/ab", r.IntN(300)) + string(path)
	}
	return string(path)
}

func expressionRoute(t testing.TB, expression string) *model.Route {
	t.Helper()
	re, err := matcher.NewRegex(expression)
	if err != nil {
		t.Fatal(err)
	}
	return &model.Route{Path: matcher.PathMatch{Kind: matcher.PathRegex, Value: expression, Regex: re}}
}

// tableOf is one of a single virtual host.
func tableOf(routes ...*model.Route) *model.RouteTable {
	return &model.RouteTable{VirtualHosts: []*model.VirtualHost{{Domains: []string{"*"}, Routes: routes}}}
}

// tight are limits of automata that leave hardly anything to sets, so that nearly all is sifted: with sets of their own, or without.
func tight(r *rand.Rand) dfa.Limits {
	l := dfa.Default()
	l.Sets = r.IntN(2)
	l.UnanchoredBytes = 2 << 10
	l.SetBytes = 16 << 10
	l.AloneBytes = []int{0, 4 << 10, 1 << 20}[r.IntN(3)]
	l.PatternStates = []int{3, 1000}[r.IntN(2)]
	return l
}

// randomRoutes are some with expressions, others between them, and conditions that a part of the requests meets.
func randomRoutes(t testing.TB, r *rand.Rand) []*model.Route {
	var routes []*model.Route
	for range 1 + r.IntN(25) {
		route := expressionRoute(t, randomExpression(r, 3))
		switch r.IntN(8) {
		case 0:
			route.Path = matcher.PathMatch{Kind: matcher.PathPrefix, Value: "/a"}
		case 1:
			route.Path = matcher.PathMatch{Kind: matcher.PathPrefix, Value: "/A", IgnoreCase: true}
		}
		if r.IntN(3) == 0 {
			value := randomExpression(r, 2)
			route.Headers = []matcher.HeaderMatch{{
				Name: "x", Kind: matcher.HeaderString, Invert: r.IntN(3) == 0,
				String: matcher.StringMatch{Kind: matcher.StringRegex, Value: value, Regex: expressionRoute(t, value).Path.Regex},
			}}
		}
		routes = append(routes, route)
	}
	return routes
}

// Whatever decides about expressions, sets, sets of their own or regexp, and with or without pauses, the first route of the model is found.
func TestRandomExpressionsFindTheModelsRoute(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	found, none, alone, neither := 0, 0, 0, 0
	for range 400 {
		table := tableOf(randomRoutes(t, r)...)
		m := New(table, dfa.NewMemo(tight(r)).Compiler())
		p := m.rest.paths()
		alone += len(p.alone)
		neither += len(p.rest) - len(p.alone)
		for range 30 {
			value := randomPath(r)
			request := &matcher.Request{Authority: "a", Path: randomPath(r), Values: func(string) []string { return []string{value} }}
			want := table.Match(request)
			if got := m.Match(request, nil); got != want {
				t.Fatalf("%q, x: %q: route %p, want %p of %s", request.Path, value, got, want, listed(table))
			}
			if got := m.Match(request, func() bool { return false }); got != want {
				t.Fatalf("%q, x: %q, with pauses: route %p, want %p of %s", request.Path, value, got, want, listed(table))
			}
			if want == nil {
				none++
			} else {
				found++
			}
		}
	}
	t.Logf("%d requests have a route, %d none; %d expressions have a set of their own, %d none", found, none, alone, neither)
	if min(found, none, alone, neither) < 500 {
		t.Error("these are too few")
	}
}

func listed(table *model.RouteTable) string {
	var b strings.Builder
	for _, route := range table.VirtualHosts[0].Routes {
		fmt.Fprintf(&b, "\n%p %q", route, route.Path.Value)
		for _, h := range route.Headers {
			fmt.Fprintf(&b, " x: %q, inverted %t", h.String.Value, h.Invert)
		}
	}
	return b.String()
}
