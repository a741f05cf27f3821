// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// TestKernelDrawsOneNumberForAllFractions holds the shares that Envoy gives: see test/routes.
func TestKernelDrawsOneNumberForAllFractions(t *testing.T) {
	route := func(cluster string, percent uint32) *model.Route {
		return &model.Route{
			Path: matcher.PathMatch{Value: "/"}, Fraction: matcher.Fraction{Numerator: percent, Denominator: 100},
			Clusters: []model.WeightedCluster{{Name: cluster, Weight: 1}},
		}
	}
	k := newKernel(t)
	listener := k.load(&model.RouteTable{VirtualHosts: []*model.VirtualHost{{
		Name: "vh", Domains: []string{"*"}, Routes: []*model.Route{route("a", 30), route("b", 50), route("c", 100)},
	}}})
	const rounds = 4000
	names, taken := k.clusters(), map[string]int{}
	for range rounds {
		v, cluster := k.route(listener, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if v != maps.VerdictOk {
			t.Fatal(maps.VerdictName(v))
		}
		taken[names[cluster]]++
	}
	for name, percent := range map[string]int{"a": 30, "b": 20, "c": 50} {
		// Six standard deviations of the widest share.
		const slack = 190
		if n := taken[name]; n < rounds*percent/100-slack || n > rounds*percent/100+slack {
			t.Errorf("%s: %d of %d, want %d of 100", name, n, rounds, percent)
		}
	}
}

// BenchmarkKernelPaths measures one decision in the kernel, the reading of the head included, by the number of routes. Prefixes need no
// automaton: what they take is the price of all the rest.
func BenchmarkKernelPaths(b *testing.B) {
	k := newKernel(b)
	for _, kind := range []struct {
		name  string
		match func(i int) matcher.PathMatch
	}{
		{"prefix", func(i int) matcher.PathMatch { return matcher.PathMatch{Value: fmt.Sprintf("/api/v1/service%d/", i)} }},
		{"regex", func(i int) matcher.PathMatch { return expression(b, fmt.Sprintf("/api/v[0-9]+/service%d/[^/]+", i)) }},
		{"ignore_case", func(i int) matcher.PathMatch {
			return matcher.PathMatch{Value: fmt.Sprintf("/Api/v1/Service%d/", i), IgnoreCase: true}
		}},
	} {
		for _, n := range []int{1, 10, 100, 1000, 10000} {
			vh := &model.VirtualHost{Name: "vh", Domains: []string{"*"}}
			for i := range n {
				vh.Routes = append(vh.Routes, &model.Route{Path: kind.match(i), Clusters: []model.WeightedCluster{{Name: "c", Weight: 1}}})
			}
			start := time.Now()
			listener := k.load(&model.RouteTable{VirtualHosts: []*model.VirtualHost{vh}})
			loading := time.Since(start)
			head := fmt.Sprintf("GET /api/v1/service%d/users HTTP/1.1\r\nHost: example.com\r\nUser-Agent: benchmark\r\nAccept: */*\r\n\r\n", n-1)
			if v, _ := k.route(listener, head); v != maps.VerdictOk {
				b.Fatalf("%s %d: %s", kind.name, n, maps.VerdictName(v))
			}
			b.Run(fmt.Sprintf("%s/%d", kind.name, n), func(b *testing.B) {
				took, err := k.datapath.TimeExplain(listener, []byte(head), b.N)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(took.Nanoseconds()), "ns/op")
				b.ReportMetric(float64(loading.Milliseconds()), "ms-to-load")
			})
		}
	}
}

func expression(tb testing.TB, source string) matcher.PathMatch {
	tb.Helper()
	re, err := matcher.NewRegex(source)
	if err != nil {
		tb.Fatal(err)
	}
	return matcher.PathMatch{Kind: matcher.PathRegex, Value: source, Regex: re}
}
