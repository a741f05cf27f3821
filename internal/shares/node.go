// SPDX-License-Identifier: Apache-2.0

package shares

import "time"

// node is a tenant, or a branch with several. All are guarded by the mu of their Scheduler.
type node struct {
	parent   *node
	branches map[uint64]*node
	// had is how long its tickets have run so far. now is had of the branch that was chosen last: a branch
	// without tickets for a while does not save up what the others have had meanwhile.
	had, now time.Duration
	// users is how many tickets run or wait, here or below.
	users int
	// waiting is how many wait; queue has those of a leaf, the first of them at head.
	waiting int
	queue   []*Ticket
	head    int
	// busy are the branches in which some wait, in no order. at is where this one stands in its
	// parent's list.
	busy []*node
	at   int
}

// enter counts one more ticket that runs or waits.
func (n *node) enter() {
	for ; n.parent != nil; n = n.parent {
		if n.users == 0 {
			n.had = max(n.had, n.parent.now)
		}
		n.users++
	}
}

func (n *node) leave() {
	for ; n.parent != nil; n = n.parent {
		n.users--
	}
}

// begin charges the minimum for a ticket that starts.
func (n *node) begin(d time.Duration) {
	for ; n.parent != nil; n = n.parent {
		n.parent.now = max(n.parent.now, n.had)
		n.had += d
	}
}

func (n *node) charge(d time.Duration) {
	for ; n.parent != nil; n = n.parent {
		n.had += d
	}
}

// push puts a ticket last in the queue of a leaf.
func (n *node) push(t *Ticket) {
	n.queue = append(n.queue, t)
	for ; ; n = n.parent {
		n.waiting++
		if n.parent == nil {
			return
		}
		if n.waiting == 1 {
			n.at = len(n.parent.busy)
			n.parent.busy = append(n.parent.busy, n)
		}
	}
}

// next takes the first ticket of the tenant that has had the least. At least one must wait.
func (n *node) next() *Ticket {
	n.waiting--
	if len(n.busy) == 0 {
		return n.pop()
	}
	least := n.busy[0]
	for _, b := range n.busy[1:] {
		if b.had < least.had {
			least = b
		}
	}
	t := least.next()
	if least.waiting == 0 {
		last := len(n.busy) - 1
		n.busy[least.at] = n.busy[last]
		n.busy[least.at].at = least.at
		n.busy[last] = nil
		n.busy = n.busy[:last]
	}
	return t
}

// pop takes the first of a leaf's queue.
func (n *node) pop() *Ticket {
	t := n.queue[n.head]
	n.queue[n.head] = nil
	n.head++
	if n.head == len(n.queue) {
		n.queue, n.head = n.queue[:0], 0
	}
	if n.head > len(n.queue)/2 {
		n.queue, n.head = append(n.queue[:0], n.queue[n.head:]...), 0
	}
	return t
}

// forget drops branches without tickets, and returns how many.
func (n *node) forget() (dropped int) {
	for id, b := range n.branches {
		dropped += b.forget()
		if b.users == 0 {
			delete(n.branches, id)
			dropped++
		}
	}
	return dropped
}

func (n *node) leavesInUse() (count int) {
	for _, b := range n.branches {
		switch {
		case b.users == 0:
		case len(b.branches) == 0:
			count++
		default:
			count += b.leavesInUse()
		}
	}
	return count
}
