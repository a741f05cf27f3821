// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/compile/note"
	"github.com/xlb-project/xlb/internal/generation"
	"github.com/xlb-project/xlb/internal/match"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/pool"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/internal/shutdown"
)

// manyClusters is from how many on the page of metrics leaves much behind: some 24 kB for each.
const manyClusters = 256

// returnPace is how often memory is given back: each time all of it is looked through, which takes as long as a page.
const returnPace = time.Minute

// returning gives back to the system what large pages of metrics have taken. Between two of them the runtime would keep it, as one comes every few seconds
// and all else takes little. Of pages that come faster than returnPace some do not: who asks often would have the daemon do nothing else.
func (n *Node) returning(metrics http.Handler) http.Handler {
	give := paced(returnPace, debug.FreeOSMemory)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		metrics.ServeHTTP(w, r)
		if len(n.generation.Load().Config().Clusters) >= manyClusters {
			give()
		}
	})
}

// paced does something when it is asked to, once in that time. It is safe for concurrent use.
func paced(pace time.Duration, do func()) func() {
	var mu sync.Mutex
	var last time.Time
	return func() {
		mu.Lock()
		now := time.Now()
		due := last.IsZero() || now.Sub(last) >= pace
		if due {
			last = now
		}
		mu.Unlock()
		if due {
			do()
		}
	}
}

// install puts a configuration in force whose names are resolved (source.Config.Activate).
func (n *Node) install(cfg *model.Config) error {
	cfg = n.inner.Mark(n.bound.AddOwnAddresses(cfg))
	made, ok := shutdown.Unless(n.ending, func() prepared { return n.prepare(cfg) })
	if !ok {
		return shutdown.ErrEnding
	}
	image, matchers, notes := made.image, made.matchers, made.notes
	n.say(notes)
	n.sayPassed(cfg)
	before := n.generation.Load()
	changed := model.ChangeOf(before.Config().Clusters, cfg.Clusters)
	if len(changed.Lost()) > 0 {
		// What their endpoints have counted is not found any more afterwards.
		n.metrics.Observe()
	}
	changes, err := n.activate(cfg, image, matchers, notes)
	if err != nil {
		return err
	}
	n.guards.Apply(changes.Endpoints)
	if len(changed.Lost()) > 0 || n.unswept {
		n.unswept = !n.proxy.Sweep()
	}
	n.connect(before, &changes)
	if n.admin != nil {
		n.admin.Yield(cfg)
	}
	// What cannot be bound is logged, and tried again.
	_ = n.bound.Apply(cfg)
	now := n.generation.Load()
	if limits := now.AllLimits(); before.AllLimits() == nil || !maps.Equal(before.AllLimits(), limits) {
		n.anchors.LimitsChanged(limits)
	}
	n.health.Apply(cfg.Clusters, now.EndpointsOf)
	return nil
}

// prepared is what is made of a configuration before anything is changed.
type prepared struct {
	image    *compile.Image
	matchers map[*model.RouteTable]*match.Table
	notes    []note.Note
}

// prepare takes seconds where there are thousands of regular expressions. It touches nothing but the compiler and the builder. Needs n.updates, or that the
// daemon ends.
func (n *Node) prepare(cfg *model.Config) prepared {
	image, notes := n.compiler.Compile(cfg)
	return prepared{image, n.matchers.Build(cfg), notes}
}

// say logs the notes that the configuration before did not have: endpoints may change often.
func (n *Node) say(notes []note.Note) {
	said := map[note.Note]bool{}
	for _, note := range n.generation.Load().Notes() {
		said[note] = true
	}
	for _, note := range notes {
		if !said[note] {
			n.log.Warn("served by the slow path", "where", note.Where, "reason", note.Reason)
		}
	}
}

// sayPassed logs which listeners are left alone, once.
func (n *Node) sayPassed(cfg *model.Config) {
	for _, p := range cfg.Passed {
		if before := n.generation.Load().Config(); !slices.Contains(before.Passed, p) {
			n.log.Info("listener left alone", "listener", p.Listener, "address", p.Address, "reason", p.Why)
		}
	}
}

// activate changes the kernel, and then the slow path, whose requests never wait for it: until the end they find what they have found before. It
// says what has changed since the last time that it did so.
func (n *Node) activate(cfg *model.Config, image *compile.Image, matchers map[*model.RouteTable]*match.Table, notes []note.Note) (reconcile.Changes, error) {
	n.switching.Lock()
	defer n.switching.Unlock()
	if err := n.reconcil.Switch(image); err != nil {
		return reconcile.Changes{}, fmt.Errorf("write configuration to the kernel: %w", err)
	}
	changes := n.reconcil.Changed()
	n.generation.Store(n.generation.Load().Next(&generation.Input{
		Config: cfg, Matchers: matchers, Notes: notes, Changes: &changes, Kernel: n.reconcil, At: time.Now(),
	}))
	return changes, nil
}

// awaitSwitch waits for a configuration that is being put in force.
func (n *Node) awaitSwitch() {
	n.switching.RLock()
	n.switching.RUnlock() //nolint:staticcheck // the wait is all
}

// connect makes the pools follow the endpoints in force, after changes of what was before.
func (n *Node) connect(before *generation.Generation, changes *reconcile.Changes) {
	now := n.generation.Load()
	if plain := n.plainOf(now.Config(), before); n.plain == nil || !maps.Equal(plain, n.plain) {
		n.plain = plain
		// Whoever was not connected to may have to be now.
		n.pool.SetEndpoints(n.toConnect(n.reconcil.Endpoints(), now))
	} else {
		var removed []uint32
		for i := range changes.Endpoints {
			if e := &changes.Endpoints[i]; !n.connects(e) {
				removed = append(removed, e.Index)
			}
		}
		n.pool.Change(n.toConnect(changes.Endpoints, now), append(removed, changes.Released...))
	}
	if limit := now.ShortestLimit(); limit != n.shortest {
		n.shortest = limit
		n.pool.SetShortest(limit)
	}
	n.keepConnections(before, changes)
	n.releaseGone(changes.Endpoints)
}

// plainOf are the clusters without i-socks, of another configuration.
func (n *Node) plainOf(cfg *model.Config, before *generation.Generation) map[string]bool {
	if n.plain != nil && slices.Equal(before.Config().Listeners, cfg.Listeners) {
		return n.plain
	}
	return cfg.PlainClusters()
}

// connects reports whether an endpoint is to have i-socks.
func (n *Node) connects(e *reconcile.EndpointEntry) bool {
	return !e.Gone && n.o.FastPath && !n.plain[e.Cluster] && e.TLS == nil && !e.Inner
}

func (n *Node) toConnect(entries []reconcile.EndpointEntry, now *generation.Generation) []pool.Endpoint {
	list := make([]pool.Endpoint, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		c := now.Cluster(e.Cluster)
		if c == nil || !n.connects(e) {
			continue
		}
		list = append(list, pool.Endpoint{
			Index: e.Index, Address: e.Address, ConnectTimeout: c.ConnectTimeout,
			Cluster: e.Cluster, MaxConnections: max(c.BreakersOf(model.PriorityDefault).MaxConnections, 1),
			Limits: pool.Limits(c.Connections), Draining: e.Health == model.Draining,
		})
	}
	return list
}

// keepConnections tells the slow path to which addresses it may keep connections. Several clusters may have endpoints at one.
func (n *Node) keepConnections(before *generation.Generation, changes *reconcile.Changes) {
	touched := map[netip.AddrPort]int{}
	count := func(e *reconcile.EndpointEntry, by int) {
		if e == nil || e.Gone || e.Health == model.Draining {
			return
		}
		if _, known := touched[e.Address]; !known {
			touched[e.Address] = n.kept[e.Address]
		}
		n.kept[e.Address] += by
	}
	for i := range changes.Endpoints {
		count(&changes.Endpoints[i], +1)
		count(before.EndpointAt(changes.Endpoints[i].Index), -1)
	}
	for _, index := range changes.Released {
		count(before.EndpointAt(index), -1)
	}
	var added, dropped []netip.AddrPort
	for address, had := range touched {
		switch now := n.kept[address]; {
		case now == 0:
			delete(n.kept, address)
			if had > 0 {
				dropped = append(dropped, address)
			}
		case had == 0:
			added = append(added, address)
		}
	}
	n.proxy.KeepConnections(added, dropped)
	n.dropTurned(before, changes)
}

// releaseGone gives up removed endpoints that have no pool: of all when there is no fast path, and those of listeners without HTTP.
func (n *Node) releaseGone(entries []reconcile.EndpointEntry) {
	for _, e := range entries {
		if e.Gone && !n.pool.Knows(e.Index) {
			n.released(e.Index)
		}
	}
}

// released gives up a removed endpoint whose i-socks are closed, now or when its last slow request has ended.
func (n *Node) released(index uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting[index] = struct{}{}
}

// releaseWaiting gives up the removed endpoints whose last request has ended. One that the pool knows has come back since: when it is removed again, the pool
// tells anew.
func (n *Node) releaseWaiting() {
	for _, index := range n.takeIdle() {
		// The pool tells with its lock held: it is not asked with ours.
		if !n.pool.Knows(index) {
			n.reconcil.ReleaseEndpoint(index)
		}
	}
}

// takeIdle takes those without requests out of the endpoints that wait.
func (n *Node) takeIdle() (idle []uint32) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for index := range n.waiting {
		if atomic.LoadUint32(&n.datapath.Shared.Endpoints[index].Outstanding) == 0 {
			idle = append(idle, index)
			delete(n.waiting, index)
		}
	}
	return idle
}
