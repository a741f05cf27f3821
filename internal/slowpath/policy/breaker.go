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
)

// ErrOverflow says that a circuit breaker is open.
var ErrOverflow = errors.New("a circuit breaker of the cluster is open")

// Load is the count of a cluster's requests in flight, which the fast path shares. Loads of the same count are equal.
type Load interface {
	// Enter counts one more, unless limit are in flight. leave takes it back, once.
	Enter(limit uint32) (leave func(), ok bool)
	// Active is the count.
	Active() uint32
	// Hold keeps the fast path from taking the places of requests that wait.
	Hold(bool)
}

// gateKey names a gate: each priority of a cluster has its own.
type gateKey struct {
	cluster  string
	priority model.Priority
}

// CircuitBreakers are those of all clusters.
type CircuitBreakers struct {
	load func(cluster string) Load

	mu      sync.Mutex        // guards the rest
	all     map[gateKey]*gate // of clusters that have been asked for
	tallies map[string]*Tally
}

// NewCircuitBreakers returns those of clusters whose requests load counts; where it returns nil, or for another priority than the default one,
// the count is shared with no other.
func NewCircuitBreakers(load func(cluster string) Load) *CircuitBreakers {
	return &CircuitBreakers{load: load, all: map[gateKey]*gate{}, tallies: map[string]*Tally{}}
}

// Tally is the cluster's; the first call makes it.
func (g *CircuitBreakers) Tally(cluster string) *Tally {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tallies[cluster] == nil {
		g.tallies[cluster] = &Tally{}
	}
	return g.tallies[cluster]
}

func (g *CircuitBreakers) of(cluster string, p model.Priority) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := gateKey{cluster, p}
	if g.all[key] == nil {
		own := &ownLoad{}
		g.all[key] = &gate{own: own, load: func() Load { return g.loadOf(cluster, p, own) }}
	}
	return g.all[key]
}

// Sweep forgets clusters that are not there any more, and says whether it is done: a circuit breaker stays while requests have to do with it.
func (g *CircuitBreakers) Sweep(exists func(cluster string) bool) (done bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.tallies, func(cluster string, _ *Tally) bool { return !exists(cluster) })
	done = true
	maps.DeleteFunc(g.all, func(key gateKey, gate *gate) bool {
		switch {
		case exists(key.cluster):
			return false
		case gate.isBusy():
			done = false
			return false
		}
		return true
	})
	return done
}

// loadOf is shared with the kernel, which serves the default priority alone.
func (g *CircuitBreakers) loadOf(cluster string, p model.Priority, own Load) Load {
	if p != model.PriorityDefault || g.load == nil {
		return own
	}
	if l := g.load(cluster); l != nil {
		return l
	}
	return own
}

// gate lets requests to a cluster pass, in the order of their coming.
type gate struct {
	own *ownLoad
	// load is the count that is in force: that of another cluster once one of the same name has taken the place of the one before.
	load func() Load

	mu      sync.Mutex
	waiting []*waiter // guarded by mu
	retries uint64    // guarded by mu
	polling bool      // guarded by mu
}

// waiter is a request for which there is no connection.
type waiter struct {
	limit    uint32
	admitted chan func()
}

// pollInterval is how soon the end of a request on the fast path is noticed, which nobody tells of.
const pollInterval = time.Millisecond

// enter counts a request, or waits until it can; ErrOverflow, or why ctx has ended, says that it must not be sent.
func (g *gate) enter(ctx context.Context, b *model.Breakers) (leave func(), err error) {
	w, leave, err := g.passOrWait(b)
	if w == nil {
		return leave, err
	}
	select {
	case leave := <-w.admitted:
		return leave, nil
	case <-ctx.Done():
	}
	g.forget(w)
	select {
	case leave := <-w.admitted: // at this moment
		leave()
	default:
	}
	return nil, context.Cause(ctx)
}

func (g *gate) forget(w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(other *waiter) bool { return other == w })
}

// passOrWait returns a waiter where the request has to wait.
func (g *gate) passOrWait(b *model.Breakers) (w *waiter, leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	load := g.load()
	if len(g.waiting) == 0 {
		if load, leave = g.count(load, b.InUse()); leave != nil {
			return nil, g.leaver(leave), nil
		}
	}
	if !b.Waits() || uint64(len(g.waiting)) >= uint64(b.MaxPending) {
		return nil, nil, ErrOverflow
	}
	w = &waiter{b.InUse(), make(chan func(), 1)}
	g.waiting = append(g.waiting, w)
	if !g.polling {
		g.polling = true
		load.Hold(true)
		go g.poll(load)
	}
	return w, nil, nil
}

// count enters the count that is in force, and returns which that is; leave is nil where as many are in flight. One that has been replaced meanwhile
// takes nobody in, which says nothing of the cluster.
func (g *gate) count(load Load, limit uint32) (now Load, leave func()) {
	for {
		leave, ok := load.Enter(limit)
		if ok {
			return load, leave
		}
		if now = g.load(); now == load {
			return load, nil
		}
		load = now
	}
}

// leaver takes a request from the count, and lets the next one pass.
func (g *gate) leaver(leave func()) func() {
	return func() {
		leave()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.passLocked(g.load())
	}
}

// passLocked lets pass whoever can.
func (g *gate) passLocked(load Load) {
	for len(g.waiting) > 0 {
		leave, ok := load.Enter(g.waiting[0].limit)
		if !ok {
			return
		}
		g.waiting[0].admitted <- g.leaver(leave)
		g.waiting = g.waiting[1:]
	}
}

// poll runs while requests wait, and holds the count that is in force.
func (g *gate) poll(held Load) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for range tick.C {
		now := g.load()
		if now != held {
			held.Hold(false)
			now.Hold(true)
			held = now
		}
		if g.pollOnce(held) {
			return
		}
	}
}

func (g *gate) pollOnce(load Load) (done bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.passLocked(load)
	if len(g.waiting) > 0 {
		return false
	}
	g.polling = false
	load.Hold(false)
	return true
}

// isBusy reports whether a request waits, is counted here, or is sent again.
func (g *gate) isBusy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting) > 0 || g.polling || g.retries > 0 || g.own.Active() > 0
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
func (l *ownLoad) Hold(bool) {}
