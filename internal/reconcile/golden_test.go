// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xlb-project/xlb/internal/maps/bpfmap"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/test/golden"
)

func route(path matcher.PathMatch, to ...model.WeightedCluster) *model.Route {
	return &model.Route{Path: path, Timeout: 15 * time.Second, Clusters: to}
}

func all(cluster string) model.WeightedCluster {
	return model.WeightedCluster{Name: cluster, Weight: 1}
}

// shopBefore and shopAfter differ in a canary's share, an endpoint, a listener that goes
// and one that comes; the listener on port 82 is the same.
func shopBefore() *model.Config {
	shop := &model.RouteTable{VirtualHosts: []*model.VirtualHost{{
		Name: "shop", Domains: []string{"shop.example", "*.shop.example"},
		Routes: []*model.Route{
			{
				Path: matcher.PathMatch{Value: "/"}, Timeout: 15 * time.Second, Clusters: []model.WeightedCluster{all("canary")},
				Headers: []matcher.HeaderMatch{{Name: "x-canary", Kind: matcher.HeaderString, String: matcher.Exact("yes")}},
			},
			route(matcher.PathMatch{Value: "/"}, model.WeightedCluster{Name: "stable", Weight: 95}, model.WeightedCluster{Name: "canary", Weight: 5}),
		},
	}}}
	return &model.Config{
		Listeners: []*model.Listener{
			{Name: "shop", Address: address(80), Routes: shop},
			{Name: "leaves", Address: address(81), Routes: everythingTo("stable")},
			{Name: "stays", Address: address(82), Routes: everythingTo("stable")},
		},
		Clusters: []*model.Cluster{
			{Name: "stable", Endpoints: []model.Endpoint{endpointOn(9000, 2), endpointOn(9001, 1)}},
			{Name: "canary", Policy: model.LeastRequest, ChoiceCount: 2, Endpoints: []model.Endpoint{endpointOn(9100, 1)}},
		},
	}
}

func shopAfter() *model.Config {
	cfg := shopBefore()
	cfg.Listeners[0].Routes.VirtualHosts[0].Routes[1].Clusters[0].Weight = 50
	cfg.Listeners[0].Routes.VirtualHosts[0].Routes[1].Upgrades = []string{model.UpgradeWebSocket}
	cfg.Listeners[1] = &model.Listener{Name: "comes", Address: address(83), Routes: everythingTo("canary")}
	cfg.Clusters[0].Endpoints = []model.Endpoint{endpointOn(9001, 1), endpointOn(9002, 1)}
	return cfg
}

func everythingTo(cluster string) *model.RouteTable {
	return &model.RouteTable{VirtualHosts: []*model.VirtualHost{{
		Name: "all", Domains: []string{"*"}, Routes: []*model.Route{route(matcher.PathMatch{Value: "/"}, all(cluster))},
	}}}
}

func TestMapContentsMatchGolden(t *testing.T) {
	for name, cfg := range map[string]*model.Config{"before": shopBefore(), "after": shopAfter()} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t)
			g.mustApply(cfg)
			golden.Compare(t, filepath.Join("testdata", name+".golden"), g.dump())
		})
	}
}

func TestWritesOfAReloadMatchGolden(t *testing.T) {
	g := newRig(t)
	g.mustApply(shopBefore())
	var lines []string
	shared := g.sharedLines()
	g.wrote = func(what string) {
		now := g.sharedLines()
		lines = append(lines, changed(shared, now)...)
		lines = append(lines, what)
		shared = now
	}
	g.mustApply(shopAfter())
	lines = append(lines, changed(shared, g.sharedLines())...)
	golden.Compare(t, filepath.Join("testdata", "delta.golden"), strings.Join(lines, "\n")+"\n")
}

// dump is everything in the maps, sorted.
func (g *rig) dump() string {
	cfg := g.kernel.cfg
	lines := slices.Concat(
		dumpTable("vips", cfg.VIPs), dumpTable("listeners", cfg.Listeners), dumpTable("route_tables", cfg.RouteTables),
		dumpTable("hosts", cfg.Hosts), dumpTable("vhosts", cfg.VHosts), dumpTable("path_texts", cfg.PathTexts), dumpTable("paths", cfg.Paths), dumpTable("fields", cfg.Fields),
		dumpTable("tuples", cfg.Tuples), dumpTable("buckets", cfg.Buckets), dumpTable("bucket_lists", cfg.BucketLists),
		dumpTable("values", cfg.Values), dumpTable("value_prefixes", cfg.Prefixes),
		dumpTable("routes", cfg.Routes), dumpTable("splits", cfg.Splits), dumpTable("rewrites", cfg.Rewrites), dumpTable("retry_sets", cfg.RetrySets),
		dumpTable("automata", cfg.Automata), dumpTable("cells", cfg.Cells), dumpTable("accepts", cfg.Accepts), dumpTable("accepted_values", cfg.AcceptedValues),
		g.sharedLines(),
	)
	return strings.Join(lines, "\n") + "\n"
}

func dumpTable[K comparable, V any](name string, t bpfmap.Table[K, V]) []string {
	var lines []string
	t.Each(func(k K, v V) bool {
		lines = append(lines, fmt.Sprintf("%s %s = %s", name, show(k), show(v)))
		return true
	})
	slices.Sort(lines)
	return lines
}

// sharedLines describes the clusters and endpoints in shared memory that are in use.
func (g *rig) sharedLines() []string {
	var lines []string
	names := map[uint32]string{}
	for _, c := range g.r.clusters.Clusters() {
		names[c.Index] = c.Key.Name
	}
	for i := range g.kernel.sh.Clusters {
		if name, used := names[uint32(i)]; used {
			root := uint32(g.kernel.sh.Clusters[i].Root)
			group := &g.kernel.sh.Groups[root]
			lines = append(lines, fmt.Sprintf("cluster %d %q: group %d policy %d choices %d turns at %d %v",
				i, name, root, group.Policy, group.Choices, uint32(group.Schedule), g.kernel.schedule(uint32(i))))
		}
	}
	for i := range g.kernel.sh.Endpoints {
		if a := g.addressOf(uint32(i)); a != "nobody" {
			e := &g.kernel.sh.Endpoints[i]
			lines = append(lines, fmt.Sprintf("endpoint %d %s: weight %d flags %d", i, a, e.Weight, e.Flags))
		}
	}
	return lines
}

// changed are the lines that are new.
func changed(before, now []string) []string {
	return slices.DeleteFunc(slices.Clone(now), func(line string) bool { return slices.Contains(before, line) })
}
