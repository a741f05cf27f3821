// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

func substitution(t *testing.T, regex, with string) *matcher.Substitution {
	t.Helper()
	s, err := matcher.NewSubstitution(regex, with)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func rewritten(text string, m matcher.PathMatch) *model.Route {
	r := pathRoute("a", m)
	r.Rewrite.Prefix = text
	return r
}

// The compiled rewrite, carried out, is the model's.
func TestRewrittenPathsAreThoseOfTheModel(t *testing.T) {
	longest := "/" + strings.Repeat("n", int(maps.MaxRewrite)-1)
	routes := []*model.Route{
		rewritten("/new", matcher.PathMatch{Value: "/prefix/"}),
		rewritten("/", matcher.PathMatch{Value: "/any/", IgnoreCase: true}),
		rewritten(longest, matcher.PathMatch{Kind: matcher.PathSeparatedPrefix, Value: "/separated"}),
		rewritten("/new?a=b", matcher.PathMatch{Kind: matcher.PathExact, Value: "/exact"}),
		rewritten("/new", matcher.PathMatch{Kind: matcher.PathRegex, Value: "/regex/[0-9]+"}),
		rewritten("bare", matcher.PathMatch{Value: "/bare"}),
		prefixRoute("/", "rest"),
	}
	table, notes := compileTable("table", oneHost(routes...))
	if len(notes) != 0 {
		t.Error(notes)
	}
	rt := oneHost(routes...)
	for _, target := range []string{
		"/prefix/", "/prefix/x?y", "/any/x", "/ANY/x/", "/separated", "/separated/x?", "/exact", "/exact?q=1", "/regex/1", "/regex/12?x", "/bare", "/bare?x", "/bare/x", "/other", "/?x",
	} {
		request := get("h", target)
		route, verdict := table.Route(request)
		if verdict != maps.VerdictOk {
			t.Errorf("%s: %s", target, maps.VerdictName(verdict))
			continue
		}
		won := rt.Match(request)
		if got, want := apply(route.Rewrite, target), targetOf(won, target); got != want {
			t.Errorf("%s: got %s, want %s", target, got, want)
		}
	}
}

// targetOf is the target that a route's endpoints get.
func targetOf(r *model.Route, target string) string {
	target, _ = r.Target(target, r.Rewrite)
	return target
}

// apply is what bpf/lib/edit.h does.
func apply(r tables.Rewrite, target string) string {
	if r.Text == "" {
		return target
	}
	path, _, _ := strings.Cut(target, "?")
	return r.Text + target[min(int(r.Cut), len(path)):]
}

func TestRewritesBeyondTheKernelStaySlow(t *testing.T) {
	long := rewritten("/"+strings.Repeat("n", int(maps.MaxRewrite)), matcher.PathMatch{Value: "/long"})
	regex, hashed, plain := rewritten("", matcher.PathMatch{Value: "/regex"}), rewritten("/x?a=b", matcher.PathMatch{Value: "/hashed"}), rewritten("/x", matcher.PathMatch{Value: "/plain"})
	regex.Rewrite.Regex = substitution(t, "a", "b")
	hashed.Hash = model.HashPolicies{{Kind: model.HashQuery, Name: "a"}}
	plain.Hash = hashed.Hash
	table, notes := compileTable("table", oneHost(long, regex, hashed, plain))
	var reasons []string
	for _, n := range notes {
		reason, _, _ := strings.Cut(n.Reason, ";")
		reasons = append(reasons, reason)
	}
	want := []string{"a path rewritten to 121 bytes, more than 120", "a path rewritten by an expression", "a query written into the path, and a hash policy"}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	fates(t, &table, map[string]string{"/long": "route_slow", "/regex": "route_slow", "/hashed": "route_slow", "/plain": "a"})
}

func TestRewritesBeyondTheirMapStaySlow(t *testing.T) {
	var routes []*model.Route
	for i := range maxRewrites + 2 {
		routes = append(routes, rewritten(fmt.Sprintf("/to/%d", i), matcher.PathMatch{Value: fmt.Sprintf("/%05d", i)}))
	}
	// One that is known needs no room.
	routes = append(routes, rewritten("/to/0", matcher.PathMatch{Value: "/again"}))
	table, notes := compileTable("table", oneHost(routes...))
	if len(notes) != 1 || !strings.Contains(notes[0].String(), fmt.Sprintf("route %d, %d: more than", maxRewrites+1, maxRewrites+2)) {
		t.Errorf("notes %v", notes)
	}
	fates(t, &table, map[string]string{"/00000": "a", fmt.Sprintf("/%05d", maxRewrites): "route_slow", fmt.Sprintf("/%05d", maxRewrites+1): "route_slow", "/again": "a"})
}
