// SPDX-License-Identifier: Apache-2.0

package healthctl

import (
	"context"
	"log/slog"
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
	"github.com/xlb-project/xlb/internal/pages"
	"github.com/xlb-project/xlb/internal/reconcile"
)

// Config is what a Manager works with. All of it is needed, and safe for concurrent use.
type Config struct {
	Shared *shared.Shared
	Logger *slog.Logger
	// SetHealth puts changes in force.
	SetHealth func(changes ...reconcile.HealthChange) error
	// Returned reports an endpoint, by index, that is in service again, or has left it by its checks: connections to it may be tried at once.
	Returned func(endpoint uint32)
	// AwaitSecrets waits for the secrets that connections to an endpoint need. It reports false when the context ends first.
	AwaitSecrets func(ctx context.Context, tls *model.UpstreamTLS) bool
	// Dial is how a check of an endpoint of a view's cluster connects, by HTTP or without.
	Dial func(v model.View, e model.Endpoint, http bool) health.Dial
	// OthersServed reports whether clients of network namespaces other than the host's are served; nil: they are not.
	OthersServed func() bool
	// Spawn runs f on a goroutine. Its end is not waited for by the Manager.
	Spawn func(f func())
}

// Manager watches over the health of endpoints. Its methods are safe for concurrent use, but for Apply.
type Manager struct {
	cfg Config
	// ended is closed when the manager stops.
	ended chan struct{}
	// members are the watched endpoints by index, in a list that is never changed: results come on every slow request.
	members atomic.Pointer[pages.List[member]]
	events  endpointEvents

	mu sync.Mutex
	// watched clusters by key, all that is in them but the tallies, and traffic. Guarded by mu.
	watched map[model.ClusterKey]*watched
	traffic sample
	// applied are the clusters of the configuration in force.
	applied []*model.Cluster
}

// watched is a cluster with outlier detection or health checks.
type watched struct {
	view model.View
	key  model.ClusterKey
	// views are the names of those that have the cluster, for the log; empty: the shared one alone.
	views string
	// detector is nil without outlier_detection; it is to be woken at due.
	detector *health.Detector
	due      time.Time
	// split is split_external_local_origin_errors, for those who do not hold the lock.
	split   atomic.Bool
	check   *model.HealthCheck
	checks  checkStats
	members []*member
	// used: there have been requests; requestsSeen is their number when a refused connection was last counted.
	used         bool
	requestsSeen uint64
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
	// prober is nil for endpoints without active checks.
	prober *prober
	// isNew: nothing is known of it but its flags. Guarded by Manager.mu.
	isNew bool
}

// tally counts results until the detector takes them.
type tally struct{ total, successes atomic.Uint64 }

func (t *tally) add(success bool) {
	t.total.Add(1)
	if success {
		t.successes.Add(1)
	}
}

// New returns a manager that watches nothing.
func New(c Config) *Manager {
	mgr := &Manager{cfg: c, ended: make(chan struct{}), watched: map[model.ClusterKey]*watched{}, events: endpointEvents{wake: make(chan struct{}, 1)}}
	mgr.members.Store(&pages.List[member]{})
	return mgr
}

// Apply watches the clusters of the configuration in force. endpointsOf returns the endpoints of one. Clusters that stay are left alone. It is
// called by one goroutine at a time.
func (mgr *Manager) Apply(clusters []*model.Cluster, endpointsOf func(cluster model.ClusterKey) []*reconcile.EndpointEntry) {
	mgr.mu.Lock()
	defer mgr.mu.Unlock()
	changed := model.ChangeOf(mgr.applied, clusters)
	mgr.applied = clusters
	if !slices.ContainsFunc(changed.Added, isWatched) && !slices.ContainsFunc(changed.Removed, isWatched) {
		return
	}
	stays := map[model.ClusterKey]bool{}
	edit := mgr.members.Load().Edit()
	for _, c := range mgr.inOrderLocked(changed.Added) {
		stays[c.Key()] = true
		w := mgr.watched[c.Key()]
		if w == nil {
			w = &watched{key: c.Key()}
			mgr.watched[c.Key()] = w
		}
		w.view, w.views = c.View, viewsOf(c)
		before := w.members
		mgr.applyClusterLocked(w, c, endpointsOf(c.Key()))
		forget(edit, before)
		for _, m := range w.members {
			edit.Set(m.index, m)
		}
	}
	var left []*watched
	for _, c := range changed.Removed {
		if w := mgr.watched[c.Key()]; w != nil && !stays[c.Key()] {
			delete(mgr.watched, c.Key())
			forget(edit, w.members)
			left = append(left, w)
		}
	}
	mgr.members.Store(edit.List())
	for _, w := range left {
		mgr.forgetLocked(w)
	}
	mgr.events.wakeUp()
}

// inOrderLocked are those of some clusters that are to be watched. New ones are first: what one takes over of another is known there until that one changes too.
func (mgr *Manager) inOrderLocked(clusters []*model.Cluster) []*model.Cluster {
	var fresh, known []*model.Cluster
	for _, c := range clusters {
		switch {
		case !isWatched(c):
		case mgr.watched[c.Key()] == nil:
			fresh = append(fresh, c)
		default:
			known = append(known, c)
		}
	}
	return append(fresh, known...)
}

// forget removes members whose indices are not others' by now.
func forget(edit *pages.Edit[member], members []*member) {
	for _, m := range members {
		if edit.At(m.index) == m {
			edit.Set(m.index, nil)
		}
	}
}

// member is the watched endpoint of that index; nil: it is not watched.
func (mgr *Manager) member(index uint32) *member { return mgr.members.Load().At(index) }

func isWatched(c *model.Cluster) bool { return c.Outlier != nil || c.HealthCheck != nil }

func (mgr *Manager) applyClusterLocked(w *watched, c *model.Cluster, entries []*reconcile.EndpointEntry) {
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
			m = &member{cluster: w, index: e.Index, address: e.Address, isNew: true}
			m.seen = mgr.traffic.of(mgr.cfg.Shared, e.Index)
		} else {
			delete(before, e.Index)
		}
		w.members = append(w.members, m)
	}
	for _, m := range before {
		m.stopProber()
	}
	mgr.detectLocked(w, c.Outlier)
	mgr.probeLocked(w, c.HealthCheck, sources)
	if c.Common != nil {
		mgr.takeOverLocked(w, mgr.watched[c.Common.From])
	}
}

func viewsOf(c *model.Cluster) string {
	if views := c.SeenIn(); len(views) > 1 || views[0] != "" {
		return model.ViewsText(views)
	}
	return ""
}

// forgetLocked ends the watch over a cluster. One that is still there has healthy endpoints from now on.
func (mgr *Manager) forgetLocked(w *watched) {
	for _, m := range w.members {
		m.stopProber()
	}
	mgr.detectLocked(w, nil)
	mgr.probeLocked(w, nil, nil)
}

// publishLocked has the balancing changed.
func (mgr *Manager) publishLocked(changes ...reconcile.HealthChange) {
	if len(changes) == 0 {
		return
	}
	if err := mgr.cfg.SetHealth(changes...); err != nil {
		mgr.cfg.Logger.Error("health of endpoints is not in force yet", "err", err)
	}
}

// Stop ends everything that runs for the manager. Nothing may be applied any more.
func (mgr *Manager) Stop() {
	mgr.mu.Lock()
	defer mgr.mu.Unlock()
	select {
	case <-mgr.ended:
		return
	default:
		close(mgr.ended)
	}
	for _, w := range mgr.watched {
		for _, m := range w.members {
			m.stopProber()
		}
	}
}

// Run does what is due and what is new, until the manager is stopped.
func (mgr *Manager) Run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-mgr.ended:
			return
		case <-mgr.events.wake:
		case <-timer.C:
		}
		timer.Reset(mgr.work(time.Now()))
	}
}

// idle is how long the manager waits when nothing is due.
const idle = time.Minute

// work returns how long to wait then.
func (mgr *Manager) work(now time.Time) time.Duration {
	mgr.mu.Lock()
	defer mgr.mu.Unlock()
	for index, d := range mgr.events.take() {
		if m := mgr.judged(index); m != nil && m.cluster.detector != nil {
			mgr.takeLocked(now, m, d)
		}
	}
	wait := idle
	for _, w := range mgr.watched {
		if w.detector == nil {
			continue
		}
		if !w.due.After(now) {
			mgr.tickLocked(now, w)
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

// endpointEvents are what was learned of endpoints while Run slept, by their index. To add one never waits for Run.
type endpointEvents struct {
	mu      sync.Mutex
	learned map[uint32]delta
	wake    chan struct{}
}

// delta is what is new of one endpoint.
type delta struct {
	reached shared.Outlier
	// connected came before failures, which came before refused.
	connected, failures, refused int
}

func (n *endpointEvents) add(index uint32, h delta) {
	defer n.wakeUp()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.learned == nil {
		n.learned = map[uint32]delta{}
	}
	sum := n.learned[index]
	sum.reached |= h.reached
	sum.connected += h.connected
	sum.failures += h.failures
	sum.refused += h.refused
	n.learned[index] = sum
}

// wakeUp ends the wait of Manager.Run.
func (n *endpointEvents) wakeUp() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *endpointEvents) take() map[uint32]delta {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := maps.Clone(n.learned)
	n.learned = nil
	return all
}
