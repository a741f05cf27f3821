// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
)

// copyOf copies what changes of a configuration change.
func copyOf(cfg *model.Config) *model.Config {
	out := *cfg
	out.Listeners = nil
	for _, l := range cfg.Listeners {
		listener, table := *l, *l.Routes
		table.VirtualHosts = nil
		for _, vh := range l.Routes.VirtualHosts {
			host := *vh
			host.Domains, host.Routes = slices.Clone(vh.Domains), slices.Clone(vh.Routes)
			table.VirtualHosts = append(table.VirtualHosts, &host)
		}
		listener.Routes = &table
		out.Listeners = append(out.Listeners, &listener)
	}
	return &out
}

// changed returns the configuration with a small change to one virtual host, or two.
func (w world) changed(cfg *model.Config) *model.Config {
	out := copyOf(cfg)
	for range 1 + w.IntN(2) {
		table := out.Listeners[w.IntN(len(out.Listeners))].Routes
		w.changeTable(table, out.Clusters)
	}
	return out
}

func (w world) changeTable(t *model.RouteTable, clusters []*model.Cluster) {
	vh := t.VirtualHosts[w.IntN(len(t.VirtualHosts))]
	n := len(vh.Routes)
	switch change := w.IntN(12); {
	case change == 0 && len(vh.Domains) > 1:
		vh.Domains = vh.Domains[1:]
	case change == 1 && len(t.VirtualHosts) > 1:
		t.VirtualHosts = t.VirtualHosts[1:]
	case change == 2:
		w.addVHost(t, clusters)
	case change == 3:
		vh.Domains = w.unused(t, append(vh.Domains, domains[w.IntN(len(domains))]))
	case change < 6 && n > 0:
		i := w.IntN(n)
		r := *vh.Routes[i]
		r.Timeout = time.Duration(30+w.IntN(30)) * time.Second
		vh.Routes[i] = &r
	case change < 8 && n > 0:
		i := w.IntN(n)
		r := *vh.Routes[i]
		r.Path = w.route(clusters).Path
		vh.Routes[i] = &r
	case change < 9 && n > 0:
		i := w.IntN(n)
		vh.Routes = slices.Delete(vh.Routes, i, i+1)
	case change < 11:
		vh.Routes = slices.Insert(vh.Routes, w.IntN(n+1), w.route(clusters))
	case n > 1:
		vh.Routes[0], vh.Routes[n-1] = vh.Routes[n-1], vh.Routes[0]
	}
}

var domains = []string{"*", "a.b", "*.b", "a.*", "*b", "a*", "x.b", "*a", "b"}

// unused leaves out the domains that another virtual host has.
func (w world) unused(t *model.RouteTable, list []string) []string {
	taken := map[string]bool{}
	for _, vh := range t.VirtualHosts {
		for _, d := range vh.Domains {
			taken[d] = true
		}
	}
	last := list[len(list)-1]
	if taken[last] {
		return list[:len(list)-1]
	}
	return list
}

func (w world) addVHost(t *model.RouteTable, clusters []*model.Cluster) {
	for _, name := range []string{"more", "most"} {
		isIt := func(vh *model.VirtualHost) bool { return vh.Name == name }
		found := w.unused(t, []string{domains[w.IntN(len(domains))]})
		if len(found) > 0 && !slices.ContainsFunc(t.VirtualHosts, isIt) {
			t.VirtualHosts = append(t.VirtualHosts, &model.VirtualHost{
				Name: name, Domains: found, Routes: []*model.Route{w.route(clusters), w.route(clusters)},
			})
			return
		}
	}
}

// begin draws a configuration with a listener.
func (w world) begin() *model.Config {
	cfg := w.config()
	for len(cfg.Listeners) == 0 {
		cfg = w.config()
	}
	for _, l := range cfg.Listeners {
		for _, vh := range l.Routes.VirtualHosts {
			for range w.IntN(6) {
				vh.Routes = append(vh.Routes, w.route(cfg.Clusters))
			}
		}
	}
	return cfg
}

// kind is a kind of configurations, and of changes to them.
type kind struct {
	name   string
	begin  func(world) *model.Config
	change func(world, *model.Config) *model.Config
	// changesForm says that virtual hosts turn from one form to the other.
	changesForm bool
	// inPlace are the writes of changes that are to be seen without a new version.
	inPlace map[string]func(*Stats) bool
}

var kinds = []kind{
	{"routes and hosts", world.begin, world.changed, false, map[string]func(*Stats) bool{
		"paths": func(s *Stats) bool { return s.Paths > 0 },
		"hosts": func(s *Stats) bool { return s.Hosts > 0 },
	}},
	{"paths", world.begin, world.changedPaths, true, map[string]func(*Stats) bool{
		"paths": func(s *Stats) bool { return s.Paths > 0 && s.Hosts == 0 },
		"hosts": func(s *Stats) bool { return s.Hosts > 0 },
	}},
	{"indexes", world.beginIndexed, world.changedIndex, false, map[string]func(*Stats) bool{
		"routes of a bucket":     func(s *Stats) bool { return s.BucketLists > 0 && s.Buckets == 0 },
		"values and buckets":     func(s *Stats) bool { return s.Values > 0 && s.Buckets > 0 },
		"buckets without values": func(s *Stats) bool { return s.Values == 0 && s.Buckets > 0 },
	}},
}

func TestSmallChangesAreMadeInPlace(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { k.changeInPlace(t, randomWorld(t)) })
	}
}

func (k *kind) changeInPlace(t *testing.T, w world) {
	all, seen := 0, map[string]int{}
	for range 60 {
		g, old := newRig(t), k.begin(w)
		g.mustApply(old)
		for range 12 {
			next, requests := k.change(w, old), w.requests(12)
			g.wrote = func(what string) { g.checkState("after "+what, requests, old, next) }
			stats := g.mustApply(next)
			g.wrote = nil
			g.checkClean(next, requests)
			old = next
			all++
			for name, is := range k.inPlace {
				if stats.RouteTables == 0 && is(&stats) {
					seen[name]++
				}
			}
		}
		g.checkEmpties()
	}
	t.Logf("of %d changes in place: %v", all, seen)
	for name := range k.inPlace {
		if seen[name] < all/50 {
			t.Errorf("%s: %d of %d changes were made in place, want one in fifty", name, seen[name], all)
		}
	}
}

// checkEmpties demands that an empty configuration leaves nothing.
func (g *rig) checkEmpties() {
	g.t.Helper()
	g.mustApply(&model.Config{})
	g.releaseAll()
	g.mustApply(&model.Config{})
	for what, n := range g.inUse() {
		if n != 0 && what != "listener numbers" {
			g.t.Errorf("%s: %d in use without a configuration", what, n)
		}
	}
}

func TestFailuresOfSmallChangesLeakNothing(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { k.failIn(t, randomWorld(t)) })
	}
}

func (k *kind) failIn(t *testing.T, w world) {
	failures := 0
	for range 60 {
		g, last := newRig(t), k.begin(w)
		g.mustApply(last)
		possible := []*model.Config{last}
		for range 10 {
			// Sometimes back to what was before the failure.
			next, requests := k.change(w, last), w.requests(8)
			if w.IntN(4) == 0 {
				next = possible[0]
			}
			possible = append(possible, next)
			if g.failsAt(w.IntN(12), next, requests, possible...) {
				failures++
			} else {
				possible = []*model.Config{next}
				g.checkClean(next, requests)
			}
			last = next
		}
		g.mustApply(last)
		g.checkClean(last, w.requests(8))
		g.checkEmpties()
	}
	t.Logf("%d failures", failures)
	if failures < 60 {
		t.Errorf("%d failures, want at least 60", failures)
	}
}

// changedPaths returns the configuration with a few routes of one virtual host more, fewer or others. Sometimes one comes, or all go, with which
// it cannot be looked up by hash.
func (w world) changedPaths(cfg *model.Config) *model.Config {
	out := copyOf(cfg)
	hosts := out.Listeners[w.IntN(len(out.Listeners))].Routes.VirtualHosts
	vh := hosts[w.IntN(len(hosts))]
	isLong := func(r *model.Route) bool { return len(r.Path.Value) > 80 }
	switch {
	case slices.ContainsFunc(vh.Routes, isLong):
		if w.IntN(3) == 0 {
			vh.Routes = slices.DeleteFunc(vh.Routes, isLong)
		}
	case w.IntN(4) == 0:
		r := w.route(out.Clusters)
		r.Path = matcher.PathMatch{Value: "/" + strings.Repeat("a", int(maps.MaxPathText)+w.IntN(2))}
		vh.Routes = append(vh.Routes, r)
	}
	for range w.IntN(5) {
		i := w.IntN(len(vh.Routes) + 1)
		if n := len(vh.Routes); i < n && w.IntN(n+4) > 4 {
			vh.Routes = slices.Delete(vh.Routes, i, i+1)
			continue
		}
		r := w.route(out.Clusters)
		if r.Path.Kind != matcher.PathRegex {
			r.Path.Value = "/" + w.word("a", 0, 6)
		}
		vh.Routes = slices.Insert(vh.Routes, i, r)
	}
	return out
}

// indexedRoute is one that an index finds.
func (w world) indexedRoute(clusters []*model.Cluster) *model.Route {
	r := &model.Route{Path: matcher.PathMatch{Value: "/"}, Timeout: time.Duration(w.IntN(30)) * time.Second}
	for _, name := range []string{"x", "y"} {
		if w.IntN(2) == 0 || name == "x" {
			r.Headers = append(r.Headers, matcher.HeaderMatch{
				Name: name, Kind: matcher.HeaderString,
				String: matcher.StringMatch{Kind: matcher.StringKind(w.IntN(8) / 7), Value: w.word("abc", 1, 3)},
			})
		}
	}
	r.Clusters = []model.WeightedCluster{{Name: clusters[w.IntN(len(clusters))].Name, Weight: 1}}
	return r
}

// beginIndexed draws a configuration with indexes.
func (w world) beginIndexed() *model.Config {
	cfg := w.begin()
	cfg.Listeners = cfg.Listeners[:1]
	for _, l := range cfg.Listeners {
		for _, vh := range l.Routes.VirtualHosts {
			vh.Routes = nil
			for range 20 + w.IntN(10) {
				vh.Routes = append(vh.Routes, w.indexedRoute(cfg.Clusters))
			}
			vh.Routes = append(vh.Routes, &model.Route{
				Path: matcher.PathMatch{Value: "/"}, Clusters: []model.WeightedCluster{{Name: cfg.Clusters[0].Name, Weight: 1}},
			})
		}
	}
	return cfg
}

// changedIndex returns the configuration with a small change to one route of a listener.
func (w world) changedIndex(cfg *model.Config) *model.Config {
	out := copyOf(cfg)
	hosts := out.Listeners[w.IntN(len(out.Listeners))].Routes.VirtualHosts
	vh := hosts[w.IntN(len(hosts))]
	i := w.IntN(len(vh.Routes))
	r := *vh.Routes[i]
	switch w.IntN(5) {
	case 0:
		r.Timeout += time.Second
		vh.Routes[i] = &r
	case 1:
		r.Clusters = w.indexedRoute(out.Clusters).Clusters
		vh.Routes[i] = &r
	case 2:
		r.Headers = w.indexedRoute(out.Clusters).Headers
		vh.Routes[i] = &r
	case 3:
		vh.Routes = slices.Insert(vh.Routes, i, w.indexedRoute(out.Clusters))
	default:
		if len(vh.Routes) > 1 {
			vh.Routes = slices.Delete(vh.Routes, i, i+1)
		}
	}
	return out
}
