// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/datapath/datapathtest"
	"github.com/xlb-project/xlb/internal/merge"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// Views that say the same take of the maps what one of them takes, but for an address and a number for each listener.
func TestEqualViewsTakeWhatOneTakes(t *testing.T) {
	w := randomWorld(t)
	for range 5 {
		cfg := w.config()
		inUse := func(views int) map[string]int {
			g := newRigOf(t, sizesForMany())
			var parts []*model.Config
			for i := range views {
				parts = append(parts, likeAnother(viewNumber(i), cfg))
			}
			g.mustApply(merge.New(merge.Times{}).Merge(parts, time.Unix(1, 0)).Config)
			return g.inUse()
		}
		one := inUse(1)
		for _, views := range []int{5, 30} {
			got := inUse(views)
			for _, of := range []string{"addresses", "listener numbers"} {
				if got[of] != views*one[of] {
					t.Errorf("%d views: %s: %d, want %d for each", views, of, got[of], one[of])
				}
				got[of] = one[of]
			}
			for what := range one {
				if got[what] != one[what] {
					t.Errorf("%d views: %s: %d, want %d, as for one", views, what, got[what], one[what])
				}
			}
		}
	}
}

// BenchmarkOneViewOfSixty has one route of one of 60 views of 1,000 routes change, and back: of views that are the same, and of views that are not.
func BenchmarkOneViewOfSixty(b *testing.B) {
	const views, routes = 60, 1000
	for _, kind := range []string{"equal", "apart"} {
		b.Run(kind, func(b *testing.B) {
			part := func(view int, last string) *model.Config {
				v := viewNumber(view)
				vh := &model.VirtualHost{Name: "vh", Domains: []string{"*"}}
				own := ""
				if kind == "apart" {
					own = v.Name
				}
				for i := range routes {
					path := fmt.Sprintf("/%s/service%05d/", own, i)
					if i == routes-1 {
						path += last
					}
					vh.Routes = append(vh.Routes, &model.Route{Path: matcher.PathMatch{Kind: matcher.PathPrefix, Value: path}, Clusters: []model.WeightedCluster{{Name: "c", Weight: 1}}})
				}
				return &model.Config{
					Clusters:  []*model.Cluster{{View: v, Name: "c", Endpoints: []model.Endpoint{endpointOn(9000, 1)}}},
					Listeners: []*model.Listener{{View: v, Name: "l", Address: address(80), Routes: &model.RouteTable{VirtualHosts: []*model.VirtualHost{vh}}}},
				}
			}
			d := datapathtest.Load(b)
			d.Config.SynchronizeRCU = func() error { return nil } // no program runs
			g := New(d.Config, d.Shared, slog.New(slog.DiscardHandler))
			merger, compiler := merge.New(merge.Times{}), compile.NewCompiler()
			parts := make([]*model.Config, views)
			for i := range parts {
				parts[i] = part(i, "")
			}
			variants := [2]*model.Config{parts[7], part(7, "x")}
			put := func() {
				now := merger.Merge(parts, time.Unix(1, 0))
				image, _ := compiler.Compile(now.Config)
				if err := g.Switch(image); err != nil {
					b.Fatal(err)
				}
				if err := g.Reclaim(); err != nil {
					b.Fatal(err)
				}
				merger.Accept(now)
			}
			put()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				parts[7] = variants[i%2]
				put()
			}
		})
	}
}
