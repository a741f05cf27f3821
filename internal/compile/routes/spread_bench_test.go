// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// BenchmarkKernelSpread measures decisions over requests that go to all routes of a table at random: what one leaves in the processor's
// caches helps the next no more than in service, other than in BenchmarkKernelRoutes. Tables of all sizes take turns.
func BenchmarkKernelSpread(b *testing.B) {
	for _, kind := range []struct {
		name  string
		route func(i int) *model.Route
		path  func(i int) string
	}{
		{
			"exact",
			func(i int) *model.Route {
				r := routeTo(fmt.Sprintf("/service-%05d/items", i))
				r.Path.Kind = matcher.PathExact
				return r
			},
			func(i int) string { return fmt.Sprintf("/service-%05d/items", i) },
		},
		{
			"prefix",
			func(i int) *model.Route { return routeTo(fmt.Sprintf("/service-%05d/", i)) },
			func(i int) string { return fmt.Sprintf("/service-%05d/items", i) },
		},
		{
			"expression",
			func(i int) *model.Route { return expressionRoute(b, fmt.Sprintf("/api/v[0-9]+/service%05d/[^/]+", i)) },
			func(i int) string { return fmt.Sprintf("/api/v1/service%05d/items", i) },
		},
	} {
		b.Run(kind.name, func(b *testing.B) { spread(b, kind.route, kind.path) })
	}
}

func expressionRoute(b *testing.B, source string) *model.Route {
	re, err := matcher.NewRegex(source)
	if err != nil {
		b.Fatal(err)
	}
	r := routeTo(source)
	r.Path.Kind, r.Path.Regex = matcher.PathRegex, re
	return r
}

func spread(b *testing.B, route func(i int) *model.Route, path func(i int) string) {
	b.Helper()
	sizes := []int{1, 100, 10000}
	kernels := make([]*kernel, len(sizes))
	listeners := make([]uint32, len(sizes))
	took := make([][]time.Duration, len(sizes))
	for i, n := range sizes {
		kernels[i] = newKernel(b)
		listeners[i] = kernels[i].load(&model.RouteTable{VirtualHosts: []*model.VirtualHost{{
			Name: "vh", Domains: []string{"*"}, Routes: repeat(n, route),
		}}})
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range b.N {
		for i, n := range sizes {
			once, err := kernels[i].datapath.TimeExplain(listeners[i], []byte(head(path(random.IntN(n)), 0, 0)), 1)
			if err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], once)
		}
	}
	for i, n := range sizes {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Nanoseconds()), fmt.Sprintf("ns/median-of-%d", n))
	}
	b.ReportMetric(0, "ns/op")
}
