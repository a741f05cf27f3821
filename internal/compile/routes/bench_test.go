// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// routed is a kind of table, and the request for its last route.
type routed struct {
	name   string
	routes func(n int) []*model.Route
	head   func(n int) string
}

func routeTo(prefix string, headers ...matcher.HeaderMatch) *model.Route {
	return &model.Route{
		Path: matcher.PathMatch{Value: prefix}, Headers: headers, Clusters: []model.WeightedCluster{{Name: "c", Weight: 1}},
	}
}

func value(name string, i int) matcher.HeaderMatch {
	return matcher.HeaderMatch{Name: name, Kind: matcher.HeaderString, String: matcher.Exact(fmt.Sprintf("value-%05d", i))}
}

const userAgent = "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\r\nAccept: text/html,application/xhtml+xml\r\n"

// head is a usual request with two more headers.
func head(path string, x, y int) string {
	return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: shop.example.com\r\n%sX-Tenant: value-%05d\r\nX-Region: value-%05d\r\n\r\n", path, userAgent, x, y)
}

// query is a usual query.
func query(i int) string { return fmt.Sprintf("?page=2&tenant=value-%05d&sort=name", i) }

var routedKinds = []routed{
	{
		"paths", // asks about no header: what the scan and the path cost
		func(n int) []*model.Route {
			return repeat(n, func(i int) *model.Route { return routeTo(fmt.Sprintf("/%05d/", i)) })
		},
		func(n int) string { return head(fmt.Sprintf("/%05d/", n-1), n-1, n-1) },
	},
	{
		"value",
		func(n int) []*model.Route {
			return repeat(n, func(i int) *model.Route { return routeTo("/", value("x-tenant", i)) })
		},
		func(n int) string { return head("/00000/", n-1, n-1) },
	},
	{
		"values-of-two",
		func(n int) []*model.Route {
			return repeat(n, func(i int) *model.Route { return routeTo("/", value("x-tenant", i/100), value("x-region", i%100)) })
		},
		func(n int) string { return head("/00000/", (n-1)/100, (n-1)%100) },
	},
	{
		"either-value-or-both",
		func(n int) []*model.Route {
			return repeat(n, func(i int) *model.Route {
				x, y := value("x-tenant", i), value("x-region", i)
				return routeTo("/", [][]matcher.HeaderMatch{{x, y}, {x}, {y}}[i%3]...)
			})
		},
		func(n int) string { return head("/00000/", n-1, n-1) },
	},
	{
		"expressions", // 60 at most: each needs a bit
		func(n int) []*model.Route {
			return repeat(min(n, 60), func(i int) *model.Route {
				h := value("x-tenant", i)
				h.String = matcher.StringMatch{Kind: matcher.StringSuffix, Value: fmt.Sprintf("-%05d", i)}
				return routeTo("/", h)
			})
		},
		func(n int) string { return head("/00000/", min(n, 60)-1, 0) },
	},
	{
		"paths-before-a-query", // asks about none of its parameters
		func(n int) []*model.Route {
			return repeat(n, func(i int) *model.Route { return routeTo(fmt.Sprintf("/%05d/", i)) })
		},
		func(n int) string { return head(fmt.Sprintf("/%05d/", n-1)+query(n-1), n-1, n-1) },
	},
	{
		"parameter",
		func(n int) []*model.Route {
			return repeat(n, func(i int) *model.Route {
				r, tenant := routeTo("/"), matcher.Exact(fmt.Sprintf("value-%05d", i))
				r.Query = []matcher.QueryMatch{{Name: "tenant", String: &tenant}}
				return r
			})
		},
		func(n int) string { return head("/00000/"+query(n-1), n-1, n-1) },
	},
	{
		"paths-by-values",
		func(n int) []*model.Route {
			return repeat(n, func(i int) *model.Route { return routeTo(fmt.Sprintf("/%05d/", i/100), value("x-tenant", i%100)) })
		},
		func(n int) string { return head(fmt.Sprintf("/%05d/", (n-1)/100), (n-1)%100, 0) },
	},
}

func repeat(n int, of func(i int) *model.Route) []*model.Route {
	routes := []*model.Route{}
	for i := range n {
		routes = append(routes, of(i))
	}
	return routes
}

// BenchmarkKernelRoutes measures one decision of the kernel, the scan of the head included, and what the table takes.
func BenchmarkKernelRoutes(b *testing.B) {
	k := newKernel(b)
	for _, kind := range routedKinds {
		for _, n := range []int{1, 10, 100, 1000, 10000} {
			b.Run(fmt.Sprintf("%s/%d", kind.name, n), func(b *testing.B) {
				rt := &model.RouteTable{VirtualHosts: []*model.VirtualHost{{Name: "vh", Domains: []string{"*"}, Routes: kind.routes(n)}}}
				began := time.Now()
				compile.Compile(&model.Config{Listeners: []*model.Listener{{Name: "l", Address: address, Routes: rt}}})
				compiling := time.Since(began)
				listener := k.load(rt)
				if verdict, _ := k.route(listener, kind.head(n)); verdict != maps.VerdictOk {
					b.Fatalf("verdict %s", maps.VerdictName(verdict))
				}
				took, err := k.datapath.TimeExplain(listener, []byte(kind.head(n)), max(b.N, 20))
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(took.Nanoseconds()), "ns/decision")
				b.ReportMetric(float64(compiling.Microseconds())/1000, "ms/compile")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
