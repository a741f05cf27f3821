// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/compile"
	compiled "github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/merge"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/reconcile/routes"
)

// viewNumber returns the view with that number; 0 is the shared one.
func viewNumber(i int) model.View {
	if i == 0 {
		return model.View{}
	}
	return model.View{Number: uint32(i), Name: fmt.Sprintf("v%d", i)}
}

// seenBy is a configuration as a view's. Names and addresses of listeners stay; the endpoints are the view's own, but for some that all views have.
func seenBy(v model.View, cfg *model.Config) *model.Config {
	out := &model.Config{}
	for _, l := range cfg.Listeners {
		of := *l
		of.View = v
		out.Listeners = append(out.Listeners, &of)
	}
	for _, c := range cfg.Clusters {
		of := *c
		of.View, of.Endpoints = v, slices.Clone(c.Endpoints)
		for i := range of.Endpoints {
			if e := &of.Endpoints[i]; e.Address.Port()%4 != 0 {
				e.Address = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 80, byte(v.Number), 1}), e.Address.Port())
			}
		}
		out.Clusters = append(out.Clusters, &of)
	}
	return out
}

// likeAnother is a configuration as another view's, which says the same.
func likeAnother(v model.View, cfg *model.Config) *model.Config {
	out := &model.Config{}
	for _, l := range cfg.Listeners {
		of := *l
		of.View = v
		out.Listeners = append(out.Listeners, &of)
	}
	for _, c := range cfg.Clusters {
		of := *c
		of.View, of.Endpoints = v, slices.Clone(c.Endpoints)
		out.Clusters = append(out.Clusters, &of)
	}
	return out
}

// distinct counts the clusters of all views, equal ones once.
func distinct(parts []*model.Config) int {
	seen := map[string]bool{}
	for _, p := range parts {
		for _, c := range p.Clusters {
			of := *c
			of.View = model.View{}
			text, err := json.Marshal(&of)
			if err != nil {
				panic(err)
			}
			seen[string(text)] = true
		}
	}
	return len(seen)
}

// differsFrom, where one of these merged configurations is in force, says how what a view's workloads find in the maps differs from what its configuration says, as if it were alone; "" is in no way.
func (g *rig) differsFrom(merged []*model.Config, v model.View, cfg *model.Config, requests []*matcher.Request) string {
	for port := 80; port < 83; port++ {
		key := maps.KeyOf(address(port))
		key.View = v.Number
		number, found, err := g.kernel.cfg.VIPs.Lookup(key)
		l := listenerOn(cfg, address(port))
		if err != nil || found != (l != nil) {
			return fmt.Sprintf("port %d: found %t, %v", port, found, err)
		}
		if l == nil {
			continue
		}
		for n, r := range requests {
			if why := g.agreesIn(merged, v, cfg, l, r, g.kernel.route(number, r, uint32(n)), uint32(n)); why != "" {
				return fmt.Sprintf("port %d, %q %q: %s", port, r.Authority, r.Path, why)
			}
		}
	}
	return ""
}

// agreesIn compares a decision, and the endpoints that it leads to, with the routes and clusters of a view.
func (g *rig) agreesIn(merged []*model.Config, v model.View, cfg *model.Config, l *model.Listener, r *matcher.Request, got routing, draw uint32) string {
	want := l.Routes.Match(r)
	if want == nil {
		return g.agreeWith(nil, got, draw)
	}
	share := want.Share(uint64(draw))
	if got.verdict != maps.VerdictOk {
		return fmt.Sprintf("%s, want %s", maps.VerdictName(got.verdict), share.Name)
	}
	key := merged[0].In(v).Key(share.Name)
	isMeant := func(c model.ClusterKey) bool {
		return slices.ContainsFunc(merged, func(m *model.Config) bool { return m.In(v).Key(share.Name) == c })
	}
	at := map[uint32]netip.AddrPort{}
	for _, e := range g.r.clusters.Endpoints() {
		if isMeant(e.Cluster) {
			at[e.Index] = e.Address
		}
	}
	var found []string
	for _, e := range g.kernel.schedule(got.cluster) {
		found = append(found, at[e].String())
	}
	if wanted := scheduleOf(alone(cfg), share.Name, share.Criteria); !slices.Equal(found, wanted) {
		return fmt.Sprintf("leads to %q, want %q of %s %s", found, wanted, key, share.Criteria)
	}
	return ""
}

// alone is the configuration of a view as that of a daemon without views.
func alone(cfg *model.Config) *model.Config {
	out := &model.Config{}
	for _, l := range cfg.Listeners {
		of := *l
		of.View = model.View{}
		out.Listeners = append(out.Listeners, &of)
	}
	for _, c := range cfg.Clusters {
		of := *c
		of.View = model.View{}
		out.Clusters = append(out.Clusters, &of)
	}
	return out
}

// scheduleOf is that of a cluster in a configuration, or of its subset with these criteria.
func scheduleOf(cfg *model.Config, name string, criteria model.Metadata) (list []string) {
	image, _ := compile.Compile(cfg)
	for _, c := range image.Clusters {
		if c.Key.Name != name {
			continue
		}
		part := 0
		for _, s := range c.Subsets {
			if s.Criteria == criteria {
				part = s.Part
			}
		}
		root := c.RootOf(part, compiled.Learned{})
		for _, e := range endpointsBelow(&root) {
			list = append(list, c.Endpoints[e].Address.String())
		}
	}
	return list
}

// Views whose names and addresses are the same, some of which are the same altogether, and of which one after another changes, each find in the maps what their own configuration says, also where
// a change fails half way: then the one that changes has its old configuration or its new one, listener by listener, and no other has changed.
func TestEachViewIsServedAsIfItWereAlone(t *testing.T) {
	const views = 4
	w := randomWorld(t)
	failures, shared, sharedTables := 0, 0, 0
	for range 12 {
		g, compiler := newRigOf(t, sizesForMany()), compile.NewCompiler()
		// No view waits for another: each says what it has.
		merger := merge.New(merge.Times{})
		var parts []*model.Config
		for i := range views {
			parts = append(parts, seenBy(viewNumber(i), w.config()))
			if i > 0 && w.IntN(2) == 0 {
				parts[i] = likeAnother(viewNumber(i), parts[i-1])
			}
		}
		now := merger.Merge(parts, time.Unix(1, 0))
		merger.Accept(now)
		for step := range 40 {
			changed := w.IntN(views)
			next := slices.Clone(parts)
			next[changed] = w.stepOf(viewNumber(changed), parts[changed])
			if w.IntN(3) == 0 {
				next[changed] = likeAnother(viewNumber(changed), parts[w.IntN(views)])
			}
			// Another one may change at the same moment, alike or not.
			also := changed
			if w.IntN(3) == 0 {
				also = w.IntN(views)
				next[also] = likeAnother(viewNumber(also), next[changed])
				if also != changed && w.IntN(2) == 0 {
					next[also] = w.stepOf(viewNumber(also), parts[also])
				}
			}
			before := now
			now = merger.Merge(next, time.Unix(1, 0))
			last := before
			for !now.Next.IsZero() {
				// Those that agree take a cluster with them once the others have left it.
				image, _ := compiler.Compile(now.Config)
				if err := g.r.Switch(image); err != nil {
					t.Fatal(err)
				}
				merger.Accept(now)
				last, now = now, merger.Merge(next, time.Unix(1, 0))
			}
			for i := range views {
				for _, c := range parts[i].Clusters {
					if v := viewNumber(i); also == changed && i != changed && now.Config.In(v).Key(c.Name) != before.Config.In(v).Key(c.Name) {
						t.Fatalf("step %d: a change of view %d makes another cluster of %q of view %d", step, changed, c.Name, i)
					}
				}
			}
			image, _ := compiler.Compile(now.Config)
			if left := w.IntN(60); step > 0 && w.IntN(3) == 0 {
				g.fail = func() bool { left--; return left < 0 }
			}
			err := g.r.Switch(image)
			if err == nil {
				err = g.r.Reclaim()
			}
			g.fail = nil
			requests := w.requests(6)
			for i := range views {
				if (i == changed || i == also) && err != nil {
					continue
				}
				// Behind a failure it may not have come yet to a cluster that it is to share with others.
				meant := []*model.Config{now.Config}
				if err != nil {
					meant = append(meant, last.Config)
				}
				if why := g.differsFrom(meant, viewNumber(i), next[i], requests); why != "" {
					t.Fatalf("step %d, view %d has changed (err %v): view %d is not served by its own configuration: %s", step, changed, err, i, why)
				}
			}
			if err != nil {
				failures++
				if w.IntN(2) == 0 {
					// The one before is put in force again, or else what comes next.
					next = parts
					now = merger.Merge(next, time.Unix(1, 0))
					image, _ = compiler.Compile(now.Config)
				}
				if err := g.r.Switch(image); err != nil {
					t.Fatal(err)
				}
			}
			parts = next
			merger.Accept(now)
			if got, want := len(now.Config.Clusters), distinct(parts); got != want {
				t.Fatalf("step %d: %d clusters, want one for each of %d that differ", step, got, want)
			}
			for _, c := range now.Config.Clusters {
				if len(c.SeenIn()) > 1 {
					shared++
				}
			}
			w.release(g)
			if err := g.r.Reclaim(); err != nil {
				t.Fatal(err)
			}
			if got, want := g.versions(), distinctTables(image); got != want {
				t.Fatalf("step %d: %d versions of tables, want one for each of %d that differ", step, got, want)
			}
			if g.versions() < len(now.Config.Listeners) {
				sharedTables++
			}
			for i := range views {
				if why := g.differsFrom([]*model.Config{now.Config}, viewNumber(i), parts[i], requests); why != "" {
					t.Fatalf("step %d, behind a change of view %d: view %d is not served by its own configuration: %s", step, changed, i, why)
				}
			}
		}
		g.requireNothingLeft(now.Config)
	}
	if failures < 10 || shared < 500 || sharedTables < 50 {
		t.Errorf("%d changes have failed, %d clusters were shared, and some tables %d times, want more", failures, shared, sharedTables)
	}
}

// sizesForMany are those of maps for many listeners and clusters.
func sizesForMany() maps.Sizes {
	sizes := testSizes
	sizes.Endpoints, sizes.Clusters, sizes.Groups, sizes.RouteTables, sizes.VHosts, sizes.Listeners = 1024, 256, 1024, 256, 1024, 256
	return sizes
}

// versions counts those that listeners point to.
func (g *rig) versions() int {
	seen := map[*routes.Version]bool{}
	for _, l := range g.r.listeners {
		if l.live != nil {
			seen[l.live] = true
		}
	}
	return len(seen)
}

// distinctTables counts the tables of an image, equal ones once.
func distinctTables(im *compile.Image) int {
	var seen []*tables.Table
	for i := range im.Listeners {
		t := im.Listeners[i].Table
		if t != nil && !slices.ContainsFunc(seen, t.Equal) {
			seen = append(seen, t)
		}
	}
	return len(seen)
}

// stepOf changes a view's configuration: a cluster, listeners, or all of it.
func (w world) stepOf(v model.View, cfg *model.Config) *model.Config {
	next := *cfg
	next.Clusters = slices.Clone(cfg.Clusters)
	switch w.IntN(4) {
	case 0:
		return seenBy(v, w.config())
	case 1:
		next.Listeners = nil
		for _, l := range cfg.Listeners {
			of := *l
			of.Routes = w.table(cfg.Clusters)
			next.Listeners = append(next.Listeners, &of)
		}
	default:
		i := w.IntN(len(cfg.Clusters))
		c := w.cluster(cfg.Clusters[i].Name)
		next.Clusters[i] = seenBy(v, &model.Config{Clusters: []*model.Cluster{c}}).Clusters[0]
	}
	return &next
}

// requireNothingLeft demands that the maps take what a fresh start would take.
func (g *rig) requireNothingLeft(cfg *model.Config) {
	g.t.Helper()
	for _, e := range g.r.Endpoints() {
		if e.Gone {
			g.r.ReleaseEndpoint(e.Index)
		}
	}
	if err := g.r.Reclaim(); err != nil {
		g.t.Fatal(err)
	}
	fresh := newRigOf(g.t, g.kernel.cfg.Sizes)
	fresh.mustApply(cfg)
	got, want := g.inUse(), fresh.inUse()
	for what := range want {
		if got[what] != want[what] {
			g.t.Errorf("%s: %d, want %d", what, got[what], want[what])
		}
	}
}

// together is what is put in force of the parts of all views.
func together(parts []*model.Config) *model.Config {
	return merge.New(merge.Times{}).Merge(parts, time.Unix(1, 0)).Config
}

// Listeners that there are no numbers for are refused before anything is switched, also of another view; those that are there need none.
func TestListenersWithoutNumbersChangeNothing(t *testing.T) {
	sizes := testSizes
	sizes.Listeners = 4 // room for three
	g := newRigOf(t, sizes)
	first, second := single(endpointOn(8000, 1)), seenBy(viewNumber(1), single(endpointOn(8001, 1)))
	g.mustApply(together([]*model.Config{first, second}))
	before := g.contents()
	changed := seenBy(viewNumber(1), single(endpointOn(8002, 1), endpointOn(8003, 1)))
	changed.Listeners[0].Routes.VirtualHosts[0].Domains = []string{"other.example"}
	parts := []*model.Config{first, changed, seenBy(viewNumber(2), single(endpointOn(8004, 1))), seenBy(viewNumber(3), single(endpointOn(8005, 1)))}
	im, _ := compile.Compile(together(parts))
	_, err := g.r.Apply(im)
	if want := "map listeners is full: there are 2 new addresses, and room for 1"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if diff := cmp.Diff(before, g.contents()); diff != "" {
		t.Errorf("a configuration that was refused has changed the maps (-before +now):\n%s", diff)
	}
	g.mustApply(together(parts[:3]))
}
