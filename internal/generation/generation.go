// SPDX-License-Identifier: Apache-2.0

// Package generation holds what is in force: a configuration, what the slow path looks up in it, and what the kernel's indices mean. A Generation is
// never changed: the next one shares with it what stays. The package only makes them and answers look-ups; to put one in force is the daemon's.
package generation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/compile/note"
	"github.com/xlb-project/xlb/internal/match"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/model/matcher"
	"github.com/xlb-project/xlb/internal/model/topology"
	"github.com/xlb-project/xlb/internal/pages"
	"github.com/xlb-project/xlb/internal/reconcile"
)

// Generation is what is in force. It is safe for concurrent use, as is all that it returns, none of which is to be changed.
type Generation struct {
	config *model.Config
	*listeners
	// matchers find routes in tables.
	matchers map[*model.RouteTable]*match.Table
	// clusters by key: each request of the slow path asks for one.
	clusters map[model.ClusterKey]*model.Cluster
	// entries are the clusters in the kernel's maps by key, endpoints what is there by index.
	entries   map[model.ClusterKey]*ClusterEntry
	endpoints pages.List[reconcile.EndpointEntry]
	notes     []note.Note
	version   func() string
	since     time.Time
}

// Empty is the generation before the first configuration.
func Empty() *Generation {
	cfg := &model.Config{}
	return &Generation{config: cfg, listeners: &listeners{inner: topology.InnerOf(nil)}, version: func() string { return versionOf(cfg) }}
}

// Input is what the next generation is made of. All but Matchers and Notes is needed.
type Input struct {
	Config *model.Config
	// Matchers find routes in the tables of Config; the table itself does where there is no matcher.
	Matchers map[*model.RouteTable]*match.Table
	Notes    []note.Note
	// Changes are those of the kernel's maps since the generation before, and Kernel the maps as they are.
	Changes *reconcile.Changes
	Kernel  Kernel
	// At is when the generation comes in force.
	At time.Time
}

// Kernel lists what is in the kernel's maps. It is implemented by reconcile.Reconciler.
type Kernel interface {
	Clusters() []reconcile.ClusterEntry
	ListenerNumbers() map[model.ListenerName]uint32
}

// Next makes the generation that follows this one.
func (g *Generation) Next(in *Input) *Generation {
	cfg := in.Config
	next := &Generation{
		config: cfg, listeners: g.listeners, matchers: in.Matchers, notes: in.Notes, since: in.At,
		clusters: clustersByKey(g, cfg),
		// It keeps nothing else of the input.
		version: sync.OnceValue(func() string { return versionOf(cfg) }),
	}
	if numbers := in.Kernel.ListenerNumbers(); !g.hasListeners(cfg.Listeners, numbers) {
		next.listeners = g.nextListeners(in, numbers)
	}
	next.addEndpoints(g, in)
	return next
}

// Config is the configuration.
func (g *Generation) Config() *model.Config { return g.config }

// Notes are those on what the kernel cannot serve.
func (g *Generation) Notes() []note.Note { return g.notes }

// Since is when the generation came in force.
func (g *Generation) Since() time.Time { return g.since }

// Version tells configurations apart by their content.
func (g *Generation) Version() string { return g.version() }

// versionOf takes a good part of a reload for 10,000 routes: only a caller of Version waits for it.
func versionOf(cfg *model.Config) string {
	b, err := json.Marshal(cfg)
	if err != nil {
		// Plain data always marshals.
		return "unknown"
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// Cluster returns the cluster with that key, or nil.
func (g *Generation) Cluster(key model.ClusterKey) *model.Cluster { return g.clusters[key] }

// Key is that of the cluster that a view calls so, if there is one.
func (g *Generation) Key(v model.View, name string) model.ClusterKey { return g.config.In(v).Key(name) }

// clustersByKey finds the clusters of a configuration. Readers may still use what was before.
func clustersByKey(before *Generation, cfg *model.Config) map[model.ClusterKey]*model.Cluster {
	changed := model.ChangeOf(before.config.Clusters, cfg.Clusters)
	if len(changed.Removed)+len(changed.Added) == 0 && before.clusters != nil {
		return before.clusters
	}
	clusters := maps.Clone(before.clusters)
	if clusters == nil {
		clusters = make(map[model.ClusterKey]*model.Cluster, len(changed.Added))
	}
	for _, c := range changed.Removed {
		delete(clusters, c.Key())
	}
	for _, c := range changed.Added {
		clusters[c.Key()] = c
	}
	return clusters
}

// Match finds the route of a request in a table, as slowpath.Configuration does. The table of a listener that was removed has no index any more: few
// connections are left there.
func (g *Generation) Match(t *model.RouteTable, r *matcher.Request, pause func() (gone bool)) *model.Route {
	if m := g.matchers[t]; m != nil {
		return m.Match(r, pause)
	}
	return t.Match(r)
}

// ShortestLimit is the shortest time that any request may take, or stand still; 0 where there is no limit.
func (g *Generation) ShortestLimit() time.Duration {
	shortest := shortestOf{g.shortest}
	for _, c := range g.config.Clusters {
		shortest.note(c.MaxDuration)
	}
	return shortest.limit
}
