// SPDX-License-Identifier: Apache-2.0

package reconcile_test

import (
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/datapath/datapathtest"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/reconcile"
)

// benchRoutes is how many routes a table has that is reloaded.
const benchRoutes = 10000

// kindOfTable makes route i of a table.
type kindOfTable struct {
	name string
	// hosts is how many virtual hosts share the routes.
	hosts int
	route func(i int) *model.Route
}

func to(cluster string) []model.WeightedCluster {
	return []model.WeightedCluster{{Name: cluster, Weight: 1}}
}

func routeOf(m matcher.PathMatch, headers ...matcher.HeaderMatch) *model.Route {
	return &model.Route{Path: m, Headers: headers, Timeout: 15 * time.Second, Clusters: to("old")}
}

func prefixed(i int) *model.Route {
	return routeOf(matcher.PathMatch{Value: fmt.Sprintf("/api/v1/service%05d/", i)})
}

var kindsOfTables = []kindOfTable{
	{"exact", 1, func(i int) *model.Route {
		return routeOf(matcher.PathMatch{Kind: matcher.PathExact, Value: fmt.Sprintf("/api/v1/service%05d/users", i)})
	}},
	{"prefix", 1, prefixed},
	{"header", 1, func(i int) *model.Route {
		return routeOf(matcher.PathMatch{Value: "/"},
			matcher.HeaderMatch{Name: "x-tenant", Kind: matcher.HeaderString, String: matcher.Exact(fmt.Sprintf("tenant-%05d", i))})
	}},
	{"expression", 1, func(i int) *model.Route {
		source := fmt.Sprintf("/api/v[0-9]+/service%05d/[^/]+", i)
		re, err := matcher.NewRegex(source)
		if err != nil {
			panic(err)
		}
		return routeOf(matcher.PathMatch{Kind: matcher.PathRegex, Value: source, Regex: re})
	}},
	{"hosts", benchRoutes / 10, prefixed},
}

func (k kindOfTable) table() *model.RouteTable {
	t := &model.RouteTable{}
	n := benchRoutes / k.hosts
	for h := range k.hosts {
		vh := &model.VirtualHost{Name: fmt.Sprintf("host%d", h), Domains: []string{fmt.Sprintf("host%d.example.com", h)}}
		for i := range n {
			vh.Routes = append(vh.Routes, k.route(h*n+i))
		}
		t.VirtualHosts = append(t.VirtualHosts, vh)
	}
	return t
}

// changesOfOne are small changes of the virtual host in the middle.
var changesOfOne = []struct {
	name   string
	change func(k kindOfTable, vh *model.VirtualHost)
}{
	{"cluster", func(_ kindOfTable, vh *model.VirtualHost) { edited(vh).Clusters = to("new") }},
	{"timeout", func(_ kindOfTable, vh *model.VirtualHost) { edited(vh).Timeout = time.Minute }},
	{"match", func(k kindOfTable, vh *model.VirtualHost) { *edited(vh) = *k.route(benchRoutes) }},
	{"insert", func(k kindOfTable, vh *model.VirtualHost) {
		vh.Routes = slices.Insert(vh.Routes, len(vh.Routes)/2, k.route(benchRoutes))
	}},
	{"remove", func(_ kindOfTable, vh *model.VirtualHost) {
		vh.Routes = slices.Delete(vh.Routes, len(vh.Routes)/2, len(vh.Routes)/2+1)
	}},
}

// edited puts a copy in the place of the route in the middle.
func edited(vh *model.VirtualHost) *model.Route {
	r := *vh.Routes[len(vh.Routes)/2]
	vh.Routes[len(vh.Routes)/2] = &r
	return &r
}

// changedTable shares what stays with the table it is made of.
func changedTable(k kindOfTable, t *model.RouteTable, change func(kindOfTable, *model.VirtualHost)) *model.RouteTable {
	out := *t
	out.VirtualHosts = slices.Clone(t.VirtualHosts)
	middle := *t.VirtualHosts[len(t.VirtualHosts)/2]
	middle.Routes = slices.Clone(middle.Routes)
	change(k, &middle)
	out.VirtualHosts[len(t.VirtualHosts)/2] = &middle
	return &out
}

func configOf(t *model.RouteTable) *model.Config {
	return &model.Config{
		Listeners: []*model.Listener{{Name: "l", Address: netip.MustParseAddrPort("127.80.0.1:80"), Routes: t}},
		Clusters:  []*model.Cluster{{Name: "old"}, {Name: "new"}},
	}
}

// BenchmarkReload measures, in the kernel's maps, the reload of one changed route in a table of 10,000, and its writes.
func BenchmarkReload(b *testing.B) {
	d := datapathtest.Load(b)
	r := reconcile.New(d.Config, d.Shared, slog.New(slog.DiscardHandler))
	for _, k := range kindsOfTables {
		before := k.table()
		b.Run(k.name+"/load", func(b *testing.B) { reload(b, r, &model.Config{}, configOf(before)) })
		for _, c := range changesOfOne {
			b.Run(k.name+"/"+c.name, func(b *testing.B) {
				reload(b, r, configOf(before), configOf(changedTable(k, before, c.change)))
			})
		}
	}
}

// reload measures the way from one configuration to another: on average, and the shortest one, which other work has disturbed least.
func reload(b *testing.B, r *reconcile.Reconciler, from, into *model.Config) {
	b.Helper()
	compiler := compile.NewCompiler()
	var compiling, applying, computing []time.Duration
	var stats reconcile.Stats
	for range b.N {
		image, _ := compiler.Compile(from)
		if _, err := r.Apply(image); err != nil {
			b.Fatal(err)
		}
		began, computed := time.Now(), processorTime(b)
		image, _ = compiler.Compile(into)
		compiled := time.Now()
		var err error
		if stats, err = r.Apply(image); err != nil {
			b.Fatal(err)
		}
		applying = append(applying, time.Since(compiled))
		compiling = append(compiling, compiled.Sub(began))
		computing = append(computing, processorTime(b)-computed)
	}
	report(b, "compile", compiling)
	report(b, "apply", applying)
	report(b, "cpu", computing)
	b.ReportMetric(float64(stats.Total()), "writes")
	for i, counts := 0, reflect.ValueOf(stats); i < counts.NumField(); i++ {
		if n := counts.Field(i).Int(); n > 0 {
			b.ReportMetric(float64(n), counts.Type().Field(i).Name)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// processorTime is what the process has used of its processors, in user space and in the kernel: that is nearly the same however busy they are.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func report(b *testing.B, what string, took []time.Duration) {
	var sum time.Duration
	for _, d := range took {
		sum += d
	}
	b.ReportMetric(sum.Seconds()*1000/float64(len(took)), "ms/"+what)
	b.ReportMetric(slices.Min(took).Seconds()*1000, "best-ms/"+what)
}
