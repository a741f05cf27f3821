// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"slices"
	"sync"

	"github.com/xlb-project/xlb/internal/shares"
)

// closings are connections that their clients have left, by tenant. To close one takes some 20 us, and a client that ends may leave thousands at once: so the
// poller, which all clients share, closes none, and each tenant's are closed at that tenant's expense.
type closings struct {
	mu sync.Mutex
	// waiting has an entry for each tenant whose connections a goroutine closes. Guarded by mu.
	waiting map[shares.Path]*leavers
}

func newClosings() closings { return closings{waiting: map[shares.Path]*leavers{}} }

// leavers are connections of one tenant, the first to be closed first. The leases of the first freed ones have been ended.
type leavers struct {
	conns []*Conn
	freed int
}

// add has a connection closed. It reports whether no goroutine closes those of its tenant yet.
func (w *closings) add(c *Conn) (first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l, ok := w.waiting[c.tenant]
	if !ok {
		l = &leavers{}
		w.waiting[c.tenant] = l
	}
	l.conns = append(l.conns, c)
	return !ok
}

// next takes the first of a tenant's connections. It returns how many have waited, that one too, and those of them whose leases may run still, each once; these leases
// end before the next call. Where none waits it returns nil, and the goroutine that closes them is to end.
func (w *closings) next(of shares.Path) (first *Conn, waiting int, held []*Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.waiting[of]
	waiting = len(l.conns)
	if waiting == 0 {
		delete(w.waiting, of)
		return nil, 0, nil
	}
	first, held = l.conns[0], slices.Clone(l.conns[l.freed:])
	l.conns[0] = nil
	l.conns = l.conns[1:]
	l.freed = len(l.conns)
	return first, waiting, held
}

// closeSoon closes a connection that its client has left. It does not wait. Once the set closes, that closes all.
func (s *Set) closeSoon(c *Conn) {
	if s.closings.add(c) {
		s.Go(func() { s.closeAllOf(c.tenant) })
	}
}

// manyClosings is how many of a tenant's may wait. More are closed even while others have the tenant's time: each has a descriptor, which counts for its tenant
// no more.
const manyClosings = 1024

// closeAllOf closes a tenant's connections until no more wait. Between two of them others are served. Their leases end before that: others may wait for what
// those hold, an i-sock or what a cluster may have at a time.
func (s *Set) closeAllOf(tenant shares.Path) {
	ticket := s.cfg.Scheduler.Ticket(tenant)
	defer ticket.Yield()
	for {
		first, waiting, held := s.closings.next(tenant)
		if first == nil {
			return
		}
		for _, c := range held {
			c.free()
		}
		if waiting <= manyClosings && s.ctx.Err() == nil {
			ticket.Reschedule()
		}
		first.closeLeft()
	}
}

// free ends the lease of a connection that waits to be closed.
func (c *Conn) free() {
	defer c.set.cfg.Crashes.Recover("a client's connection", c.resetUsed)
	if c.bound == nil && !c.isClosed() {
		c.endLease()
	}
}

// closeLeft closes a connection, of which a panic ends that one alone.
func (c *Conn) closeLeft() {
	defer c.set.cfg.Crashes.Recover("a client's connection", c.resetUsed)
	if c.closeUnused() {
		return
	}
	// The goroutine that uses it may wait for the endpoint of a tunnel, whose lease has been ended.
	c.spawn(c.close)
}

// closeUnused closes a connection, unless a goroutine uses it: then it reports false.
func (c *Conn) closeUnused() bool {
	if !c.writeMu.TryLock() {
		return false
	}
	defer c.writeMu.Unlock()
	c.closeLocked()
	return true
}
