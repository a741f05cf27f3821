// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/internal/compile"
	compiled "github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/reconcile/clusters"
	"github.com/xlb-project/xlb/test/mapstest"
)

var testSizes = maps.Sizes{
	Listeners: 64, RouteTables: 64, VHosts: 256, Routes: 4096, Splits: 1024, Rewrites: 1024, RetrySets: 64, Tuples: 256, Schedules: 4096,
	BucketLists: 1024, Automata: 64, Cells: 4096, Accepts: 1024, AcceptedValues: 1024,
	Clusters: 64, Groups: 256, Endpoints: 256,
}

// fewPaths are enough in tests for many lengths in the hash.
const fewPaths = 5

// rig is a reconciler over maps in memory, whose every write can be watched and made to fail.
type rig struct {
	t      *testing.T
	r      *Reconciler
	kernel kernel
	// applied is the image of the last mustApply.
	applied *compile.Image
	// fail is asked before every write and every SynchronizeRCU; nil never fails.
	fail func() bool
	// schedules caches wantedSchedules.
	schedules map[*model.Config]map[string][]string
	// wrote is called after every write; nil is not.
	wrote func(what string)
}

// watched is a table that tells a rig of its writes.
type watched[K comparable, V any] struct {
	bpfmap.Table[K, V]
	name string
	g    *rig
}

func (w watched[K, V]) Put(k K, v V) error {
	if err := w.Table.Put(k, v); err != nil {
		return err
	}
	w.g.note(func() string { return fmt.Sprintf("put %s %s = %s", w.name, show(k), show(v)) })
	return nil
}

func (w watched[K, V]) PutAll(keys []K, values []V) (int, error) {
	for i := range keys {
		if err := w.Put(keys[i], values[i]); err != nil {
			return i, err
		}
	}
	return len(keys), nil
}

func (w watched[K, V]) Delete(k K) error {
	if err := w.Table.Delete(k); err != nil {
		return err
	}
	w.g.note(func() string { return fmt.Sprintf("delete %s %s", w.name, show(k)) })
	return nil
}

func (g *rig) note(what func() string) {
	if g.wrote != nil {
		g.wrote(what())
	}
}

func watch[K comparable, V any](g *rig, name string, t *bpfmap.Table[K, V]) {
	*t = watched[K, V]{Table: *t, name: name, g: g}
}

func newRig(t *testing.T) *rig { return newRigOf(t, testSizes) }

func newRigOf(t *testing.T, sizes maps.Sizes) *rig {
	return newRigWith(t, sizes, clusters.LongSchedule)
}

// newRigWith is a rig in which schedules from this length on are changed in place.
func newRigWith(t *testing.T, sizes maps.Sizes, manyTurns int) *rig {
	g := &rig{t: t, schedules: map[*model.Config]map[string][]string{}}
	failing := func() bool { return g.fail != nil && g.fail() }
	cfg := mapstest.NewFakeConfig(sizes, failing)
	watch(g, "vips", &cfg.VIPs)
	watch(g, "listeners", &cfg.Listeners)
	watch(g, "route_tables", &cfg.RouteTables)
	watch(g, "routes", &cfg.Routes)
	watch(g, "splits", &cfg.Splits)
	watch(g, "rewrites", &cfg.Rewrites)
	watch(g, "retry_sets", &cfg.RetrySets)
	watch(g, "automata", &cfg.Automata)
	watch(g, "cells", &cfg.Cells)
	watch(g, "accepts", &cfg.Accepts)
	watch(g, "accepted_values", &cfg.AcceptedValues)
	watch(g, "hosts", &cfg.Hosts)
	watch(g, "vhosts", &cfg.VHosts)
	watch(g, "path_texts", &cfg.PathTexts)
	watch(g, "paths", &cfg.Paths)
	watch(g, "tuples", &cfg.Tuples)
	watch(g, "buckets", &cfg.Buckets)
	watch(g, "bucket_lists", &cfg.BucketLists)
	watch(g, "fields", &cfg.Fields)
	watch(g, "values", &cfg.Values)
	watch(g, "value_prefixes", &cfg.Prefixes)
	cfg.SynchronizeRCU = func() error {
		if failing() {
			return mapstest.ErrFault
		}
		g.note(func() string { return "settle" })
		return nil
	}
	sh := maps.NewHeapShared(sizes)
	g.r = newReconciler(cfg, sh, slog.New(slog.DiscardHandler), limits{fewPaths, manyTurns})
	g.kernel = kernel{cfg: cfg, sh: sh}
	return g
}

func (g *rig) mustApply(cfg *model.Config) Stats {
	g.t.Helper()
	im, _ := compile.Compile(cfg)
	stats, err := g.r.Apply(im)
	if err != nil {
		g.t.Fatal(err)
	}
	g.applied = im
	return stats
}

// show prints keys and values as people read them.
func show(v any) string {
	switch v := v.(type) {
	case maps.ListenerKey:
		return maps.Address(v.Addr, v.Port).String()
	case maps.Listener:
		return fmt.Sprintf("number %d table %d", v.Number, v.Table)
	case maps.RouteTable:
		return fmt.Sprintf("flags %d default %d missing %#x", v.Flags, v.DefaultVhost, v.Missing)
	case maps.HostKey:
		return fmt.Sprintf("%d/%d %q", v.Scope/2, v.Scope%2, v.Host[:(v.PrefixLen-32)/8])
	case maps.PathKey:
		return fmt.Sprintf("%d %q", v.Vhost, v.Path[:(v.PrefixLen-32)/8])
	case maps.PathText:
		return fmt.Sprintf("%d %q", v.Vhost, v.Text[:v.Len])
	case maps.Candidates:
		if v.Automata > 0 {
			return fmt.Sprintf("routes %d+%d tuples %d+%d automata %d+%d", v.First, v.Count, v.Tuple, v.TupleCount, v.Automaton, v.Automata)
		}
		return fmt.Sprintf("routes %d+%d tuples %d+%d", v.First, v.Count, v.Tuple, v.TupleCount)
	case maps.Automaton:
		return fmt.Sprintf("cells %d and %d, lists %d, %d classes, start %d", v.Next, v.Accept, v.Lists, v.ClassCount, v.Start)
	case maps.Tuple:
		return fmt.Sprintf("order %d number %d slots %v routes %d+%d", v.Order, v.Number, v.Slots, v.First, v.Count)
	case maps.BucketKey:
		return fmt.Sprintf("%d %v", v.Tuple, v.Classes)
	case maps.FieldKey:
		return fmt.Sprintf("%d %q", v.Table, v.Name[:v.Len])
	case maps.AskedField:
		return fmt.Sprintf("number %d flags %d bits %#x missing %#x slot %d class %d", v.Number, v.Flags, v.Bits, v.Missing, v.Slot, v.Class)
	case maps.ValueKey:
		return fmt.Sprintf("%d %q", v.Field, v.Value[:(v.PrefixLen-32)/8])
	case maps.Value:
		return fmt.Sprintf("bits %#x class %d", v.Bits, v.Class)
	case maps.Route:
		return fmt.Sprintf("order %d need %#x forbid %#x timeout %d flags %#x to %d+%d of %d", v.Order, v.Need, v.Forbid, v.TimeoutNs, v.Flags, v.First, v.Count, v.Total)
	case maps.Split:
		return fmt.Sprintf("cluster %d below %d", v.Cluster, v.Below)
	default:
		return fmt.Sprint(v)
	}
}

// servesAs reports why the listener of an address routes one of the requests as none of the configurations says,
// or "". Which of them it follows may differ from request to request.
func (g *rig) servesAs(configs []*model.Config, address netip.AddrPort, requests []*matcher.Request) string {
	known := g.r.listeners[maps.KeyOf(address)]
	if known == nil {
		isServed := func(cfg *model.Config) bool { return listenerOn(cfg, address) != nil }
		if !slices.ContainsFunc(configs, func(cfg *model.Config) bool { return !isServed(cfg) }) {
			return "no number was given"
		}
		return ""
	}
	for n, r := range requests {
		draw := uint32(n)
		got := g.kernel.route(known.number, r, draw)
		var whys []string
		for _, cfg := range configs {
			why := g.agree(listenerOn(cfg, address), r, got, draw)
			if why == "" {
				whys = nil
				break
			}
			whys = append(whys, fmt.Sprintf("%q %q: %s", r.Authority, r.Path, why))
		}
		if whys != nil {
			return strings.Join(whys, "\n")
		}
	}
	return ""
}

func listenerOn(cfg *model.Config, address netip.AddrPort) *model.Listener {
	i := slices.IndexFunc(cfg.Listeners, func(l *model.Listener) bool { return l.Address == address })
	if i < 0 {
		return nil
	}
	return cfg.Listeners[i]
}

// agree says how a decision differs from the listener's routes; nil is one that has gone.
func (g *rig) agree(l *model.Listener, r *matcher.Request, got routing, draw uint32) string {
	if l == nil {
		if got.verdict != maps.HandoverListenerGone {
			return fmt.Sprintf("%+v, want a listener that has gone", got)
		}
		return ""
	}
	want := l.Routes.Match(r)
	if why := g.agreeWith(want, got, draw); why != "" || want == nil {
		return why
	}
	if asked, target := targetOf(want, r.Path), got.target(r.Path); asked != target {
		return fmt.Sprintf("asks for %s, want %s", target, asked)
	}
	return ""
}

// targetOf is the target that a route's endpoints get.
func targetOf(r *model.Route, target string) string {
	target, _ = r.Target(target, r.Rewrite)
	return target
}

func (g *rig) agreeWith(want *model.Route, got routing, draw uint32) string {
	if want == nil {
		if got.verdict == maps.HandoverNoRoute || got.verdict == maps.HandoverNoVHost {
			return ""
		}
		return fmt.Sprintf("%+v, want no route", got)
	}
	share := want.Share(uint64(draw))
	name := share.Name
	if got.verdict != maps.VerdictOk || got.timeout != want.Timeout || !g.leads(name, share.Criteria, got.cluster) {
		return fmt.Sprintf("%+v (%s), want %s after at most %s", got, maps.VerdictName(got.verdict), name, want.Timeout)
	}
	if websocket := got.flags&maps.RouteWebsocket != 0; websocket != want.Allows(model.UpgradeWebSocket) {
		return fmt.Sprintf("%+v, want upgrades %q", got, want.Upgrades)
	}
	return ""
}

// leads reports whether requests to a cluster with these criteria may go to an entry: to the cluster itself as long as it is not divided.
func (g *rig) leads(name string, criteria model.Metadata, entry uint32) bool {
	index, known := g.r.clusters.Index(model.SharedCluster(name))
	return known && (index == entry || g.r.clusters.EntryOf(model.SharedCluster(name), criteria) == entry)
}

// checkState demands that every listener serves each request as one of the configurations does,
// and that every cluster has the endpoints of one of them.
func (g *rig) checkState(when string, requests []*matcher.Request, configs ...*model.Config) {
	g.t.Helper()
	addresses := map[netip.AddrPort]bool{}
	for _, cfg := range configs {
		for _, l := range cfg.Listeners {
			addresses[l.Address] = true
		}
	}
	for a := range addresses {
		if why := g.servesAs(configs, a, requests); why != "" {
			g.t.Fatalf("%s: listener %s serves as none of the configurations:\n%s", when, a, why)
		}
	}
	at := map[uint32]string{}
	for _, e := range g.r.clusters.Endpoints() {
		at[e.Index] = e.Address.String()
	}
	for _, c := range g.r.clusters.Clusters() {
		g.checkSchedule(when, c.Key.Name, c.Index, at, configs)
		for criteria, index := range c.Subsets {
			g.checkSchedule(when, c.Key.Name+string(criteria), index, at, configs)
		}
	}
}

// checkSchedule knows the addresses of endpoints by index.
func (g *rig) checkSchedule(when, name string, entry uint32, addresses map[uint32]string, configs []*model.Config) {
	g.t.Helper()
	var got []string
	for _, entry := range g.kernel.schedule(entry) {
		got = append(got, addresses[entry])
	}
	// A cluster that is new, or to be removed, may be empty.
	ok := len(got) == 0 && slices.ContainsFunc(configs, func(cfg *model.Config) bool { return !g.wants(cfg, name) })
	for _, cfg := range configs {
		ok = ok || slices.Equal(got, g.wantedSchedules(cfg)[name])
	}
	if !ok {
		g.t.Fatalf("%s: cluster %s lists %q, which is no configuration's schedule", when, name, got)
	}
}

func (g *rig) addressOf(index uint32) string {
	for _, e := range g.r.clusters.Endpoints() {
		if e.Index == index {
			return e.Address.String()
		}
	}
	return "nobody"
}

// wants reports whether a configuration has a cluster or subset of that name.
func (g *rig) wants(cfg *model.Config, name string) bool {
	_, has := g.wantedSchedules(cfg)[name]
	return has
}

// wantedSchedules are the addresses that a configuration's schedules list, by cluster, and for a subset by cluster and criteria.
func (g *rig) wantedSchedules(cfg *model.Config) map[string][]string {
	if schedule := g.schedules[cfg]; schedule != nil {
		return schedule
	}
	im, _ := compile.Compile(cfg)
	schedule := map[string][]string{}
	for _, c := range im.Clusters {
		list := func(name string, part int) {
			root := c.RootOf(part, compiled.Learned{})
			schedule[name] = nil
			for _, e := range endpointsBelow(&root) {
				schedule[name] = append(schedule[name], c.Endpoints[e].Address.String())
			}
		}
		list(c.Key.Name, 0)
		for _, s := range c.Subsets {
			list(c.Key.Name+string(s.Criteria), s.Part)
		}
	}
	g.schedules[cfg] = schedule
	return schedule
}

// endpointsBelow is what kernel.endpointsBelow finds.
func endpointsBelow(g *compiled.Group) (endpoints []uint32) {
	if len(g.Groups) == 0 {
		return g.Schedule
	}
	for _, entry := range g.Schedule {
		endpoints = append(endpoints, endpointsBelow(&g.Groups[entry])...)
	}
	return endpoints
}

// checkClean demands that the maps hold exactly the configuration, and that every number
// is either in use by it or free.
func (g *rig) checkClean(cfg *model.Config, requests []*matcher.Request) {
	g.t.Helper()
	g.checkState("after apply", requests, cfg)
	if g.r.hasPending() {
		g.t.Fatal("something is pending after a clean apply")
	}
	im, _ := compile.Compile(cfg)
	fresh := newRigOf(g.t, g.kernel.cfg.Sizes)
	fresh.mustApply(cfg)
	if diff := gocmp.Diff(g.contents(), fresh.contents()); diff != "" {
		g.t.Errorf("the maps hold something else than after a fresh start (-got +want):\n%s", diff)
	}
	got, want := g.inUse(), fresh.inUse()
	want["endpoint indices"] = len(g.r.clusters.Endpoints())
	if diff := gocmp.Diff(got, want); diff != "" {
		g.t.Errorf("in use (-got +want):\n%s", diff)
	}
	g.checkFlags(im)
}

// inUse counts what is in the maps and in their numbers.
func (g *rig) inUse() map[string]int {
	n, full, cfg := &g.r.indices, newIndexAllocators(g.kernel.cfg.Sizes, g.kernel.sh), g.kernel.cfg
	return map[string]int{
		"addresses":            entries(cfg.VIPs),
		"hosts":                entries(cfg.Hosts),
		"paths in the trie":    entries(cfg.Paths),
		"paths in the hash":    entries(cfg.PathTexts),
		"fields":               entries(cfg.Fields),
		"values":               entries(cfg.Values),
		"prefixes":             entries(cfg.Prefixes),
		"buckets":              entries(cfg.Buckets),
		"listener numbers":     used(n.listeners, full.listeners),
		"table numbers":        used(n.routes.Tables, full.routes.Tables),
		"virtual host numbers": used(n.routes.VHosts, full.routes.VHosts),
		"route numbers":        used(n.routes.Routes, full.routes.Routes),
		"split numbers":        used(n.routes.Splits, full.routes.Splits),
		"tuples":               used(n.routes.Tuples, full.routes.Tuples),
		"tuple numbers":        used(n.routes.TupleNumbers, full.routes.TupleNumbers),
		"lists of buckets":     used(n.routes.BucketLists, full.routes.BucketLists),
		"field numbers":        used(n.routes.Fields, full.routes.Fields),
		"automata numbers":     used(n.routes.Automata, full.routes.Automata),
		"blocks of cells":      used(n.routes.Cells, full.routes.Cells),
		"lists of automata":    used(n.routes.Accepts, full.routes.Accepts),
		"values of automata":   used(n.routes.AcceptedValues, full.routes.AcceptedValues),
		"turns":                used(n.clusters.Schedules, full.clusters.Schedules),
		"groups":               used(n.clusters.Groups, full.clusters.Groups),
		"cluster indices":      used(n.clusters.Clusters, full.clusters.Clusters),
		"endpoint indices":     used(n.clusters.Endpoints, full.clusters.Endpoints),
	}
}

func (g *rig) checkFlags(im *compile.Image) {
	g.t.Helper()
	serving := map[string]uint32{}
	for i := range im.Clusters {
		for _, e := range im.Clusters[i].Endpoints {
			serving[im.Clusters[i].Key.Name+e.Address.String()] = e.LoadWeight
		}
	}
	for _, e := range g.r.Endpoints() {
		weight, wanted := serving[e.Cluster.Name+e.Address.String()]
		shared := &g.kernel.sh.Endpoints[e.Index]
		marked := shared.Flags&uint32(maps.EndpointGone) != 0
		if e.Gone == wanted || marked == wanted || wanted && shared.Weight != weight {
			g.t.Errorf("endpoint %+v: flags %d, weight %d; in the configuration: %t, weight %d", e, shared.Flags, shared.Weight, wanted, weight)
		}
	}
}

func entries[K comparable, V any](t bpfmap.Table[K, V]) (n int) {
	t.Each(func(K, V) bool { n++; return true })
	return n
}

func used(now, full interface{ Left() uint64 }) int { return int(full.Left() - now.Left()) }
