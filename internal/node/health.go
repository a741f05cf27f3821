// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/health"
	shared "github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
)

// keeper watches over the health of endpoints: it counts what becomes of their requests, asks them, and tells reconcile.
type keeper struct {
	n *Node
	// ended is closed when the keeper stops.
	ended chan struct{}
	// members are the watched endpoints by index, in a list that is never changed: results come on every slow request.
	members atomic.Pointer[pages[member]]
	news    news

	mu sync.Mutex
	// watched clusters by name, all that is in them but the tallies, and traffic. Guarded by mu.
	watched map[string]*watched
	traffic sample
	// followed are the clusters of the configuration in force. Needs n.updates.
	followed []*model.Cluster
}

// watched is a cluster with outlier detection or health checks.
type watched struct {
	name string
	// detector is nil without outlier_detection; it is to be woken at due.
	detector *health.Detector
	due      time.Time
	// split is split_external_local_origin_errors, for those who do not hold the lock.
	split   atomic.Bool
	check   *model.HealthCheck
	checks  checkStats
	members []*member
	// used: there have been requests; counted says how many when a refused connection was last counted.
	used    bool
	counted uint64
}

// member is a watched endpoint.
type member struct {
	cluster *watched
	index   uint32
	address netip.AddrPort
	// tallies are the daemon's own results, by origin.
	tallies [2]tally
	// seen is the kernel's traffic that the detector knows of.
	seen shared.Traffic
	// slow counts requests of the slow path.
	slow atomic.Uint64
	// asking is nil for endpoints without active checks.
	asking *asking
}

// tally counts results until the detector takes them.
type tally struct{ total, successes atomic.Uint64 }

func (t *tally) add(success bool) {
	t.total.Add(1)
	if success {
		t.successes.Add(1)
	}
}

func newKeeper(n *Node) *keeper {
	k := &keeper{n: n, ended: make(chan struct{}), watched: map[string]*watched{}, news: news{wake: make(chan struct{}, 1)}}
	k.members.Store(&pages[member]{})
	return k
}

// follow makes what is watched that of the configuration in force. Clusters that stay are left alone. Needs n.updates.
func (k *keeper) follow(cfg *model.Config) {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed := model.ChangeOf(k.followed, cfg.Clusters)
	k.followed = cfg.Clusters
	if !slices.ContainsFunc(changed.Added, isWatched) && !slices.ContainsFunc(changed.Removed, isWatched) {
		return
	}
	places, stays := k.n.directory.Load().clusters, map[string]bool{}
	edit := k.members.Load().edit()
	for _, c := range changed.Added {
		if !isWatched(c) {
			continue
		}
		stays[c.Name] = true
		w := k.watched[c.Name]
		if w == nil {
			w = &watched{name: c.Name}
			k.watched[c.Name] = w
		}
		before := w.members
		k.followClusterLocked(w, c, places[c.Name].endpoints)
		forget(edit, before)
		for _, m := range w.members {
			edit.set(m.index, m)
		}
	}
	var left []*watched
	for _, c := range changed.Removed {
		if w := k.watched[c.Name]; w != nil && !stays[c.Name] {
			delete(k.watched, c.Name)
			forget(edit, w.members)
			left = append(left, w)
		}
	}
	k.members.Store(&edit.next)
	for _, w := range left {
		k.forgetLocked(w)
	}
	k.news.ring()
}

// forget removes members whose indices are not others' by now.
func forget(edit *pagesEdit[member], members []*member) {
	for _, m := range members {
		if edit.next.at(m.index) == m {
			edit.set(m.index, nil)
		}
	}
}

// member is the watched endpoint of that index; nil: it is not watched.
func (k *keeper) member(index uint32) *member { return k.members.Load().at(index) }

func isWatched(c *model.Cluster) bool { return c.Outlier != nil || c.HealthCheck != nil }

func (k *keeper) followClusterLocked(w *watched, c *model.Cluster, entries []*reconcile.EndpointEntry) {
	sources := map[netip.AddrPort]model.Endpoint{}
	for _, e := range slices.Backward(c.Endpoints) {
		sources[netip.AddrPortFrom(e.Address.Addr().Unmap(), e.Address.Port())] = e
	}
	before := map[uint32]*member{}
	for _, m := range w.members {
		before[m.index] = m
	}
	w.members = nil
	for _, e := range entries {
		m := before[e.Index]
		if m == nil || m.address != e.Address {
			m = &member{cluster: w, index: e.Index, address: e.Address}
			m.seen = k.traffic.of(k.n.datapath.Shared, e.Index)
		} else {
			delete(before, e.Index)
		}
		w.members = append(w.members, m)
	}
	for _, m := range before {
		m.stopAsking()
	}
	k.detectLocked(w, c.Outlier)
	k.askLocked(w, c.HealthCheck, sources)
}

// forgetLocked ends the watch over a cluster. One that is still there has healthy endpoints from now on.
func (k *keeper) forgetLocked(w *watched) {
	for _, m := range w.members {
		m.stopAsking()
	}
	k.detectLocked(w, nil)
	k.askLocked(w, nil, nil)
}

// tellLocked has the balancing changed.
func (k *keeper) tellLocked(changes ...reconcile.HealthChange) {
	if len(changes) == 0 {
		return
	}
	if err := k.n.reconcil.SetHealth(changes...); err != nil {
		k.n.log.Error("health of endpoints is not in force yet", "err", err)
	}
}

// stop ends everything that runs for the keeper. Nothing may be followed any more.
func (k *keeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	select {
	case <-k.ended:
		return
	default:
		close(k.ended)
	}
	for _, w := range k.watched {
		for _, m := range w.members {
			m.stopAsking()
		}
	}
}

// run does what is due and what is new, until the keeper is stopped.
func (k *keeper) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-k.ended:
			return
		case <-k.news.wake:
		case <-timer.C:
		}
		timer.Reset(k.work(time.Now()))
	}
}

// idle is how long the keeper waits when nothing is due.
const idle = time.Minute

// work returns how long to wait then.
func (k *keeper) work(now time.Time) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	for index, heard := range k.news.take() {
		if m := k.member(index); m != nil && m.cluster.detector != nil {
			k.hearLocked(now, m, heard)
		}
	}
	wait := idle
	for _, w := range k.watched {
		if w.detector == nil {
			continue
		}
		if !w.due.After(now) {
			k.tickLocked(now, w)
		}
		wait = min(wait, w.due.Sub(now))
	}
	return wait
}

func draw(n uint64) uint64 { return rand.Uint64N(n) }

// sample is the traffic of all endpoints, which is too much to sum up for every cluster anew.
type sample struct {
	at      time.Time
	traffic []shared.Traffic
}

// sampleAge is how old a sample may be.
const sampleAge = 20 * time.Millisecond

func (s *sample) of(sh *shared.Shared, index uint32) shared.Traffic {
	if now := time.Now(); now.Sub(s.at) > sampleAge {
		s.at, s.traffic = now, sh.Traffic()
	}
	return s.traffic[index]
}

// news are what was learned of endpoints while the keeper slept, by their index. Whoever tells never waits for it.
type news struct {
	mu    sync.Mutex
	heard map[uint32]heard
	wake  chan struct{}
}

// heard is what is new of one endpoint.
type heard struct {
	reached shared.Outlier
	// connected came before failures, which came before refused.
	connected, failures, refused int
}

func (n *news) add(index uint32, h heard) {
	defer n.ring()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.heard == nil {
		n.heard = map[uint32]heard{}
	}
	sum := n.heard[index]
	sum.reached |= h.reached
	sum.connected += h.connected
	sum.failures += h.failures
	sum.refused += h.refused
	n.heard[index] = sum
}

// ring wakes the keeper.
func (n *news) ring() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *news) take() map[uint32]heard {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := maps.Clone(n.heard)
	n.heard = nil
	return all
}
