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

func to(name string) []model.WeightedCluster {
	return []model.WeightedCluster{{Name: name, Weight: 1}}
}

func prefixRoute(value, cluster string, headers ...matcher.HeaderMatch) *model.Route {
	return &model.Route{Path: matcher.PathMatch{Kind: matcher.PathPrefix, Value: value}, Headers: headers, Clusters: to(cluster)}
}

func exactRoute(value, cluster string) *model.Route {
	return &model.Route{Path: matcher.PathMatch{Kind: matcher.PathExact, Value: value}, Clusters: to(cluster)}
}

// parameterRoute asks for the value of a query parameter.
func parameterRoute(name, value string) *model.Route {
	r, exactly := prefixRoute("/", "parameter"), matcher.Exact(value)
	r.Query = []matcher.QueryMatch{{Name: name, String: &exactly}}
	return r
}

func oneHost(routes ...*model.Route) *model.RouteTable {
	return &model.RouteTable{VirtualHosts: []*model.VirtualHost{{Name: "vh", Domains: []string{"*"}, Routes: routes}}}
}

func exactHeader(name, value string) matcher.HeaderMatch {
	return matcher.HeaderMatch{Name: name, Kind: matcher.HeaderString, String: matcher.Exact(value)}
}

// get is a request with headers given as name, value, name, value ...
func get(authority, path string, headers ...string) *matcher.Request {
	return &matcher.Request{Authority: authority, Path: path, Values: func(name string) []string {
		var values []string
		for i := 0; i < len(headers); i += 2 {
			if headers[i] == name {
				values = append(values, headers[i+1])
			}
		}
		return values
	}}
}

func clusterFor(t *tables.Table, r *matcher.Request) string {
	route, verdict := t.Route(r)
	if verdict != maps.VerdictOk {
		return maps.VerdictName(verdict)
	}
	name, _ := t.ClusterOf(route, 0)
	return name.Name
}

func TestRouteTooHardForTheKernelIsSlowWithANote(t *testing.T) {
	manyConditions := make([]*model.Route, int(maps.MaxPredicates)+1)
	for i := range manyConditions {
		// Of inverted conditions no index can be made.
		h := exactHeader("x", fmt.Sprint(i))
		h.Invert, h.MissingAsEmpty = true, true
		manyConditions[i] = prefixRoute(fmt.Sprintf("/%d", i), "c", h)
	}
	manyCandidates := make([]*model.Route, int(maps.MaxCandidates)+1)
	for i := range manyCandidates {
		// Eight bits tell the routes apart, so that conditions are not what runs out.
		manyCandidates[i] = prefixRoute("/", "c")
		for bit := range 8 {
			h := matcher.HeaderMatch{Name: fmt.Sprintf("h%d", bit), Kind: matcher.HeaderPresent, Invert: i>>bit&1 == 0}
			manyCandidates[i].Headers = append(manyCandidates[i].Headers, h)
		}
	}
	manyShares := prefixRoute("/", "c")
	for range int(maps.MaxSplit) {
		manyShares.Clusters = append(manyShares.Clusters, to("c")...)
	}
	unweighted := prefixRoute("/", "c")
	for range int(maps.MaxSplit) {
		unweighted.Clusters = append(unweighted.Clusters, model.WeightedCluster{Name: "idle"})
	}
	long := func(n int) string { return strings.Repeat("v", n) }
	tests := []struct {
		name   string
		routes []*model.Route
		reason string
	}{
		{"longest prefix", []*model.Route{prefixRoute(long(251), "c")}, ""},
		{"longer prefix", []*model.Route{prefixRoute(long(252), "c")}, "path prefix of 252 bytes, more than 251"},
		{"longest exact path", []*model.Route{exactRoute(long(250), "c")}, ""},
		{"longer exact path", []*model.Route{exactRoute(long(251), "c")}, "exact path of 251 bytes, more than 250"},
		{"longest header name", []*model.Route{prefixRoute("/", "c", exactHeader(long(56), "v"))}, ""},
		{"longer header name", []*model.Route{prefixRoute("/", "c", exactHeader(long(57), "v"))}, "header name of 57 bytes, more than 56"},
		{"longest header value", []*model.Route{prefixRoute("/", "c", exactHeader("x", long(120)))}, ""},
		{"longer header value", []*model.Route{prefixRoute("/", "c", exactHeader("x", long(121)))}, "value of 121 bytes, more than 120"},
		{"longest parameter", []*model.Route{parameterRoute(long(55), long(120))}, ""},
		{"longer parameter name", []*model.Route{parameterRoute(long(56), "v")}, "query parameter name of 56 bytes, more than 55"},
		{"longer parameter value", []*model.Route{parameterRoute("a", long(121))}, `query parameter "a": value of 121 bytes, more than 120`},
		{"most conditions", manyConditions[1:], ""},
		{"more conditions", manyConditions, "more than 64 different conditions on headers and query parameters"},
		{"most candidates", manyCandidates[1:], ""},
		{"more candidates", manyCandidates, "more than 128 routes with conditions on headers or query parameters for one path"},
		{"more shares", []*model.Route{manyShares}, "65 weighted clusters, more than 64"},
		{"shares without weight do not count", []*model.Route{unweighted}, ""},
		{"unreachable conditions do not count", append([]*model.Route{prefixRoute("/", "c")}, manyConditions...), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, notes := Compile(NewSpace(NewCache(), nil), `listener "web"`, model.Scope{}, oneHost(tt.routes...))
			if tt.reason == "" {
				if len(notes) != 0 || got.Flags&maps.TableSlow != 0 {
					t.Fatalf("notes %v, flags %d, want a fast table", notes, got.Flags)
				}
				return
			}
			slow := 0
			for _, r := range got.Routes {
				if r.Flags&maps.RouteSlow != 0 {
					slow++
				}
			}
			if got.Flags&maps.TableSlow != 0 || slow != 1 {
				t.Errorf("table flags %d, %d slow routes, want one and a fast table", got.Flags, slow)
			}
			if len(notes) != 1 || !strings.Contains(notes[0].String(), tt.reason) ||
				!strings.HasPrefix(notes[0].Where, `listener "web": virtual host "vh": route `) {
				t.Errorf("notes %v, want one that says %q and where", notes, tt.reason)
			}
		})
	}
}

func TestLongPathsAreToldApartAtTheLimit(t *testing.T) {
	a250, a251 := strings.Repeat("a", 250), strings.Repeat("a", 251)
	table, _ := compileTable("table", oneHost(exactRoute(a250, "exact"), prefixRoute(a251, "long"), prefixRoute("a", "short")))
	for path, want := range map[string]string{
		a250[1:]:        "short",
		a250:            "exact",
		a250 + "b":      "short",
		a251:            "long",
		a251 + "b":      "long",
		a250 + "bbbbbb": "short",
	} {
		if got := clusterFor(&table, get("h", path)); got != want {
			t.Errorf("path of %d bytes, %q...: %s, want %s", len(path), path[len(path)-6:], got, want)
		}
	}
}

func TestHostEqualToAWildcardsTextIsResolvedAsByEnvoy(t *testing.T) {
	vhosts := func(domains ...string) *model.RouteTable {
		rt := &model.RouteTable{}
		for _, d := range domains {
			rt.VirtualHosts = append(rt.VirtualHosts, &model.VirtualHost{
				Name: d, Domains: []string{d}, Routes: []*model.Route{prefixRoute("/", d)},
			})
		}
		return rt
	}
	tests := []struct {
		name    string
		domains []string
		host    string
		want    string
	}{
		{"suffix text alone", []string{"*.a"}, ".a", "no_route"},
		{"suffix text, default", []string{"*.a", "*"}, ".a", "*"},
		{"suffix text, exact", []string{"*.a", ".a"}, ".a", ".a"},
		{"suffix text, shorter suffix", []string{"*.b.a", "*.a"}, ".b.a", "*.a"},
		{"suffix text, prefix", []string{"*.a", ".*"}, ".a", ".*"},
		{"prefix text alone", []string{"a.*"}, "a.", "no_route"},
		{"prefix text, default", []string{"a.*", "*"}, "a.", "*"},
		{"prefix text, shorter prefix", []string{"a.b.*", "a.*"}, "a.b.", "a.*"},
		{"prefix text, suffix", []string{"a.*", "*."}, "a.", "*."},
		{"both texts alone", []string{"*ab", "ab*"}, "ab", "no_route"},
		{"one character more, suffix", []string{"*.a", "*"}, "x.a", "*.a"},
		{"one character more, prefix", []string{"a.*", "*"}, "a.x", "a.*"},
		{"suffix before prefix", []string{"a.*", "*.a"}, "a.a", "*.a"},
		{"port is part of the host", []string{"a:8080", "*"}, "a:8080", "a:8080"},
		{"without case", []string{"a.b", "*"}, "A.B", "a.b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rt := vhosts(tt.domains...)
			table, _ := compileTable("table", rt)
			if got := clusterFor(&table, get(tt.host, "/")); got != tt.want {
				t.Errorf("got %s, want %s\n%s", got, tt.want, describe(rt, &table, get(tt.host, "/")))
			}
		})
	}
}

func TestTooLongDomainKeepsTheTableFast(t *testing.T) {
	rt := oneHost(prefixRoute("/", "c"))
	rt.VirtualHosts[0].Domains = []string{strings.Repeat("d", 252), "*"}
	table, notes := compileTable("table", rt)
	if table.Flags != 0 || len(notes) != 1 {
		t.Errorf("flags %d, notes %v, want a table without flags and one note", table.Flags, notes)
	}
}

func TestInvertedMatchNeedsTheHeader(t *testing.T) {
	inverted := exactHeader("x", "a")
	inverted.Invert = true
	absent := matcher.HeaderMatch{Name: "x", Kind: matcher.HeaderPresent, Invert: true}
	table, _ := compileTable("table", oneHost(prefixRoute("/", "other", inverted), prefixRoute("/", "absent", absent), prefixRoute("/", "rest")))
	for _, tt := range []struct {
		headers []string
		want    string
	}{
		{nil, "absent"},
		{[]string{"x", "b"}, "other"},
		{[]string{"x", ""}, "other"},
		{[]string{"x", "a"}, "rest"},
	} {
		if got := clusterFor(&table, get("h", "/", tt.headers...)); got != tt.want {
			t.Errorf("headers %q: %s, want %s", tt.headers, got, tt.want)
		}
	}
}

func TestRoutesThatCannotWinAreLeftOut(t *testing.T) {
	a, b := exactHeader("x", "1"), exactHeader("y", "1")
	absent := matcher.HeaderMatch{Name: "z", Kind: matcher.HeaderPresent, Invert: true}
	present := matcher.HeaderMatch{Name: "z", Kind: matcher.HeaderPresent}
	table, _ := compileTable("table", oneHost(
		prefixRoute("/", "never", present, absent),
		prefixRoute("/", "a", a),
		prefixRoute("/", "a and b", b, a),
		prefixRoute("/", "b", b),
		prefixRoute("/", "all"),
		prefixRoute("/", "behind all"),
	))
	var got []string
	for _, r := range table.Routes {
		got = append(got, r.Cluster.Name)
	}
	if diff := cmp.Diff(got, []string{"a", "b", "all"}); diff != "" {
		t.Errorf("candidates (-got +want):\n%s", diff)
	}
	if len(table.Values) != 2 {
		t.Errorf("values %v, want those of the candidates only", table.Values)
	}
}

func TestEqualListsAndSharesLieInOnePlace(t *testing.T) {
	weighted := func(prefix string) *model.Route {
		r := prefixRoute(prefix, "a")
		r.Clusters = append(r.Clusters, model.WeightedCluster{Name: "b", Weight: 3})
		return r
	}
	table, _ := compileTable("table", oneHost(weighted("/a"), weighted("/b"), weighted("/c")))
	// Which comes first is of no consequence where no other list is compared.
	if len(table.Paths) != 3 || len(table.Routes) != 1 || len(table.Splits) != 2 {
		t.Errorf("%d paths, %d routes, %d splits, want 3, 1, 2", len(table.Paths), len(table.Routes), len(table.Splits))
	}
	separated := weighted("/a")
	separated.Path.Kind = matcher.PathSeparatedPrefix
	if table, _ = compileTable("table", oneHost(separated)); len(table.Paths) != 2 || len(table.Routes) != 1 {
		t.Errorf("%d paths, %d routes, want 2, 1", len(table.Paths), len(table.Routes))
	}
}

func TestMoreAskedHeadersThanTheKernelNotesAreHandedOver(t *testing.T) {
	var routes []*model.Route
	var sent []string
	for i := range int(maps.MaxFields) + 1 {
		name := fmt.Sprintf("h%d", i)
		routes = append(routes, prefixRoute("/", name, exactHeader(name, "1")))
		sent = append(sent, name, "0")
	}
	table, _ := compileTable("table", oneHost(append(routes, prefixRoute("/", "rest"))...))
	if got := clusterFor(&table, get("h", "/", sent[2:]...)); got != "rest" {
		t.Errorf("%d headers: %s, want rest", maps.MaxFields, got)
	}
	if got := clusterFor(&table, get("h", "/", sent...)); got != "too_many_fields" {
		t.Errorf("%d headers: %s, want too_many_fields", maps.MaxFields+1, got)
	}
}

func TestRequestsTheKernelDoesNotReadAreHandedOver(t *testing.T) {
	table, _ := compileTable("table", oneHost(prefixRoute("/", "asked", exactHeader("x", "a")), prefixRoute("/", "rest")))
	repeated := get("h", "/")
	repeated.Values = func(name string) []string {
		return map[string][]string{"x": {"a", "b"}, "y": {"a", "b"}}[name]
	}
	other := get("h", "/")
	other.Values = func(name string) []string {
		return map[string][]string{"x": {"a"}, "y": {"a", "b"}}[name]
	}
	for _, tt := range []struct {
		name string
		r    *matcher.Request
		want string
	}{
		{"asked header repeated", repeated, "repeated_field"},
		{"other header repeated", other, "asked"},
		{"whitespace behind a value", get("h", "/", "x", "a "), "malformed"},
		{"host of other bytes", get("h\u00e4", "/"), "host"},
		{"host that is ASCII only in lower case", get("\u212a", "/"), "host"},
		{"host of all kinds of bytes", get("[::1]:80.A-b_~", "/"), "rest"},
		{"no host", get("", "/"), "host"},
		{"no host before the port", get(":80", "/"), "host"},
	} {
		if got := clusterFor(&table, tt.r); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
