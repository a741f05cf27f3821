// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/model"
)

// mixed makes of a configuration's listeners ones of several kinds: with HTTP, without it, for many addresses, and such whose connections are left alone.
func (s *tablesOf) mixed(cfg *model.Config) *model.Config {
	out := &model.Config{Listeners: nil, Clusters: append([]*model.Cluster{{Name: "pass", Discovery: model.OriginalDst}}, cfg.Clusters...)}
	for i, l := range cfg.Listeners {
		of := *l
		switch s.IntN(6) {
		case 0:
			of.TCP, of.Routes = &model.TCPProxy{Clusters: []model.WeightedCluster{{Name: s.clusters[s.IntN(len(s.clusters))].Name, Weight: 1}}}, &model.RouteTable{}
		case 1:
			of.TCP, of.Routes = &model.TCPProxy{Clusters: []model.WeightedCluster{{Name: "pass", Weight: 1}}}, &model.RouteTable{}
			of.Many = netip.PrefixFrom(of.Address.Addr(), 24).Masked()
			of.Address = netip.AddrPortFrom(of.Many.Addr(), uint16(80+i))
		case 2:
			of.Many = netip.PrefixFrom(of.Address.Addr(), 24).Masked()
			of.Address = netip.AddrPortFrom(of.Many.Addr(), uint16(80+i))
		}
		out.Listeners = append(out.Listeners, &of)
	}
	return out
}

// Whatever kinds of listeners share tables, come to be others and go, also half way, nothing is left of tables in the maps.
func TestListenersOfAllKindsLeaveNoTables(t *testing.T) {
	w := randomWorld(t)
	failures, passing := 0, 0
	for range 60 {
		g, compiler := newRigOf(t, sizesForMany()), compile.NewCompiler()
		s := &tablesOf{world: w, clusters: w.config().Clusters, has: make([]int, 8)}
		for range 3 {
			s.tables = append(s.tables, w.table(s.clusters))
		}
		for range 30 {
			image, _ := compiler.Compile(s.mixed(s.change()))
			if left := w.IntN(40); w.IntN(2) == 0 {
				g.fail = func() bool { left--; return left < 0 }
			}
			err := g.r.Switch(image)
			g.fail = nil
			if w.IntN(2) == 0 {
				if rerr := g.r.Reclaim(); rerr != nil {
					t.Fatal(rerr)
				}
			}
			if err != nil {
				failures++
				continue
			}
			if got, want := g.versions(), distinctTables(image); got != want {
				t.Fatalf("%d versions of tables, want one for each of %d that differ", got, want)
			}
			for i := range image.Listeners {
				l := &image.Listeners[i]
				known := g.r.listeners[l.Key()]
				if l.PassesBy {
					passing++
				}
				if l.PassesBy != (known.live == nil) || known.live != nil && !known.live.Holds(l.Table) {
					t.Fatalf("listener %s has another table", l.Name)
				}
				want := uint32(0)
				if known.live != nil {
					want = known.live.Number()
				}
				if got := g.kernel.table(known.number); got != want {
					t.Fatalf("listener %s points to %d, want %d", l.Name, got, want)
				}
			}
		}
		g.mustApply(s.mixed(s.change()))
		g.mustApply(&model.Config{})
		g.requireNothingLeft(&model.Config{})
	}
	if failures < 100 || passing < 100 {
		t.Errorf("%d failures, %d listeners left connections alone; want more", failures, passing)
	}
}
