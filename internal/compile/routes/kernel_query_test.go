// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

func parameter(name string, kind matcher.StringKind, value string) matcher.QueryMatch {
	return matcher.QueryMatch{Name: name, String: &matcher.StringMatch{Kind: kind, Value: value}}
}

// byQuery is a table with a route for each match, and one for the rest.
func byQuery(matches ...matcher.QueryMatch) *model.RouteTable {
	vh := &model.VirtualHost{Name: "vh", Domains: []string{"*"}}
	for i, m := range matches {
		r := routeTo("/")
		r.Query, r.Clusters[0].Name = []matcher.QueryMatch{m}, fmt.Sprintf("c%d", i)
		vh.Routes = append(vh.Routes, r)
	}
	vh.Routes = append(vh.Routes, routeTo("/"))
	return &model.RouteTable{VirtualHosts: []*model.VirtualHost{vh}}
}

func targetOf(target string) *matcher.Request {
	return withFields(&matcher.Request{
		Authority: "a", Path: target, Method: "GET", Scheme: "http", Values: func(string) []string { return nil },
	})
}

// Names and values begin and end at every byte of the words that the program reads, in short heads and behind long beginnings.
func TestKernelReadsQueriesAsTheModel(t *testing.T) {
	value := strings.Repeat("v", int(maps.MaxFieldValue))
	name := strings.Repeat("n", int(maps.MaxFieldName)-1)
	matches := []matcher.QueryMatch{
		parameter("a", matcher.StringExact, ""), parameter("a", matcher.StringExact, "b"), parameter("a", matcher.StringPrefix, value),
		parameter("a", matcher.StringSuffix, "bc"), parameter("a", matcher.StringExact, "b=c"), parameter("seven77", matcher.StringPrefix, "seven77"),
		parameter("eight888", matcher.StringExact, "eight888"), parameter(name, matcher.StringExact, value), parameter("?a", matcher.StringContains, "b"),
		{Name: "b", Absent: true}, {Name: "c"},
	}
	beginnings := []string{"/", "/" + strings.Repeat("p", int(maps.MaxPath)+1), "/?" + strings.Repeat("x", 2000), "/%41?b=&"}
	for i := range 18 {
		beginnings = append(beginnings, "/?b&"+strings.Repeat("x", i), "/?b="+strings.Repeat("x", i))
	}
	var rests []string
	for _, pair := range []string{
		"a", "a=", "a=b", "a=b=c", "a=xbc", "a=" + value, "a=" + value + "v", "seven77=seven77x", "eight888=eight888", "eight888=eight88",
		name + "=" + value, name + "n=" + value, "?a=abc", "b", "c", "a=c&a=b", "=a", "&", "",
	} {
		rests = append(rests, "?"+pair, "&"+pair, "&"+pair+"&x=", "&&"+pair+"&c")
	}
	rt := byQuery(matches...)
	k := newKernel(t)
	listener := k.load(rt)
	names, taken := k.clusters(), map[string]int{}
	for _, beginning := range beginnings {
		for _, rest := range rests {
			r := targetOf(beginning + rest)
			verdict, cluster := k.route(listener, headOf(r))
			want := rt.Match(r).Clusters[0].Name
			taken[want]++
			if verdict != maps.VerdictOk || names[cluster] != want {
				t.Errorf("%s: %s, %s, want %s", r.Path, maps.VerdictName(verdict), names[cluster], want)
			}
		}
	}
	if len(taken) != len(matches)+1 {
		t.Errorf("of %d routes only these are taken: %v", len(matches)+1, taken)
	}
}

func TestKernelHandsOverQueriesOfTooManyParameters(t *testing.T) {
	var matches []matcher.QueryMatch
	var asked []string
	for i := range int(maps.MaxFields) + 1 {
		matches = append(matches, parameter(fmt.Sprintf("p%d", i), matcher.StringExact, "1"))
		asked = append(asked, fmt.Sprintf("p%d=0", i))
	}
	many := strings.Repeat("x&", int(maps.MaxParameters)-1)
	k := newKernel(t)
	for _, tt := range []struct {
		name   string
		table  *model.RouteTable
		target string
		want   maps.Verdict
	}{
		{"as many as are read", byQuery(matches...), "/?" + many + "p0=1", maps.VerdictOk},
		{"one more", byQuery(matches...), "/?" + many + "x&p0=1", maps.HandoverTooManyParameters},
		{"one more, empty", byQuery(matches...), "/?" + many + "p0=1&", maps.HandoverTooManyParameters},
		{"one more, and no route asks", byQuery(), "/?" + many + "x&p0=1", maps.VerdictOk},
		{"as many asked ones as are compared", byQuery(matches...), "/?" + strings.Join(asked[1:], "&"), maps.VerdictOk},
		{"those, repeated", byQuery(matches...), "/?" + strings.Repeat(strings.Join(asked[1:], "&")+"&", 3), maps.VerdictOk},
		{"one more asked one", byQuery(matches...), "/?" + strings.Join(asked, "&"), maps.HandoverTooManyParameters},
	} {
		r := targetOf(tt.target)
		got, cluster := k.route(k.load(tt.table), headOf(r))
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, maps.VerdictName(got), maps.VerdictName(tt.want))
		}
		if why := disagree(k.image.Listeners[0].Table, r, got, k.clusters()[cluster]); why != "" {
			t.Errorf("%s: %s", tt.name, why)
		}
	}
}
