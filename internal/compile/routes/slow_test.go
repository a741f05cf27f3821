// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/compile/note"
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
)

func pathRoute(cluster string, m matcher.PathMatch) *model.Route {
	if m.Kind == matcher.PathRegex {
		m.Regex = regex(m.Value)
	}
	return &model.Route{Path: m, Clusters: to(cluster)}
}

func regexRoute(cluster, source string) *model.Route {
	return pathRoute(cluster, matcher.PathMatch{Kind: matcher.PathRegex, Value: source})
}

// fates asks a table about paths: a cluster, or the reason for a hand-over.
func fates(t *testing.T, table *tables.Table, want map[string]string) {
	t.Helper()
	for path, fate := range want {
		if got := clusterFor(table, get("h", path)); got != fate {
			t.Errorf("%s: got %s, want %s", path, got, fate)
		}
	}
}

func TestOneRegexAmongPrefixesLeavesTheOthersFast(t *testing.T) {
	var routes []*model.Route
	for i := range 500 {
		routes = append(routes, prefixRoute(fmt.Sprintf("/before/%03d/", i), "before"))
	}
	routes = append(routes, regexRoute("regex", "/(api|app)/.*"))
	for i := range 500 {
		routes = append(routes, prefixRoute(fmt.Sprintf("/b/%03d/", i), "b"), prefixRoute(fmt.Sprintf("/a/%03d/", i), "a"))
	}
	table, notes := compileTable("table", oneHost(routes...))
	if len(notes) != 0 || table.Flags != 0 {
		t.Errorf("flags %d, notes %v", table.Flags, notes)
	}
	for _, p := range table.Paths {
		if begins := strings.HasPrefix(p.Key, "/ap"); begins != (p.Automata > 0) {
			t.Errorf("%q: %d automata", p.Key, p.Automata)
		}
	}
	fates(t, &table, map[string]string{
		"/before/007/x": "before", // an earlier route
		"/b/007/x":      "b",      // "/ap" begins all that the regex matches
		"/a/007/x":      "a",
		"/c":            "no_route",
		"/api/x":        "regex",
		"/apple":        "no_route",
	})
}

func TestPathKindsAreFastWhereAKeyDecides(t *testing.T) {
	table, _ := compileTable("table", oneHost(
		pathRoute("separated", matcher.PathMatch{Kind: matcher.PathSeparatedPrefix, Value: "/sep"}),
		pathRoute("any case", matcher.PathMatch{Value: "/0/Shop", IgnoreCase: true}),
		pathRoute("any case, whole", matcher.PathMatch{Kind: matcher.PathExact, Value: "/1/Cart", IgnoreCase: true}),
		pathRoute("no letters", matcher.PathMatch{Value: "/2/", IgnoreCase: true}),
		exactRoute("/0/shop/x", "hidden"),
		regexRoute("regex", "/r/[0-9]+"),
		exactRoute("/r/7", "hidden"),
		exactRoute("/r/x", "exact"),
		prefixRoute("/", "rest"),
	))
	fates(t, &table, map[string]string{
		"/sep": "separated", "/sep/x": "separated", "/sepx": "rest", "/Sep": "rest",
		"/0/Shop/x": "any case", "/0/shop/x": "any case", "/0/SHOP": "any case", "/0/x": "rest", "/0": "rest",
		"/1/Cart": "any case, whole", "/1/cart": "any case, whole", "/1/Cart/": "rest",
		"/2/x": "no letters",
		"/r/x": "exact", "/r/7": "regex", "/r/77": "regex", "/r/y": "rest", "/r": "rest",
	})
}

func TestConditionsTheKernelCannotTellAreNeededAsFarAsItCan(t *testing.T) {
	value := matcher.Exact("v")
	suffix := prefixRoute("/suffix", "suffix", exactHeader("y", "1"), matcher.HeaderMatch{
		Name: "x", Kind: matcher.HeaderString, String: matcher.StringMatch{Kind: matcher.StringSuffix, Value: "v"},
	})
	grpc := prefixRoute("/grpc", "grpc")
	grpc.GRPC = true
	cookie := prefixRoute("/cookie", "slow")
	cookie.Cookies = []matcher.CookieMatch{{Name: "a", String: value}}
	query := prefixRoute("/query", "query", exactHeader("y", "1"))
	query.Query = []matcher.QueryMatch{{Name: "a", String: &value}}
	never, always := prefixRoute("/never", "slow"), prefixRoute("/always", "always")
	never.Fraction, always.Fraction = matcher.Fraction{Denominator: 100}, matcher.Fraction{Numerator: 100, Denominator: 100}
	some := prefixRoute("/some", "slow")
	some.Fraction = matcher.Fraction{Numerator: 1, Denominator: 100}
	table, _ := compileTable("table", oneHost(suffix, grpc, cookie, query, never, always, some, prefixRoute("/", "rest")))
	tests := []struct {
		path    string
		headers []string
		want    string
	}{
		{"/suffix", []string{"y", "1", "x", "v"}, "suffix"},
		{"/suffix", []string{"y", "1", "x", "w"}, "rest"},
		{"/suffix", []string{"y", "1"}, "rest"},
		{"/suffix", []string{"y", "2", "x", "v"}, "rest"},
		{"/grpc", []string{"content-type", "application/grpc"}, "grpc"},
		{"/grpc", []string{"content-type", "application/grpc+proto"}, "grpc"},
		{"/grpc", []string{"content-type", "application/grpc-web"}, "rest"},
		{"/grpc", []string{"content-type", "application/json"}, "rest"},
		{"/cookie", nil, "rest"},
		{"/cookie", []string{"cookie", "x"}, "route_slow"},
		{"/query?a=v", nil, "rest"},
		{"/query?a=v", []string{"y", "1"}, "query"},
		{"/query?a=w", []string{"y", "1"}, "rest"},
		{"/never", nil, "rest"},
		{"/always", nil, "always"},
		{"/some", nil, "slow"}, // the draw is 0
	}
	for _, tt := range tests {
		if got := clusterFor(&table, get("h", tt.path, tt.headers...)); got != tt.want {
			t.Errorf("%s %q: got %s, want %s", tt.path, tt.headers, got, tt.want)
		}
	}
}

func TestMissingHeaderCountsAsEmpty(t *testing.T) {
	match := func(m matcher.StringMatch, invert bool) *model.Route {
		h := matcher.HeaderMatch{Name: "x", Kind: matcher.HeaderString, String: m, Invert: invert, MissingAsEmpty: true}
		return prefixRoute("/", "match", h)
	}
	tests := []struct {
		name            string
		route           *model.Route
		missing, a, bee string
	}{
		{"exact", match(matcher.Exact("a"), false), "rest", "match", "rest"},
		{"exact, inverted", match(matcher.Exact("a"), true), "match", "rest", "match"},
		{"empty", match(matcher.Exact(""), false), "match", "rest", "rest"},
		{"empty, inverted", match(matcher.Exact(""), true), "rest", "match", "match"},
		{"prefix, inverted", match(matcher.Prefix("a"), true), "match", "rest", "match"},
	}
	for _, tt := range tests {
		table, _ := compileTable("table", oneHost(tt.route, prefixRoute("/", "rest")))
		got := []string{
			clusterFor(&table, get("h", "/")), clusterFor(&table, get("h", "/", "x", "a")), clusterFor(&table, get("h", "/", "x", "b")),
		}
		if diff := cmp.Diff([]string{tt.missing, tt.a, tt.bee}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestSlowRouteHidesNothingAndIsHiddenByASureWinner(t *testing.T) {
	slow := regexRoute("regex", "/.*")
	slow.Headers = []matcher.HeaderMatch{exactHeader("x", "1")}
	table, _ := compileTable("table", oneHost(
		prefixRoute("/a", "first"), slow, prefixRoute("/b", "second", exactHeader("x", "1"), exactHeader("y", "1")), prefixRoute("/", "rest"),
	))
	for _, tt := range []struct {
		path    string
		headers []string
		want    string
	}{
		{"/a", []string{"x", "1"}, "first"},
		{"/b", []string{"x", "1", "y", "1"}, "regex"},
		{"/b", []string{"y", "1"}, "rest"},
	} {
		if got := clusterFor(&table, get("h", tt.path, tt.headers...)); got != tt.want {
			t.Errorf("%s %q: got %s, want %s", tt.path, tt.headers, got, tt.want)
		}
	}
}

func TestNotesNameSlowRoutesByReason(t *testing.T) {
	var routes []*model.Route
	for i := range 10 {
		routes = append(routes, regexRoute("c", fmt.Sprintf("/%d/%s", i, tooLong)))
	}
	cookie := prefixRoute("/c", "c")
	cookie.Cookies = []matcher.CookieMatch{{Name: "a", String: matcher.Exact("v")}}
	_, notes := compileTable("table", oneHost(append(routes, cookie)...))
	want := []note.Note{
		{Where: `table: virtual host "vh": route 1, 2, 3, 4, 5, 6, 7, 8 and 2 more`, Reason: "a regular expression that is longer than 4096 bytes; the slow path serves the requests that may match"},
		{Where: `table: virtual host "vh": route 11`, Reason: "cookies; the slow path serves the requests that may match"},
	}
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTableThatTheKernelCannotServeIsSlow(t *testing.T) {
	envoyHeaders := oneHost(prefixRoute("/", "c"))
	envoyHeaders.EnvoyHeaders = &rewrite.EnvoyHeaders{}
	table, notes := compileTable("table", envoyHeaders)
	if diff := cmp.Diff(table, tables.Table{Flags: maps.TableSlow}); diff != "" || len(notes) != 1 {
		t.Errorf("notes %v, table (-got +want):\n%s", notes, diff)
	}
}

func TestHostsThatAreChangedAreHandedOver(t *testing.T) {
	hosts := []string{"a", "A.b", "a:80", "a:", "a.", "a.:80", "[::1]", "[::1]:80", "[a.:b]"}
	for _, tt := range []struct {
		name       string
		ignorePort bool
		rule       rewrite.HostRule
		over       []string
	}{
		{"ignore_port_in_host_matching", true, rewrite.HostRule{}, nil},
		{"strip_any_host_port", false, rewrite.HostRule{AnyPort: true}, []string{"a:80", "a:", "a.:80", "[::1]:80"}},
		{"strip_matching_host_port", false, rewrite.HostRule{Port: 8080}, []string{"a:80", "a:", "a.:80", "[::1]:80"}},
		{"strip_trailing_host_dot", false, rewrite.HostRule{TrailingDot: true}, []string{"a.", "a.:80", "[a.:b]"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rt := oneHost(prefixRoute("/", "c"))
			rt.IgnorePort, rt.Host = tt.ignorePort, tt.rule
			table, notes := compileTable("table", rt)
			if len(notes) != 0 {
				t.Errorf("notes %v", notes)
			}
			for _, host := range hosts {
				want := maps.VerdictOk
				if slices.Contains(tt.over, host) {
					want = maps.HandoverHost
				}
				r := &matcher.Request{Authority: host, Path: "/", Method: "GET", Values: func(string) []string { return nil }}
				if _, got := table.Route(r); got != want {
					t.Errorf("%s: %s, want %s", host, maps.VerdictName(got), maps.VerdictName(want))
				}
			}
		})
	}
}

func TestStems(t *testing.T) {
	for source, want := range map[string]string{
		"/a.*": "/a", "^/a$": "/a", "/a|/b": "/", "(/a)b": "/ab", "(?i)/a": "", "(?:/a)+": "", ".*": "", "/a?": "/", "/ab?c": "/a",
		`/a\.b`: "/a.b", "": "",
	} {
		if got := stemOf(matcher.PathMatch{Kind: matcher.PathRegex, Value: source}, literalPrefix); got != want {
			t.Errorf("%q: got %q, want %q", source, got, want)
		}
	}
}

func TestRoutesThatDoMoreThanForwardLeaveTheOthersFast(t *testing.T) {
	direct := prefixRoute("/direct", "a")
	direct.Clusters, direct.Direct = nil, &model.DirectResponse{Status: 200}
	redirect := prefixRoute("/redirect", "a")
	redirect.Clusters, redirect.Redirect = nil, &model.Redirect{Status: 301}
	path, host := prefixRoute("/path", "a"), prefixRoute("/host", "a")
	path.Rewrite.Regex, host.Host.Literal = substitution(t, "x", "y"), "h"
	changed := rewrite.HeaderLevel{Request: rewrite.HeaderChanges{Remove: []string{"a"}}}
	headers, share := prefixRoute("/headers", "a"), prefixRoute("/share", "a")
	headers.Levels, share.Clusters[0].Changes = []*rewrite.HeaderLevel{&changed}, changed
	named, drawn := prefixRoute("/named", "a"), prefixRoute("/drawn", "a")
	named.Clusters, drawn.DrawHeader = []model.WeightedCluster{{Header: "x", Weight: 1}}, "x"
	cors, fault := prefixRoute("/cors", "a"), prefixRoute("/fault", "a")
	cors.Filters.CORS, fault.Clusters[0].Filters = &model.CORS{}, &model.RouteFilters{Fault: &model.Fault{Status: 503}}
	mirrored := prefixRoute("/mirrored", "a")
	mirrored.Mirrors = []model.Mirror{{Cluster: "b"}}
	table, notes := compileTable("table", oneHost(direct, redirect, path, host, headers, share, named, drawn, cors, fault, mirrored, prefixRoute("/", "rest")))
	var reasons []string
	for _, n := range notes {
		reasons = append(reasons, n.Reason)
	}
	const behind = "; the slow path serves the requests that may match"
	want := []string{
		"direct_response" + behind, "an injected fault" + behind, "mirrored requests" + behind, "redirect" + behind, "a path rewritten by an expression" + behind, "a rewritten host" + behind, "changed headers" + behind,
		"a cluster chosen by a header" + behind, "a CORS policy, and an Origin header" + behind,
	}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	fates(t, &table, map[string]string{
		"/direct/x": "route_slow", "/redirect": "route_slow", "/path": "route_slow", "/host": "route_slow", "/headers": "route_slow",
		"/share": "route_slow", "/named": "route_slow", "/drawn": "route_slow", "/cors": "a", "/fault": "route_slow", "/mirrored": "route_slow",
		"/": "rest", "/x": "rest",
	})
}

func TestPolicyLeavesRequestsWithoutOriginFast(t *testing.T) {
	cors := &model.CORS{Origins: []matcher.StringMatch{matcher.Exact("*")}}
	policy, share, inner := prefixRoute("/policy", "a"), prefixRoute("/share", "b"), prefixRoute("/inner", "c", matcher.HeaderMatch{Name: "x"})
	policy.Filters.CORS, share.Clusters[0].Filters, inner.Filters.CORS = cors, &model.RouteFilters{CORS: cors}, cors
	other := prefixRoute("/other", "d")
	other.Filters.CORS, other.Rewrite.Regex = cors, substitution(t, "x", "y")
	table, notes := compileTable("table", oneHost(prefixRoute("/first", "e"), policy, share, inner, other, prefixRoute("/", "rest")))
	var places []string
	for _, n := range notes {
		places = append(places, n.String())
	}
	want := []string{
		`table: virtual host "vh": route 2, 3, 4: a CORS policy, and an Origin header; the slow path serves the requests that may match`,
		`table: virtual host "vh": route 5: a path rewritten by an expression; the slow path serves the requests that may match`,
	}
	if diff := cmp.Diff(want, places); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	const slow = "route_slow"
	for _, tt := range []struct{ path, without, with string }{
		{"/first", "e", "e"}, {"/policy", "a", slow}, {"/share", "b", slow}, {"/inner", "rest", "rest"}, {"/other", slow, slow}, {"/x", "rest", "rest"},
	} {
		got := []string{clusterFor(&table, get("h", tt.path)), clusterFor(&table, get("h", tt.path, "origin", "http://a"))}
		if diff := cmp.Diff([]string{tt.without, tt.with}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.path, diff)
		}
	}
	if got := clusterFor(&table, get("h", "/inner", "x", "1")); got != "c" {
		t.Errorf("/inner with x: got %s, want c", got)
	}
	if got := clusterFor(&table, get("h", "/inner", "x", "1", "origin", "")); got != slow {
		t.Errorf("/inner with x and an empty origin: got %s, want %s", got, slow)
	}
}

func TestPseudoHeadersAreFast(t *testing.T) {
	text := func(name string, kind matcher.StringKind, value string) matcher.HeaderMatch {
		m := matcher.StringMatch{Kind: kind, Value: value}
		if kind == matcher.StringRegex {
			m.Regex = regex(value)
		}
		return matcher.HeaderMatch{Name: name, Kind: matcher.HeaderString, String: m}
	}
	inverted := func(h matcher.HeaderMatch) matcher.HeaderMatch {
		h.Invert = true
		return h
	}
	anyCase := text(":scheme", matcher.StringExact, "HTTPS")
	anyCase.String.IgnoreCase = true
	get, post := request("GET", "http", "/a?q"), request("POST", "https", "/b")
	tests := []struct {
		name      string
		match     matcher.HeaderMatch
		get, post string
	}{
		{"method", text(":method", matcher.StringExact, "GET"), "match", "rest"},
		{"method, inverted", inverted(text(":method", matcher.StringExact, "GET")), "rest", "match"},
		{"method by expression", text(":method", matcher.StringRegex, "P.*"), "rest", "match"},
		{"any method", matcher.HeaderMatch{Name: ":method", Kind: matcher.HeaderPresent}, "match", "match"},
		{"no such method", text(":method", matcher.StringExact, "get"), "rest", "rest"},
		{"scheme", text(":scheme", matcher.StringExact, "http"), "match", "rest"},
		{"scheme by its end", text(":scheme", matcher.StringSuffix, "s"), "rest", "match"},
		{"scheme in any case", anyCase, "rest", "match"},
		{"any scheme", text(":scheme", matcher.StringPrefix, "http"), "match", "match"},
		{"no such scheme", text(":scheme", matcher.StringExact, "HTTP"), "rest", "rest"},
		{"path with query", text(":path", matcher.StringExact, "/a?q"), "match", "rest"},
		{"path without query", text(":path", matcher.StringExact, "/a"), "rest", "rest"},
		{"path by its beginning", text(":path", matcher.StringPrefix, "/a?"), "match", "rest"},
		{"path, inverted", inverted(text(":path", matcher.StringPrefix, "/a")), "rest", "match"},
		{"no path", inverted(matcher.HeaderMatch{Name: ":path", Kind: matcher.HeaderPresent}), "rest", "rest"},
		{"path by its end", text(":path", matcher.StringSuffix, "q"), "match", "rest"},
	}
	for _, tt := range tests {
		table, _ := compileTable("table", oneHost(prefixRoute("/", "match", tt.match), prefixRoute("/", "rest")))
		got := []string{clusterFor(&table, get), clusterFor(&table, post)}
		if diff := cmp.Diff([]string{tt.get, tt.post}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	absolute := request("GET", "http", "/")
	absolute.Scheme = "https"
	table, _ := compileTable("table", oneHost(prefixRoute("/", "rest")))
	if got := clusterFor(&table, absolute); got != "target_form" {
		t.Errorf("scheme of the target: got %s, want target_form", got)
	}
}

// request is one whose scheme its X-Forwarded-Proto says.
func request(method, scheme, path string) *matcher.Request {
	r := get("h", path, "x-forwarded-proto", scheme)
	r.Method, r.Scheme = method, scheme
	return r
}

func TestValuesAreFastInAnyCase(t *testing.T) {
	match := func(value string) matcher.HeaderMatch {
		return matcher.HeaderMatch{Name: "x", Kind: matcher.HeaderString, String: matcher.StringMatch{Value: value, IgnoreCase: true}}
	}
	table, notes := compileTable("table", oneHost(
		prefixRoute("/", "short", match("Yes-1")), prefixRoute("/", "longest", match("false")), prefixRoute("/", "none", match("12345678")),
		prefixRoute("/long", "long", match("normal")),
	))
	if len(notes) != 0 || len(table.Automata) != 1 {
		t.Errorf("notes %v, %d automata, want one for the long value", notes, len(table.Automata))
	}
	for _, tt := range []struct{ path, value, want string }{
		{"/", "yes-1", "short"},
		{"/", "yEs-1", "short"},
		{"/", "yes-2", "no_route"},
		{"/", "FALSE", "longest"},
		{"/", "12345678", "none"},
		{"/long", "normal", "long"},
		{"/long", "NORMAL", "long"},
		{"/long", "normaL!", "no_route"},
	} {
		if got := clusterFor(&table, get("h", tt.path, "x", tt.value)); got != tt.want {
			t.Errorf("%s x=%s: got %s, want %s", tt.path, tt.value, got, tt.want)
		}
	}
}
