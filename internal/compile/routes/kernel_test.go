// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/compile/routes"
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/datapath"
	"github.com/xlb-project/xlb/internal/datapath/datapathtest"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/reconcile"
)

// kernel is the fast path, loaded and attached to nothing, with one listener.
type kernel struct {
	t          testing.TB
	datapath   *datapath.Datapath
	reconciler *reconcile.Reconciler
	image      *compile.Image
}

var address = netip.MustParseAddrPort("127.80.0.1:80")

func newKernel(t testing.TB) *kernel {
	d := datapathtest.Load(t)
	return &kernel{t: t, datapath: d, reconciler: reconcile.New(d.Config, d.Shared, slog.New(slog.DiscardHandler))}
}

// load makes a table the listener's, and returns the listener's number.
func (k *kernel) load(rt *model.RouteTable) uint32 {
	k.t.Helper()
	cfg := &model.Config{Listeners: []*model.Listener{{Name: "l", Address: address, Routes: rt}}}
	known := map[string]bool{}
	for _, vh := range rt.VirtualHosts {
		for _, r := range vh.Routes {
			for _, c := range r.Clusters {
				if !known[c.Name] {
					known[c.Name] = true
					cfg.Clusters = append(cfg.Clusters, &model.Cluster{Name: c.Name})
				}
			}
		}
	}
	k.image, _ = compile.Compile(cfg)
	if _, err := k.reconciler.Apply(k.image); err != nil {
		k.t.Fatal(err)
	}
	number, _, err := k.datapath.Config.VIPs.Lookup(maps.KeyOf(address))
	if err != nil {
		k.t.Fatal(err)
	}
	return number
}

// route asks the kernel about a request head, with a draw of its own.
func (k *kernel) route(listener uint32, head string) (verdict maps.Verdict, cluster uint32) {
	k.t.Helper()
	e, err := k.datapath.ExplainDrawn(listener, []byte(head))
	if err != nil {
		k.t.Fatal(err)
	}
	return maps.Verdict(e.Verdict), e.Cluster
}

// rewrite is what a route's number stands for in the map.
func (k *kernel) rewrite(number uint32) tables.Rewrite {
	k.t.Helper()
	r, _, err := k.datapath.Config.Rewrites.Lookup(number)
	if err != nil {
		k.t.Fatal(err)
	}
	return tables.Rewrite{Text: string(r.Text[:r.Len]), Cut: r.Cut}
}

// clusters maps the indices of clusters to their names.
func (k *kernel) clusters() map[uint32]string {
	names := map[uint32]string{}
	for _, c := range k.reconciler.Clusters() {
		names[c.Index] = c.Key.Name
	}
	return names
}

// headOf writes a request down, with those of the headers that a request may have whatever their value.
func headOf(r *matcher.Request, names ...string) string {
	var w strings.Builder
	fmt.Fprintf(&w, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.Method, r.Path, r.Authority)
	for _, name := range names {
		for _, v := range r.Values(name) {
			fmt.Fprintf(&w, "%s: %s\r\n", name, v)
		}
	}
	return w.String() + "\r\n"
}

// withFields changes a random request so that headOf says all of it.
func withFields(r *matcher.Request) *matcher.Request {
	values := r.Values
	r.Values = func(name string) []string {
		switch name {
		case "host":
			return []string{r.Authority}
		case "content-length":
			return nil
		}
		return values(name)
	}
	return r
}

func TestKernelRoutesAsTheCompiledTable(t *testing.T) {
	const tables, requests = 200, 30
	seed := routes.Seed()
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d: repeat with -seed=%d", seed, seed)
	k, w := newKernel(t), routes.NewWorld(seed)
	found := map[maps.Verdict]int{}
	inHash, inTrie := 0, 0
	for range tables {
		listener := k.load(w.Table())
		inHash += entries(t, k.datapath.Config.PathTexts)
		inTrie += entries(t, k.datapath.Config.Paths)
		names := k.clusters()
		for range requests {
			r := withFields(w.Request())
			head := headOf(r, "x", "y", "z", "v", "content-type", "cookie", "origin", "x-forwarded-proto")
			e, err := k.datapath.Explain(listener, r.Draw, []byte(head))
			if err != nil {
				t.Fatal(err)
			}
			got, cluster := maps.Verdict(e.Verdict), e.Cluster
			if why := disagree(k.image.Listeners[0].Table, r, got, names[cluster]); why != "" {
				t.Fatalf("%q: %s\n%s", head, why, k.image)
			}
			if won, _ := k.image.Listeners[0].Table.Route(r); got == maps.VerdictOk && k.rewrite(e.Rewrite) != won.Rewrite {
				t.Fatalf("%q: the kernel has the rewrite %v, want %v", head, k.rewrite(e.Rewrite), won.Rewrite)
			}
			found[got]++
		}
	}
	if t.Logf("%d paths in the hash, %d in the trie", inHash, inTrie); inHash < 500 || inTrie < 500 {
		t.Errorf("%d paths in the hash, %d in the trie, want at least 500 in each", inHash, inTrie)
	}
	for _, v := range []maps.Verdict{maps.VerdictOk, maps.HandoverNoRoute, maps.HandoverNoVHost, maps.HandoverRouteSlow, maps.HandoverRepeatedField,
		maps.HandoverTooManyParameters, maps.HandoverNormalize} {
		t.Logf("%s: %d", maps.VerdictName(v), found[v])
		if found[v] < 20 {
			t.Errorf("%s occurred %d times, want at least 20", maps.VerdictName(v), found[v])
		}
	}
}

func entries[K comparable, V any](t *testing.T, table bpfmap.Table[K, V]) (n int) {
	t.Helper()
	if err := table.Each(func(K, V) bool { n++; return true }); err != nil {
		t.Fatal(err)
	}
	return n
}

// disagree says how the kernel's decision differs from the compiled table's. Slow tables are not for the kernel's
// routing.
func disagree(t *tables.Table, r *matcher.Request, got maps.Verdict, cluster string) string {
	want, verdict := t.Route(r)
	switch {
	case verdict == maps.HandoverTableSlow:
		return ""
	case got != verdict:
		return fmt.Sprintf("the kernel says %s, the table %s", maps.VerdictName(got), maps.VerdictName(verdict))
	case got != maps.VerdictOk:
		return ""
	}
	if name, _ := t.ClusterOf(want, r.Draw); name.Name != cluster {
		return fmt.Sprintf("the kernel takes cluster %q, the table %q", cluster, name)
	}
	return ""
}
