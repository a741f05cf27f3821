// SPDX-License-Identifier: Apache-2.0

package match

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// long is as long a text as a head can have.
const long = 60 << 10

// slow are matches that read a long text again and again, each in another part of the work.
func slow(t *testing.T) map[string]struct {
	table   *model.RouteTable
	request *matcher.Request
} {
	t.Helper()
	words := strings.Repeat("/word0/word1/word2/word3/word4/word5/word6/word7/word8/word9", long/60)
	request := func(path, header string) *matcher.Request {
		return &matcher.Request{Authority: "a", Path: path, Values: func(string) []string { return []string{header} }}
	}
	routes := func(n int, expression string, change func(r *model.Route)) *model.RouteTable {
		var all []*model.Route
		for i := range n {
			r := expressionRoute(t, strings.ReplaceAll(expression, "#", fmt.Sprint(i%10)))
			change(r)
			all = append(all, r)
		}
		return tableOf(all...)
	}
	onHeader := func(r *model.Route) {
		match := matcher.StringMatch{Kind: matcher.StringRegex, Value: r.Path.Value, Regex: r.Path.Regex}
		r.Headers, r.Path = []matcher.HeaderMatch{{Name: "x", Kind: matcher.HeaderString, String: match}}, matcher.PathMatch{Value: "/"}
	}
	onQuery := func(r *model.Route) {
		onHeader(r)
		r.Query, r.Headers = []matcher.QueryMatch{{Name: "x", String: &r.Headers[0].String}}, nil
	}
	as := func(*model.Route) {}
	type row = struct {
		table   *model.RouteTable
		request *matcher.Request
	}
	return map[string]row{
		"sets":                    {routes(100, `.*word#[a-z]+.*`, as), request(words, "")},
		"sets of their own":       {routes(400, `.*word#[a-z]+.*[^a-z]x`, as), request(words, "")},
		"beyond all limits":       {routes(3, `.*word#.{20}[a-z]y.*`, as), request(words, "")},
		"a header field":          {routes(3, `.*word#[a-z]+.*`, onHeader), request("/", words)},
		"a query parameter":       {routes(3, `.*word#[a-z]+.*`, onQuery), request("/?x="+words, "")},
		"parameters of the query": {routes(100, `a`, onQuery), request("/?"+strings.Repeat("&", long), "")},
	}
}

// However long a match takes, others have their turn meanwhile, and it ends with its client.
func TestLongMatchesPauseAndEndWithTheirClient(t *testing.T) {
	limits := dfa.Default()
	limits.UnanchoredBytes, limits.Sets = 64<<10, 16
	for name, tt := range slow(t) {
		t.Run(name, func(t *testing.T) {
			m := New(tt.table, dfa.NewMemo(limits).Compiler())
			pauses := 0
			if got := m.Match(tt.request, func() bool { pauses++; return false }); got != nil {
				t.Fatal("a route is found: this case takes no time")
			}
			if least := 3 * long / stretch; pauses < least {
				t.Errorf("%d pauses, want %d at least", pauses, least)
			}
			looks := 0
			m.Match(tt.request, func() bool { looks++; return looks == 2 })
			if looks != 2 {
				t.Errorf("%d pauses of a client that goes in the second one", looks)
			}
		})
	}
}

// A client that goes gets no route, although what was read until then would match.
func TestAClientThatGoesGetsNoRoute(t *testing.T) {
	for name, tt := range slow(t) {
		tt.table.VirtualHosts[0].Routes = append(tt.table.VirtualHosts[0].Routes, &model.Route{})
		m := New(tt.table, dfa.NewMemo(dfa.Default()).Compiler())
		for after := 1; after <= 4; after++ {
			pauses := 0
			if got := m.Match(tt.request, func() bool { pauses++; return pauses == after }); pauses == after && got != nil {
				t.Errorf("%s: a route after the client has gone in pause %d", name, after)
			}
		}
	}
}

// To make an automaton takes longer than to walk a short value.
func TestAutomataThatAreMadePause(t *testing.T) {
	re, err := matcher.NewRegex(`.*word.{600}[a-z]y.*`)
	if err != nil {
		t.Fatal(err)
	}
	pauses := 0
	at := &pace{pause: func() bool { pauses++; return false }}
	const made = 20
	for range made {
		new(shelf).matches(re, strings.Repeat("x", 100), at)
	}
	if least := made * making * re.Cost() / stretch / 2; pauses < least {
		t.Errorf("%d pauses for %d automata of %d instructions, want %d at least", pauses, made, re.Cost(), least)
	}
}
