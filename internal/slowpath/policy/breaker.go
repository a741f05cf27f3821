// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/workload"
)

// ErrOverflow says that a circuit breaker is open.
var ErrOverflow = errors.New("a circuit breaker of the cluster is open")

// Load is how many requests an account has in flight to a cluster, which the fast path counts as well. Loads of the same count are equal.
type Load interface {
	// Enter counts one more, unless limit are in flight. leave takes it back, once.
	Enter(limit uint32) (leave func(), ok bool)
	// Active is the count.
	Active() uint32
	// Hold keeps the fast path from taking the places of requests that wait, until release is called, once.
	Hold() (release func())
}

// Loads are those of all accounts and clusters.
type Loads interface {
	// Of is that of an account's requests to a cluster; nil for a cluster that the fast path does not know.
	Of(cluster model.ClusterKey, account workload.ID) Load
	// Fullest is how many requests to a cluster that account has in flight that has most, at this moment.
	Fullest() func(cluster model.ClusterKey) uint32
}

// gateKey names the gates of a cluster and priority.
type gateKey struct {
	cluster  model.ClusterKey
	priority model.Priority
}

// CircuitBreakers are those of all clusters. Each account has its own, as if it had an Envoy of its own.
type CircuitBreakers struct {
	loads Loads

	mu       sync.Mutex               // guards the rest
	accounts map[workload.ID]*account // that have gates
	tallies  map[model.ClusterKey]*Tally
}

// account has the gates of one.
type account struct {
	gates map[gateKey]*gate // guarded by CircuitBreakers.mu
	// polling is how many of them poll.
	polling atomic.Int64
}

// NewCircuitBreakers returns those of clusters whose requests loads count; where it has none, for another priority than the default one, and where loads is nil,
// the fast path counts nothing.
func NewCircuitBreakers(loads Loads) *CircuitBreakers {
	return &CircuitBreakers{loads: loads, accounts: map[workload.ID]*account{}, tallies: map[model.ClusterKey]*Tally{}}
}

// Tally is the cluster's; the first call makes it.
func (g *CircuitBreakers) Tally(cluster model.ClusterKey) *Tally {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tallies[cluster] == nil {
		g.tallies[cluster] = &Tally{}
	}
	return g.tallies[cluster]
}

// locked is the gate of an account; the first call makes it. The caller unlocks it: until then Sweep does not forget it. A gate is not waited for with mu
// held: requests of one account, of which many wait, would keep those of all others waiting.
func (g *CircuitBreakers) locked(key gateKey, account workload.ID) *gate {
	for {
		gate := g.of(key, account)
		gate.mu.Lock()
		if !gate.forgotten {
			return gate
		}
		gate.mu.Unlock()
	}
}

func (g *CircuitBreakers) of(key gateKey, id workload.ID) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.accounts[id]
	if a == nil {
		a = &account{gates: map[gateKey]*gate{}}
		g.accounts[id] = a
	}
	if a.gates[key] == nil {
		own := &ownLoad{}
		a.gates[key] = &gate{account: a, load: func() Load { return g.loadOf(key, id, own) }}
	}
	return a.gates[key]
}

// gatesOf are those of a cluster and priority.
func (g *CircuitBreakers) gatesOf(key gateKey) (list []*gate) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, a := range g.accounts {
		if gate := a.gates[key]; gate != nil {
			list = append(list, gate)
		}
	}
	return list
}

// Sweep forgets accounts that have no request here, and what limits of clusters have done that are not there any more.
func (g *CircuitBreakers) Sweep(exists func(cluster model.ClusterKey) bool) {
	for _, id := range g.sweepTallies(exists) {
		g.sweepGates(id)
	}
}

// sweepTallies returns whose gates are to be swept.
func (g *CircuitBreakers) sweepTallies(exists func(cluster model.ClusterKey) bool) []workload.ID {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.tallies, func(cluster model.ClusterKey, _ *Tally) bool { return !exists(cluster) })
	return slices.Collect(maps.Keys(g.accounts))
}

// sweepGates holds mu for no longer than the gates of one account take: requests of all others wait meanwhile.
func (g *CircuitBreakers) sweepGates(id workload.ID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.accounts[id]
	if a == nil {
		return
	}
	if maps.DeleteFunc(a.gates, func(_ gateKey, gate *gate) bool { return gate.forget() }); len(a.gates) == 0 {
		delete(g.accounts, id)
	}
}

// loadOf is shared with the kernel, which serves the default priority alone.
func (g *CircuitBreakers) loadOf(key gateKey, account workload.ID, own Load) Load {
	if key.priority != model.PriorityDefault || g.loads == nil {
		return own
	}
	if l := g.loads.Of(key.cluster, account); l != nil {
		return l
	}
	return own
}

// gate lets requests of an account to a cluster pass, in the order of their coming.
type gate struct {
	// load is the count that is in force: that of another cluster once one of the same name has taken the place of the one before.
	load func() Load

	account *account

	mu      sync.Mutex
	waiting []*waiter // guarded by mu
	// inFlight counts requests that have passed, and have not left. Guarded by mu.
	inFlight int
	retries  uint64 // guarded by mu
	polling  bool   // guarded by mu
	// forgotten: there is another one in its place, or none. Guarded by mu.
	forgotten bool
}

// waiter is a request for which there is no connection.
type waiter struct {
	limit    uint32
	admitted chan func()
}

const (
	// pollInterval is how soon the end of a request on the fast path is noticed, which nobody tells of.
	pollInterval = time.Millisecond
	// pollShare bounds how often the gates of one account look, all together: with more than ten of them each looks less often. One that has requests wait
	// at thousands of clusters would take a processor for itself.
	pollShare = 100 * time.Microsecond
)

// pollPace is how often each of so many gates of an account looks.
func pollPace(gates int64) time.Duration { return max(pollInterval, time.Duration(gates)*pollShare) }

// await waits until the gate lets a waiter pass; why ctx has ended says that the request must not be sent.
func (g *gate) await(ctx context.Context, w *waiter) (leave func(), err error) {
	select {
	case leave := <-w.admitted:
		return leave, nil
	case <-ctx.Done():
	}
	g.abandon(w)
	select {
	case leave := <-w.admitted: // at this moment
		leave()
	default:
	}
	return nil, context.Cause(ctx)
}

func (g *gate) abandon(w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(other *waiter) bool { return other == w })
}

// passOrWait returns a waiter where the request has to wait. The caller holds mu.
func (g *gate) passOrWait(b *model.Breakers) (w *waiter, leave func(), err error) {
	load := g.load()
	if len(g.waiting) == 0 {
		if leave, ok := load.Enter(b.InUse()); ok {
			return nil, g.leaverLocked(leave), nil
		}
	}
	if !b.Waits() || uint64(len(g.waiting)) >= uint64(b.MaxPending) {
		return nil, nil, ErrOverflow
	}
	w = &waiter{b.InUse(), make(chan func(), 1)}
	g.waiting = append(g.waiting, w)
	if !g.polling {
		g.polling = true
		g.account.polling.Add(1)
		go g.poll(load, load.Hold())
	}
	return w, nil, nil
}

// leaverLocked counts a request that passes. The leaver takes it from the count, and lets the next one pass.
func (g *gate) leaverLocked(leave func()) func() {
	g.inFlight++
	return func() {
		leave()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.inFlight--
		g.passLocked(g.load())
	}
}

// passLocked lets those pass that can.
func (g *gate) passLocked(load Load) {
	for len(g.waiting) > 0 {
		leave, ok := load.Enter(g.waiting[0].limit)
		if !ok {
			return
		}
		g.waiting[0].admitted <- g.leaverLocked(leave)
		g.waiting = g.waiting[1:]
	}
}

// poll runs while requests wait, and holds the count that is in force.
func (g *gate) poll(held Load, release func()) {
	defer g.account.polling.Add(-1)
	for {
		time.Sleep(pollPace(g.account.polling.Load()))
		if now := g.load(); now != held {
			release()
			held, release = now, now.Hold()
		}
		if g.pollOnce(held, release) {
			return
		}
	}
}

func (g *gate) pollOnce(load Load, release func()) (done bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passLocked(load)
	if len(g.waiting) > 0 {
		return false
	}
	g.polling = false
	release()
	return true
}

// forget reports whether the gate is to be forgotten: no request waits, or has passed and not left. One that is locked has a request at this moment.
func (g *gate) forget() bool {
	if !g.mu.TryLock() {
		return false
	}
	defer g.mu.Unlock()
	g.forgotten = len(g.waiting) == 0 && !g.polling && g.inFlight == 0
	return g.forgotten
}

// enterRetry counts a retry, unless there are as many as there may be.
func (g *gate) enterRetry(b *model.Breakers) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.retries >= b.RetriesAt(uint64(g.load().Active())+uint64(len(g.waiting))) {
		return false
	}
	g.retries++
	return true
}

func (g *gate) leaveRetry() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.retries--
}

// ownLoad is a count that nobody shares.
type ownLoad struct{ active atomic.Uint32 }

// Enter implements Load.
func (l *ownLoad) Enter(limit uint32) (leave func(), ok bool) {
	for {
		active := l.active.Load()
		if active >= limit {
			return nil, false
		}
		if l.active.CompareAndSwap(active, active+1) {
			return func() { l.active.Add(math.MaxUint32) }, true
		}
	}
}

// Active implements Load.
func (l *ownLoad) Active() uint32 { return l.active.Load() }

// Hold implements Load.
func (l *ownLoad) Hold() (release func()) { return func() {} }
