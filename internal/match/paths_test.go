// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"testing"

	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// Thousands of usual expressions are decided by a few automata, so that the work for a path does not
// grow with their number.
func TestManyExpressionsTakeFewAutomata(t *testing.T) {
	const routes = 3000
	var all []*model.Route
	for i := range routes {
		all = append(all, &model.Route{Path: matcher.PathMatch{Kind: matcher.PathRegex, Value: fmt.Sprintf(`/v1/service-%d/[^/]+/items(/.*)?`, i)}})
	}
	p := newPaths(all, dfa.NewMemo(dfa.Default()).Compiler())
	if len(p.sets) > 2 || len(p.rest) > 0 {
		t.Errorf("%d automata, and %d expressions that none takes; want at most 2, and none", len(p.sets), len(p.rest))
	}
	c, _ := p.candidates("/v1/service-2999/a/items/b", &pace{})
	position, sure, ok := c.next()
	if position != routes-1 || !sure || !ok {
		t.Errorf("first candidate: %d, sure %t, found %t", position, sure, ok)
	}
	if _, _, ok := c.next(); ok {
		t.Error("there is a second one")
	}
}

// Of equal domains the first counts; then the longest wildcard, one at the beginning before one at the end.
func TestDomainsAreChosenAsByTheModel(t *testing.T) {
	rt := &model.RouteTable{}
	for i, domains := range [][]string{{"a.b", "*"}, {"a.b", "*.b", "a.*"}, {"*a.b", "a.b*", "*"}, {"*b", "a*"}, {""}} {
		rt.VirtualHosts = append(rt.VirtualHosts, &model.VirtualHost{Name: fmt.Sprint(i), Domains: domains, Routes: []*model.Route{{}}})
	}
	table := New(rt, nil)
	for _, authority := range []string{"a.b", "A.B", "xa.b", "c.b", ".b", "b", "a.bc", "a.c", "ac", "a", "", "*.b", "a.*", "z"} {
		r := &matcher.Request{Authority: authority, Path: "/"}
		if got, want := table.Match(r, nil), rt.Match(r); got != want {
			t.Errorf("%q: got route %p, want %p", authority, got, want)
		}
	}
}
