// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/model"
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

func TestSmallChangesAreMadeInPlace(t *testing.T) {
	w := randomWorld(t)
	all, paths, hosts := 0, 0, 0
	for range 60 {
		g, old := newRig(t), w.begin()
		g.mustApply(old)
		for range 12 {
			next, requests := w.changed(old), w.requests(12)
			g.wrote = func(what string) { g.checkState("after "+what, requests, old, next) }
			stats := g.mustApply(next)
			g.wrote = nil
			g.checkClean(next, requests)
			old = next
			all++
			if stats.RouteTables == 0 && stats.Paths > 0 && stats.Hosts == 0 {
				paths++
			}
			if stats.RouteTables == 0 && stats.Hosts > 0 {
				hosts++
			}
		}
		g.checkEmpties()
	}
	t.Logf("of %d changes %d were changes of paths in place, %d of hosts", all, paths, hosts)
	if paths < all/4 || hosts < all/50 {
		t.Errorf("of %d changes %d were changes of paths in place, %d of hosts; want a fourth and a fiftieth", all, paths, hosts)
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
	w := randomWorld(t)
	failures := 0
	for range 60 {
		g, last := newRig(t), w.begin()
		g.mustApply(last)
		possible := []*model.Config{last}
		for range 10 {
			// Sometimes back to what was before the failure.
			next, requests := w.changed(last), w.requests(8)
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
