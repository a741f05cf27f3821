// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/test/envoytest"
)

// longName and longValue are as long as the kernel compares.
var (
	longName  = strings.Repeat("n", int(maps.MaxFieldName)-1)
	longValue = strings.Repeat("v", int(maps.MaxFieldValue))
)

// parameterMatches are each taken by some of parameterTargets, and missed by others.
var parameterMatches = []Object{
	{"name": "a"},
	{"name": "a", "present_match": true},
	{"name": "a", "present_match": false},
	{"name": "a", "string_match": Object{"exact": ""}},
	{"name": "a", "string_match": Object{"exact": "b"}},
	{"name": "a", "string_match": Object{"exact": "B", "ignore_case": true}},
	{"name": "a", "string_match": Object{"exact": "Long-Value", "ignore_case": true}},
	{"name": "a", "string_match": Object{"exact": "%62"}},
	{"name": "a", "string_match": Object{"exact": "b=c"}},
	{"name": "a", "string_match": Object{"exact": "b;c"}},
	{"name": "a", "string_match": Object{"prefix": "b"}},
	{"name": "a", "string_match": Object{"suffix": "c"}},
	{"name": "a", "string_match": Object{"contains": "="}},
	{"name": "a", "string_match": Object{"safe_regex": Object{"regex": "b*"}}},
	{"name": "a", "string_match": Object{"exact": longValue}},
	{"name": "a", "string_match": Object{"prefix": longValue}},
	{"name": "A"},
	{"name": "?a"},
	{"name": "b"},
	{"name": "a%20b"},
	{"name": "a+b", "string_match": Object{"exact": "c"}},
	{"name": "seven77", "string_match": Object{"exact": "7"}},
	{"name": "eight888", "string_match": Object{"exact": "eight888"}},
	{"name": longName, "string_match": Object{"exact": longValue}},
}

// parameterTargets place names, values and their ends at every byte of a word.
func parameterTargets() []string {
	targets := []string{
		"/", "/a=b", "/?", "/?a", "/?a=", "/?a=b", "/?=", "/?=a", "/?&", "/?&&a=b", "/?a&a=b", "/?a=b&a", "/?a=b&a=c", "/?a=c&a=b", "/?b=&a=b",
		"/?a=b=c", "/?a==b", "/?a=b;c", "/?b;a=b", "/?a;b", "/?a=%62", "/?%61=b", "/?A=b", "/?a=B", "/?a=LONG-value", "/??a=b", "/?b?a=b", "/?a?=b",
		"/?/a=b", "/?a%20b", "/?a+b=c", "/?a%2Bb=c", "/?a=bbb", "/?a=bab", "/?ab=b", "/?b&ab&a=bc", "/?a=b&", "/?a=b&&&", "/?&a=&b=",
	}
	for i := range 17 {
		before := strings.Repeat("x", i)
		targets = append(targets, "/?"+before+"&a=b", "/?"+before+"=&a", "/?a="+before+"c", "/?"+before+"&seven77=7&eight888=eight888", "/?a"+before+"=b")
	}
	for _, value := range []string{longValue[1:], longValue, longValue + "v"} {
		targets = append(targets, "/?a="+value, "/?"+longName+"="+value, "/?x&"+longName+"="+value+"&a", "/?"+longName+"n="+value)
	}
	return targets
}

func TestQueryParametersAreThoseOfEnvoy(t *testing.T) {
	envoytest.Binary(t)
	tables := make([]*Table, len(parameterMatches))
	for i, m := range parameterMatches {
		tables[i] = tableOf(Object{"prefix": "/", "query_parameters": []any{m}}, Object{"prefix": "/"})
	}
	e := startEnvoy(t, tables)
	var found counts
	for i, table := range tables {
		t.Run(fmt.Sprintf("%.60v", parameterMatches[i]), func(t *testing.T) {
			requireParameters(t, e, i, table, &found)
		})
	}
	if found.RouteSlow+found.OtherHandover > 0 {
		t.Errorf("%d of %d requests handed over", found.RouteSlow+found.OtherHandover, found.Fast)
	}
}

// requireParameters compares Envoy, model and compiled table, for targets that take the match and others.
func requireParameters(t *testing.T, e *envoy, i int, table *Table, found *counts) {
	rt, err := table.Model()
	if err != nil {
		t.Fatal(err)
	}
	compiled, notes := compile.Compile(&model.Config{Listeners: []*model.Listener{{Name: "table", Routes: rt}}})
	if len(notes) > 0 {
		t.Error(notes)
	}
	var taken [2]int
	for _, target := range parameterTargets() {
		r := &Request{Method: "GET", Host: "a", Target: target}
		want := e.ask(t, i, r)
		if got := number(rt.Match(r.Model(rt))); got != want {
			t.Errorf("%s: Envoy takes route %d, the model %d", target, want, got)
		}
		found.compiled(t, compiled.Listeners[0].Table, r, r.Model(rt), want)
		taken[want]++
	}
	if taken[0] == 0 || taken[1] == 0 {
		t.Errorf("%d targets take the match, %d do not", taken[0], taken[1])
	}
}
