// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"sync"
	"time"
)

const (
	// Levels of the tree of tenants below its root.
	Levels = 3
	// Quantum is how long a turn may last while others wait, and how often that is looked at.
	Quantum = time.Millisecond
	// smallest is what a turn costs if it takes less. It is charged when the turn begins, so that those
	// of one tenant that begin together count before the first of them has ended.
	smallest = 20 * time.Microsecond
	// manyTenants is how many are remembered that want nothing at the moment: without them, who comes
	// again begins as if new.
	manyTenants = 4096
)

// Path says whose work it is: the outermost group first, 0 behind the last one.
type Path [Levels]uint64

// Limits of a Desk.
type Limits struct {
	// AtWork is how many work at a time, at least 1.
	AtWork int
	// Waiting is how many new pieces of work of one tenant wait for a turn, and twice that of an inner
	// branch of the tree.
	Waiting int
}

// Counts are those of a Desk since its beginning, but for the last two.
type Counts struct {
	// Begun pieces of work, those that were Refused, and turns that others had to wait for, or that
	// were Ended before their holder gave them up.
	Begun, Refused, Waited, Ended uint64
	// Worked is the time of all turns together.
	Worked time.Duration
	// Waiting for a turn are so many at the moment, and Tenants have a turn or wait for one.
	Waiting, Tenants int
}

// Desk is where those who work take turns. It is safe for concurrent use.
type Desk struct {
	limits Limits

	mu sync.Mutex
	// All is guarded by mu.
	root    node
	holders []*Turn
	// nodes of the tree, and beyond how many those are dropped that want nothing.
	nodes, forgetAt int
	counts          Counts
	watching        bool
}

// NewDesk returns one where nobody works.
func NewDesk(l Limits) *Desk { return &Desk{limits: l, forgetAt: manyTenants} }

// Counts returns the current ones.
func (d *Desk) Counts() Counts {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.counts
	c.Waiting, c.Tenants = d.root.waiting, d.root.leavesInUse()
	now := time.Now()
	for _, t := range d.holders {
		c.Worked += max(now.Sub(t.since)-smallest, 0)
	}
	return c
}

// enqueue gives a turn, or a place in the queue of its tenant. A new piece of work is refused where too
// many wait: then nothing has changed.
func (d *Desk) enqueue(t *Turn, isNew bool) (granted <-chan struct{}, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if isNew && t.state == resting && d.isFull(t.path) {
		d.counts.Refused++
		return nil, false
	}
	if isNew {
		d.counts.Begun++
	}
	// What comes next on one connection comes behind what others have asked meanwhile.
	if isNew && t.state == holding && d.root.waiting > 0 {
		d.take(t, time.Now())
	}
	switch t.state {
	case holding:
		return nil, true
	case waiting:
		return t.granted, true
	}
	t.leaf = d.leafOf(t.path)
	t.leaf.enter()
	if len(d.holders) < d.limits.AtWork {
		d.give(t)
		return nil, true
	}
	d.counts.Waited++
	t.state, t.granted = waiting, make(chan struct{})
	t.leaf.push(t)
	if !d.watching {
		d.watching = true
		go d.watch()
	}
	return t.granted, true
}

// isFull reports whether as many wait for a turn as may, of the tenant or of a branch that it is on.
func (d *Desk) isFull(p Path) bool {
	if len(d.holders) < d.limits.AtWork {
		return false
	}
	n := &d.root
	for _, id := range p {
		if n = n.branches[id]; n == nil {
			return d.limits.Waiting == 0
		}
		limit := d.limits.Waiting
		if len(n.branches) > 0 {
			limit *= 2
		}
		if n.waiting >= limit {
			return true
		}
	}
	return false
}

// give makes it the turn of one that is not waiting any more.
func (d *Desk) give(t *Turn) {
	t.state, t.since = holding, time.Now()
	d.holders = append(d.holders, t)
	t.leaf.begin(smallest)
	d.counts.Worked += smallest
}

// take ends a turn, charges what it took, and gives turns to those who wait.
func (d *Desk) take(t *Turn, now time.Time) {
	for i, holder := range d.holders {
		if holder == t {
			last := len(d.holders) - 1
			d.holders[i], d.holders[last] = d.holders[last], nil
			d.holders = d.holders[:last]
			break
		}
	}
	if rest := now.Sub(t.since) - smallest; rest > 0 {
		t.leaf.charge(rest)
		d.counts.Worked += rest
	}
	t.leaf.leave()
	t.state, t.leaf = resting, nil
	d.giveNext()
}

func (d *Desk) giveNext() {
	for len(d.holders) < d.limits.AtWork && d.root.waiting > 0 {
		t := d.root.next()
		granted := t.granted
		t.granted = nil
		d.give(t)
		close(granted)
	}
}

// rest gives a turn up.
func (d *Desk) rest(t *Turn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t.state == holding {
		d.take(t, time.Now())
	}
}

// yield gives a turn up that somebody else waits for.
func (d *Desk) yield(t *Turn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t.state == holding && d.root.waiting > 0 {
		d.take(t, time.Now())
	}
}

// watch ends turns that last too long, while others wait.
func (d *Desk) watch() {
	tick := time.NewTicker(Quantum)
	defer tick.Stop()
	for now := range tick.C {
		if !d.endLongTurns(now) {
			return
		}
	}
}

func (d *Desk) endLongTurns(now time.Time) (goesOn bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := 0; i < len(d.holders) && d.root.waiting > 0; {
		if t := d.holders[i]; now.Sub(t.since) >= Quantum {
			d.counts.Ended++
			d.take(t, now)
			continue // another one stands in its place
		}
		i++
	}
	d.watching = d.root.waiting > 0
	return d.watching
}

// leafOf finds a tenant, or makes one.
func (d *Desk) leafOf(p Path) *node {
	if d.nodes > d.forgetAt {
		d.nodes -= d.root.forget()
		d.forgetAt = max(manyTenants, 2*d.nodes)
	}
	n := &d.root
	for _, id := range p {
		next := n.branches[id]
		if next == nil {
			next = &node{parent: n}
			if n.branches == nil {
				n.branches = map[uint64]*node{}
			}
			n.branches[id] = next
			d.nodes++
		}
		n = next
	}
	return n
}
