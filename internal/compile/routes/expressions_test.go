// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/dfa"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

func headerRoute(path, cluster string, h matcher.HeaderMatch) *model.Route {
	if h.String.Kind == matcher.StringRegex {
		h.String.Regex = regex(h.String.Value)
	}
	return prefixRoute(path, cluster, h)
}

func textHeader(kind matcher.StringKind, value string, ignoreCase bool) matcher.HeaderMatch {
	return matcher.HeaderMatch{
		Name: "x", Kind: matcher.HeaderString, String: matcher.StringMatch{Kind: kind, Value: value, IgnoreCase: ignoreCase},
	}
}

func TestExpressionsOverValuesAreFast(t *testing.T) {
	long := strings.Repeat("v", 3000)
	table, notes := compileTable("table", oneHost(
		headerRoute("/suffix", "match", textHeader(matcher.StringSuffix, ".png", false)),
		headerRoute("/contains", "match", textHeader(matcher.StringContains, "Bot", true)),
		headerRoute("/prefix", "match", textHeader(matcher.StringPrefix, "bearer ", true)),
		headerRoute("/regex", "match", textHeader(matcher.StringRegex, "v[0-9]+(-rc)?", false)),
		headerRoute("/exact", "match", textHeader(matcher.StringExact, "v7", false)),
		headerRoute("/range", "match", matcher.HeaderMatch{Name: "x", Kind: matcher.HeaderRange, Range: matcher.Range{Start: -5, End: 100}}),
		prefixRoute("/", "rest"),
	))
	if len(notes) != 0 {
		t.Fatalf("notes %v", notes)
	}
	for _, tt := range []struct{ path, value, want string }{
		{"/suffix", "a.png", "match"},
		{"/suffix", long + ".png", "match"},
		{"/suffix", "a.pngx", "rest"},
		{"/contains", "a roBOT walks", "match"},
		{"/contains", "a rob", "rest"},
		{"/prefix", "BEARER abc", "match"},
		{"/prefix", "Bearerabc", "rest"},
		{"/regex", "v7", "match"}, // a value with a record
		{"/regex", "v12-rc", "match"},
		{"/regex", "v12-rcs", "rest"},
		{"/exact", "v7", "match"},
		{"/exact", "v71", "rest"},
		{"/range", "+0099", "match"},
		{"/range", "-5", "match"},
		{"/range", "-6", "rest"},
		{"/range", "100", "rest"},
	} {
		if got := clusterFor(&table, get("h", tt.path, "x", tt.value)); got != tt.want {
			t.Errorf("%s x=%.20s: got %s, want %s", tt.path, tt.value, got, tt.want)
		}
	}
	if got := clusterFor(&table, get("h", "/suffix")); got != "rest" {
		t.Errorf("no header: got %s, want rest", got)
	}
}

func TestRangesAsExpressionsHoldTheSameNumbers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	near := func(n int64) int64 { return n + int64(r.IntN(5)) - 2 }
	pick := func() int64 {
		return []int64{near(0), near(10), near(-10), near(99), near(100), near(-1000), r.Int64(), -r.Int64(), math.MaxInt64 - 3, math.MinInt64 + 3, near(math.MaxInt64 / 10)}[r.IntN(11)]
	}
	for range 300 {
		rg := matcher.Range{Start: pick(), End: pick()}
		if rg.Start > rg.End {
			rg.Start, rg.End = rg.End, rg.Start
		}
		sets, refused := dfa.Partition([]string{rangeExpression(rg)}, dfa.Default())
		if len(refused) > 0 {
			t.Fatalf("%+v: %v", rg, refused[0])
		}
		for range 60 {
			n := []int64{pick(), rg.Start, rg.End, rg.End - 1, near(rg.Start), near(rg.End)}[r.IntN(6)]
			text := strconv.FormatInt(n, 10)
			switch r.IntN(5) {
			case 0:
				text = "+" + text
			case 1:
				text = strings.Repeat("0", r.IntN(4)) + text
			case 2:
				text += []string{"0", "a", ".0", "-", "00000000000000000000"}[r.IntN(5)]
			case 3:
				text = []string{"", "-0", "+0", "-", "+", "0", "00", "9223372036854775808", "-9223372036854775808", "-9223372036854775809"}[r.IntN(10)]
			}
			matched := len(sets) > 0 && len(sets[0].Match([]byte(text))) > 0
			if want := rg.Contains(text); matched != want {
				t.Fatalf("%+v, %q: matched %t, want %t\n%s", rg, text, matched, want, rangeExpression(rg))
			}
		}
	}
}

// What automata cannot hold is handed over where the header is there, and does no harm elsewhere.
func TestExpressionsBeyondLimitsAreHandedOver(t *testing.T) {
	routes := []*model.Route{
		headerRoute("/hostile", "hostile", textHeader(matcher.StringRegex, "(.*a.{20}b.{20})*", false)),
		headerRoute("/kind", "kind", textHeader(matcher.StringRegex, "a+", false)),
	}
	for i := range 2 * int(maps.MaxPredicates) {
		routes = append(routes, headerRoute(fmt.Sprintf("/%d/", i), "many", textHeader(matcher.StringContains, fmt.Sprintf("word%d", i), false)))
	}
	table, notes := compileTable("table", oneHost(append(routes, prefixRoute("/", "rest"))...))
	if len(notes) == 0 || !strings.Contains(fmt.Sprint(notes), `header "x": an expression that needs more than`) {
		t.Errorf("notes %v", notes)
	}
	for _, tt := range []struct{ path, value, want string }{
		{"/hostile", "a", "route_slow"},
		{"/kind", "aaa", "kind"},
		{"/kind", "b", "rest"},
		{fmt.Sprintf("/%d/", 2*int(maps.MaxPredicates)-1), "word", "route_slow"},
	} {
		if got := clusterFor(&table, get("h", tt.path, "x", tt.value)); got != tt.want {
			t.Errorf("%s x=%s: got %s, want %s", tt.path, tt.value, got, tt.want)
		}
	}
	if got := clusterFor(&table, get("h", "/hostile")); got != "rest" {
		t.Errorf("no header: got %s, want rest", got)
	}
}
