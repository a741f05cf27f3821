// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"encoding/json"
	"flag"
	"fmt"
	"testing"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/rewrite"
	"github.com/xlb-project/xlb/test/envoytest"
)

var (
	seed       = flag.Uint64("seed", 10, "seed of the tables and requests")
	tableCount = flag.Int("tables", 120, "number of tables")
	requests   = flag.Int("requests", 100, "requests for each table")
)

// tablesPerEnvoy bounds the listeners of one process.
const tablesPerEnvoy = 50

func TestRoutesAreThoseOfEnvoy(t *testing.T) {
	envoytest.Binary(t)
	w := NewWorld(*seed)
	var found counts
	for left := *tableCount; left > 0; left -= tablesPerEnvoy {
		batch := make([]*Table, min(left, tablesPerEnvoy))
		for i := range batch {
			batch[i] = w.Table()
		}
		e := startEnvoy(t, batch)
		for i, table := range batch {
			compareTable(t, w, e, i, table, &found)
		}
	}
	t.Logf("%d tables, seed %d: %+v", *tableCount, *seed, found)
	for _, kind := range kinds {
		if found.kinds[kind] == 0 {
			t.Errorf("no route with %s was taken: another seed, or more tables", kind)
		}
	}
	// Handing everything over would agree as well.
	if found.Fast < found.RouteSlow {
		t.Errorf("%d requests decided by compiled tables, %d handed over for a slow route", found.Fast, found.RouteSlow)
	}
}

// counts says what became of the requests.
type counts struct {
	// Of Envoy: requests with a route, without one, and refused.
	Routed, NoRoute, Refused, Redirected int
	// Fast and RouteSlow are what the compiled tables decide and hand over; TableSlow is a
	// table that they do not hold.
	Fast, RouteSlow, TableSlow, Normalize, OtherHandover int
	Differences                                          int
	// kinds counts the routes taken by what they ask.
	kinds map[string]int
}

// kinds that the test must have seen win.
var kinds = []string{
	"prefix", "path", "path_separated_prefix", "safe_regex", "case_sensitive", "query_parameters", "cookies", "grpc", "runtime_fraction",
	"string_match", "exact_match", "prefix_match", "suffix_match", "contains_match", "safe_regex_match", "range_match", "present_match",
	"invert_match", "treat_missing_header_as_empty", ":method", ":path", ":authority", ":scheme",
}

func (c *counts) won(match Object) {
	if c.kinds == nil {
		c.kinds = map[string]int{}
	}
	for name := range match {
		c.kinds[name]++
	}
	headers, _ := match["headers"].([]any)
	for _, h := range headers {
		for name := range h.(Object) {
			c.kinds[name]++
		}
		c.kinds[h.(Object)["name"].(string)]++
	}
}

// isAnswerTo compares what Envoy does with what the model makes of the path. Envoy refuses other requests as well, and
// redirects no gRPC client.
func isAnswerTo(outcome rewrite.PathOutcome, want int) bool {
	switch outcome {
	case rewrite.PathRefused:
		return want == refused
	case rewrite.PathRedirected:
		return want == redirected || want == refused
	default:
		return want != redirected
	}
}

func compareTable(t *testing.T, w World, e *envoy, i int, table *Table, found *counts) {
	rt, err := table.Model()
	if err != nil {
		t.Fatalf("%v\n%s", err, table)
	}
	compiled, _ := compile.Compile(&model.Config{Listeners: []*model.Listener{{Name: "table", Routes: rt}}})
	for range *requests {
		r := w.Request(table)
		want := e.ask(t, i, r)
		if outcome := r.Outcome(rt); !isAnswerTo(outcome, want) {
			found.Differences++
			t.Errorf("%q\nEnvoy: %d\nmodel: %d\n%v", r.Bytes(), want, outcome, table.Manager)
		}
		switch want {
		case refused:
			found.Refused++
			continue
		case redirected:
			found.Redirected++
			found.compiled(t, compiled.Listeners[0].Table, r, r.Model(rt), want)
			continue
		case noRoute:
			found.NoRoute++
		default:
			found.Routed++
		}
		if want >= 0 {
			found.won(table.matches[want])
		}
		found.compiled(t, compiled.Listeners[0].Table, r, r.Model(&model.RouteTable{}), want)
		if got := number(rt.Match(r.Model(rt))); got != want {
			found.Differences++
			t.Errorf("%q\nEnvoy takes %s\nmodel takes %s", r.Bytes(), table.route(want), table.route(got))
			if found.Differences > 20 {
				t.Fatal("too many differences")
			}
		}
	}
}

// compiled compares what the kernel would do: it may hand any request over, but not
// take another route.
func (c *counts) compiled(t *testing.T, table *tables.Table, r *Request, m *matcher.Request, want int) {
	m.Path = r.Target // which the kernel looks at
	route, verdict := table.Route(m)
	got := noRoute
	switch verdict {
	case maps.VerdictOk:
		c.Fast++
		got = clusterNumber(route.Cluster.Name)
	case maps.HandoverNoRoute, maps.HandoverNoVHost:
		c.Fast++
	case maps.HandoverRouteSlow:
		c.RouteSlow++
		return
	case maps.HandoverTableSlow:
		c.TableSlow++
		return
	case maps.HandoverNormalize:
		c.Normalize++
		return
	default:
		c.OtherHandover++
		return
	}
	if got != want {
		c.Differences++
		t.Errorf("%q\nEnvoy takes route %d, the compiled table %d", r.Bytes(), want, got)
	}
}

// number is the route's place in the table.
func number(r *model.Route) int {
	if r == nil {
		return noRoute
	}
	return clusterNumber(r.Clusters[0].Name)
}

func clusterNumber(name string) int {
	var n int
	if _, err := fmt.Sscanf(name, "route-%d", &n); err != nil {
		panic(err)
	}
	return n
}

func (t *Table) route(n int) string {
	if n == noRoute {
		return "none"
	}
	text, _ := json.Marshal(t.matches[n])
	return fmt.Sprintf("%d: %s", n, text)
}

// String is the table as JSON.
func (t *Table) String() string {
	text, _ := json.MarshalIndent(t.Config, "", " ")
	return string(text)
}

// TestOneDrawDecidesOverAllFractions shows what chance means to Envoy: one number
// for each request, of which every fraction takes the remainder.
func TestOneDrawDecidesOverAllFractions(t *testing.T) {
	fraction := func(numerator int) Object {
		return Object{"prefix": "/", "runtime_fraction": Object{"default_value": Object{"numerator": numerator}}}
	}
	table := tableOf(fraction(30), fraction(50), Object{"prefix": "/"})
	e := startEnvoy(t, []*Table{table})
	rt, err := table.Model()
	if err != nil {
		t.Fatal(err)
	}
	const rounds = 4000
	w := NewWorld(*seed)
	r := &Request{Method: "GET", Host: "a", Target: "/"}
	var envoy, ours [3]int
	for range rounds {
		envoy[e.ask(t, 0, r)]++
		m := r.Model(rt)
		m.Draw = w.Uint64()
		ours[number(rt.Match(m))]++
	}
	for i, percent := range []int{30, 20, 50} {
		// Six standard deviations of the widest share.
		const slack = 190
		want := rounds * percent / 100
		if max(envoy[i], ours[i]) > want+slack || min(envoy[i], ours[i]) < want-slack {
			t.Errorf("route %d of %d requests: Envoy %d, model %d, want about %d", i, rounds, envoy[i], ours[i], want)
		}
	}
}

// tableOf is a table of one virtual host for all domains.
func tableOf(matches ...Object) *Table {
	var routes []any
	for _, m := range matches {
		routes = append(routes, Object{"match": m})
	}
	host := Object{"name": "vh", "domains": []any{"*"}, "routes": routes}
	return &Table{Config: Object{"name": "table", "virtual_hosts": []any{host}}, matches: matches}
}
