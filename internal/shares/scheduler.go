// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"sync"
	"time"
)

const (
	// Levels of the tree of tenants below its root.
	Levels = 3
	// Quantum is how long a ticket may run while others wait, and how often that is checked.
	Quantum = time.Millisecond
	// smallest is charged for a ticket that runs for less. It is charged when the ticket starts, so that those
	// of one tenant that start together count before the first of them has stopped.
	smallest = 20 * time.Microsecond
	// manyTenants is how many are remembered without a ticket that runs or waits: a tenant that is forgotten
	// begins as if new.
	manyTenants = 4096
)

// Path names the tenant that work is done for: the outermost group first, 0 behind the last one.
type Path [Levels]uint64

// Limits of a Scheduler.
type Limits struct {
	// AtWork is how many tickets run at a time, at least 1.
	AtWork int
	// Waiting is how many tickets of one tenant wait with new work, and twice that of an inner
	// branch of the tree.
	Waiting int
}

// Counts are those of a Scheduler since its beginning, but for the last two.
type Counts struct {
	// Started is how many pieces of work began, Refused how many were refused, Waited how often a ticket had to
	// wait, and Ended how often one was stopped before it yielded.
	Started, Refused, Waited, Ended uint64
	// Worked is the time that all tickets have run.
	Worked time.Duration
	// Waiting is how many tickets wait at the moment, Tenants how many tenants have one that runs or waits.
	Waiting, Tenants int
}

// Scheduler decides which tickets run. It is safe for concurrent use.
type Scheduler struct {
	limits Limits

	mu sync.Mutex
	// All is guarded by mu.
	root    node
	running []*Ticket
	// nodes of the tree, and beyond how many those are dropped that have no ticket.
	nodes, forgetAt int
	counts          Counts
	watching        bool
}

// NewScheduler returns one without tickets.
func NewScheduler(l Limits) *Scheduler { return &Scheduler{limits: l, forgetAt: manyTenants} }

// Counts returns the current ones.
func (s *Scheduler) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Waiting, c.Tenants = s.root.waiting, s.root.leavesInUse()
	now := time.Now()
	for _, t := range s.running {
		c.Worked += max(now.Sub(t.since)-smallest, 0)
	}
	return c
}

// enqueue starts a ticket, or puts it into the queue of its tenant. A new piece of work is refused where too
// many wait: then nothing has changed.
func (s *Scheduler) enqueue(t *Ticket, isNew bool) (granted <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isNew && t.state == idle && s.isFull(t.path) {
		s.counts.Refused++
		return nil, false
	}
	if isNew {
		s.counts.Started++
	}
	// The next request of a connection comes behind those of others that wait.
	if isNew && t.state == running && s.root.waiting > 0 {
		s.stop(t, time.Now())
	}
	switch t.state {
	case running:
		return nil, true
	case waiting:
		return t.granted, true
	}
	t.leaf = s.leafOf(t.path)
	t.leaf.enter()
	if len(s.running) < s.limits.AtWork {
		s.grant(t)
		return nil, true
	}
	s.counts.Waited++
	t.state, t.granted = waiting, make(chan struct{})
	t.leaf.push(t)
	if !s.watching {
		s.watching = true
		go s.watch()
	}
	return t.granted, true
}

// isFull reports whether as many tickets wait as may, of the tenant or of a branch that it is on.
func (s *Scheduler) isFull(p Path) bool {
	if len(s.running) < s.limits.AtWork {
		return false
	}
	n := &s.root
	for _, id := range p {
		if n = n.branches[id]; n == nil {
			return s.limits.Waiting == 0
		}
		limit := s.limits.Waiting
		if len(n.branches) > 0 {
			limit *= 2
		}
		if n.waiting >= limit {
			return true
		}
	}
	return false
}

// grant starts a ticket, which is not in a queue any more.
func (s *Scheduler) grant(t *Ticket) {
	t.state, t.since = running, time.Now()
	s.running = append(s.running, t)
	t.leaf.begin(smallest)
	s.counts.Worked += smallest
}

// stop charges the time that a ticket has run, and starts those that wait.
func (s *Scheduler) stop(t *Ticket, now time.Time) {
	for i, other := range s.running {
		if other == t {
			last := len(s.running) - 1
			s.running[i], s.running[last] = s.running[last], nil
			s.running = s.running[:last]
			break
		}
	}
	ran := now.Sub(t.since)
	if t.meter != nil && ran > 0 {
		t.meter.Worked(ran)
	}
	if unpaid := ran - smallest; unpaid > 0 {
		t.leaf.charge(unpaid)
		s.counts.Worked += unpaid
	}
	t.leaf.leave()
	t.state, t.leaf = idle, nil
	s.grantNext()
}

func (s *Scheduler) grantNext() {
	for len(s.running) < s.limits.AtWork && s.root.waiting > 0 {
		t := s.root.next()
		granted := t.granted
		t.granted = nil
		s.grant(t)
		close(granted)
	}
}

// yield stops a ticket that runs.
func (s *Scheduler) yield(t *Ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.state == running {
		s.stop(t, time.Now())
	}
}

// yieldToWaiting stops a ticket that runs while others wait.
func (s *Scheduler) yieldToWaiting(t *Ticket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.state == running && s.root.waiting > 0 {
		s.stop(t, time.Now())
	}
}

// watch stops tickets that run too long, while others wait.
func (s *Scheduler) watch() {
	tick := time.NewTicker(Quantum)
	defer tick.Stop()
	for now := range tick.C {
		if !s.stopLongRunning(now) {
			return
		}
	}
}

func (s *Scheduler) stopLongRunning(now time.Time) (goesOn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 0; i < len(s.running) && s.root.waiting > 0; {
		if t := s.running[i]; now.Sub(t.since) >= Quantum {
			s.counts.Ended++
			s.stop(t, now)
			continue // another one stands at this index
		}
		i++
	}
	s.watching = s.root.waiting > 0
	return s.watching
}

// leafOf finds a tenant, or makes one.
func (s *Scheduler) leafOf(p Path) *node {
	if s.nodes > s.forgetAt {
		s.nodes -= s.root.forget()
		s.forgetAt = max(manyTenants, 2*s.nodes)
	}
	n := &s.root
	for _, id := range p {
		next := n.branches[id]
		if next == nil {
			next = &node{parent: n}
			if n.branches == nil {
				n.branches = map[uint64]*node{}
			}
			n.branches[id] = next
			s.nodes++
		}
		n = next
	}
	return n
}
