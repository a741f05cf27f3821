// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/guard"
	"github.com/xlb-project/xlb/internal/logging"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/reconcile"
)

// warden hears of broken invariants, tells of them, and takes off the fast path what package guard
// says.
type warden struct {
	n *Node
	// acts: what guard says is done. Otherwise events are told of only.
	acts bool
	// mount is of the cgroup hierarchy; "": there is none to be seen, and no tenant is known.
	mount string
	heard chan maps.Event
	// looked is when the counts were read, of maps.Now; next is when something returns, 0: nothing
	// does; behind: the counts are to be read once more.
	looked, next atomic.Int64
	behind       atomic.Bool
	said         speaker

	// mu guards policy. Who needs n.updates too takes that first.
	mu     sync.Mutex
	policy *guard.Policy
}

// wardenPace is how often it is looked whether there is something to count, or to return. More
// events than wardenRoom do not wait: they are among those that are only counted.
const (
	wardenPace = time.Second
	wardenRoom = 128
)

func newWarden(n *Node) *warden {
	w := &warden{
		n: n, acts: n.o.Auto && n.o.FastPath, heard: make(chan maps.Event, wardenRoom), policy: guard.New(), said: speaker{pace: time.Second},
	}
	w.looked.Store(maps.Now())
	w.mount, _ = check.CgroupMount()
	return w
}

// hear never waits.
func (w *warden) hear(e maps.Event) {
	select {
	case w.heard <- e:
	default:
	}
}

// run ends with ctx.
func (w *warden) run(ctx context.Context) {
	look, stop := w.n.ticks(wardenPace, w.due)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-w.heard:
			w.take(time.Now(), e)
		case <-look:
			w.look(time.Now())
		}
	}
}

// countLag is how long a program may have counted, at most, since it raised an event: maps.h says
// 10 ms.
const countLag = int64(20 * time.Millisecond)

// due reports whether anything may have been counted since the last look, or is to return. It does
// not wait.
func (w *warden) due() bool {
	last, at := int64(0), &w.n.datapath.Shared.Control.GuardNs
	for i := range at {
		last = max(last, int64(atomic.LoadUint64(&at[i])))
	}
	next := w.next.Load()
	return last+countLag >= w.looked.Load() || w.behind.Load() || next != 0 && maps.Now() >= next
}

// take takes an event in.
func (w *warden) take(now time.Time, e maps.Event) {
	seen := guard.Event{What: maps.Guard(e.Detail), Client: e.Cookie}
	if seen.What == maps.GuardUnasked {
		// It was found before the lease was filled: the cookie is that of the lease before.
		seen.Client = 0
	}
	if entry, ok := w.n.directory.Load().endpoint(e.Endpoint); ok {
		seen.Endpoint = entry.Address
	}
	client := w.clientOf(&seen)
	if unsaid, ok := w.said.may(now, maps.GuardName(seen.What)); ok {
		w.n.log.Warn("an exchange broke an invariant; it was ended, or its accounts were put right", "guard", maps.GuardName(seen.What),
			"endpoint", known(seen.Endpoint), "client", known(client), "cgroup", logging.NonZero(seen.Tenant), "cookie", logging.NonZero(seen.Client), "lease", e.Lease, "slot", e.Slot,
			"not_logged", logging.NonZero(unsaid))
	}
	w.mu.Lock()
	decisions := w.policy.Event(now, seen)
	w.mu.Unlock()
	w.act(now, decisions)
}

// clientOf finds a client's address, and whose it is.
func (w *warden) clientOf(e *guard.Event) (client netip.AddrPort) {
	if e.Client == 0 {
		return client
	}
	client, path, open := w.n.anchors.Whose(e.Client)
	if !open || w.mount == "" {
		return client
	}
	tenant, err := tenantOf(w.mount, path)
	e.Tenant = tenant
	if err != nil {
		w.n.log.Debug("the cgroup of a client is not known", "client", known(client), "err", err)
	}
	return client
}

// look reads the counts, and lets return what is due.
func (w *warden) look(now time.Time) {
	w.looked.Store(maps.Now())
	counts, err := w.n.datapath.Guards()
	if err != nil {
		w.n.log.Warn("reading guard counters failed; will retry", "err", err)
	}
	w.mu.Lock()
	missed, decisions := w.policy.Counts(now, counts)
	decisions = append(decisions, w.policy.Due(now)...)
	w.behind.Store(w.policy.Behind())
	w.mu.Unlock()
	for what, n := range missed {
		if n > 0 {
			w.n.log.Warn("exchanges broke an invariant, and nothing more is known of them", "guard", maps.GuardName(maps.Guard(what)), "count", n)
		}
	}
	w.act(now, decisions)
}

// act puts decisions in force.
func (w *warden) act(now time.Time, decisions []guard.Decision) {
	defer w.plan()
	if !w.acts {
		return
	}
	endpoints := false
	for _, d := range decisions {
		switch d.Scope {
		case guard.Client:
			w.keep(now, d)
		case guard.Endpoint:
			endpoints = true
			w.sayEndpoint(d)
		case guard.Machine:
			atomic.StoreUint32(&w.n.datapath.Shared.Control.Guarded, 1)
			w.n.log.Error("no request takes the fast path any more until the daemon is started again", "why", d.Why)
		}
	}
	if endpoints {
		w.n.updates.Lock()
		defer w.n.updates.Unlock()
		w.mark(w.n.reconcil.Endpoints())
	}
}

// known is an address in a line of the log.
func known(a netip.AddrPort) string {
	if !a.IsValid() {
		return "unknown"
	}
	return a.String()
}

// keep takes a client's connection off the fast path.
func (w *warden) keep(now time.Time, d guard.Decision) {
	client, _, _ := w.n.anchors.Whose(d.Client)
	anew, err := w.n.anchors.Guard(d.Client)
	if err != nil {
		w.n.log.Warn("a connection that is to leave the fast path stays there", "client", known(client), "cookie", d.Client, "err", err)
		return
	}
	if !anew {
		return
	}
	if unsaid, ok := w.said.may(now, "client"); ok {
		w.n.log.Warn("a client's connection is kept off the fast path", "client", known(client), "cookie", d.Client, "why", d.Why, "not_logged", logging.NonZero(unsaid))
	}
}

func (w *warden) sayEndpoint(d guard.Decision) {
	if d.Back {
		w.n.log.Info("endpoint returns to the fast path", "endpoint", d.Endpoint, "after", d.For.Round(time.Millisecond))
		return
	}
	w.n.log.Warn("endpoint is off the fast path", "endpoint", d.Endpoint, "why", d.Why, "for", d.For)
}

// plan notes when something returns.
func (w *warden) plan() {
	w.mu.Lock()
	next := w.policy.Next()
	w.mu.Unlock()
	if next.IsZero() {
		w.next.Store(0)
		return
	}
	w.next.Store(maps.Now() + int64(time.Until(next)))
}

// off are the endpoints that are off the fast path.
func (w *warden) off() map[netip.AddrPort]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	off := map[netip.AddrPort]bool{}
	for _, o := range w.policy.Off() {
		if o.Scope == guard.Endpoint {
			off[o.Endpoint] = true
		}
	}
	return off
}

// follow marks the endpoints of a new configuration. Needs n.updates.
func (w *warden) follow(changed []reconcile.EndpointEntry) {
	if w.acts && len(w.off()) > 0 {
		w.mark(changed)
	}
}

// mark tells the programs which of some endpoints are off the fast path. Needs n.updates: an index
// is not another's meanwhile.
func (w *warden) mark(endpoints []reconcile.EndpointEntry) {
	off := w.off()
	for i := range endpoints {
		flags := &w.n.datapath.Shared.Endpoints[endpoints[i].Index].Flags
		if off[endpoints[i].Address] {
			atomic.OrUint32(flags, uint32(maps.EndpointGuarded))
		} else {
			atomic.AndUint32(flags, ^uint32(maps.EndpointGuarded))
		}
	}
}

// Guarded implements admin.Source.
func (n *Node) Guarded() (list []admin.Guarded) {
	if n.unfit != "" {
		list = append(list, admin.Guarded{Scope: "kernel", Why: n.unfit})
	}
	if !n.warden.acts {
		return list
	}
	n.warden.mu.Lock()
	off := n.warden.policy.Off()
	n.warden.mu.Unlock()
	for _, o := range off {
		row := admin.Guarded{Scope: o.Scope.String(), Why: o.Why, Since: &o.Since}
		if o.Scope == guard.Endpoint {
			row.Endpoint, row.Until = o.Endpoint.String(), &o.Until
		}
		list = append(list, row)
	}
	if kept := n.anchors.Guarded(); kept > 0 {
		list = append(list, admin.Guarded{Scope: guard.Client.String(), Connections: kept, Why: "each broke invariants too often; the log has some"})
	}
	return list
}

// Guarded implements metrics.Source.
func (m measured) Guarded() map[string]uint64 {
	counts := map[string]uint64{}
	for _, scope := range guard.Scopes() {
		counts[scope.String()] = 0
	}
	for _, g := range m.n.Guarded() {
		switch g.Scope {
		case guard.Client.String():
			counts[g.Scope] = uint64(g.Connections)
		case guard.Endpoint.String(), guard.Machine.String():
			counts[g.Scope]++
		}
	}
	return counts
}

// speaker lets the same thing be said now and then only.
type speaker struct {
	pace time.Duration
	last map[string]utterance
}

type utterance struct {
	at     time.Time
	unsaid uint64
}

// may reports whether a thing may be said now, and how often it was not since it was said last.
func (s *speaker) may(now time.Time, what string) (unsaid uint64, ok bool) {
	if s.last == nil {
		s.last = map[string]utterance{}
	}
	u := s.last[what]
	if now.Sub(u.at) < s.pace {
		u.unsaid++
		s.last[what] = u
		return 0, false
	}
	s.last[what] = utterance{at: now}
	return u.unsaid, true
}
