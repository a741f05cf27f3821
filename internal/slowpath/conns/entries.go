// SPDX-License-Identifier: Apache-2.0

package conns

import (
	"container/list"
	"slices"
)

// admit takes an entry of Config.Idle for a connection. Where its group, or its account, has as many as it may, another connection of it closes, whose
// entry that is from then on. It reports false where the account has no other, or has more than its part since others have come: it gives them back one by one.
// It needs mu.
func (p *Pool) admit(c *Conn) bool {
	at := c.peer.group
	c.account = p.joined[at.workload]
	if len(p.conns[at]) >= p.config.PerEndpoint {
		_ = p.unlink(at, p.leastNeeded(c.peer)).Close()
		return true
	}
	if p.config.Idle.Take(c.account) {
		return true
	}
	used := p.used[c.account]
	if used == nil {
		return false
	}
	oldest := used.Front().Value.(*Conn)
	// Of its group it is the first, too.
	_ = p.unlink(oldest.peer.group, slices.Index(p.conns[oldest.peer.group], oldest)).Close()
	if p.config.Idle.Exceeds(c.account) {
		p.config.Idle.Return(c.account)
		return false
	}
	return true
}

// link puts a connection that has an entry behind those of its group and of its account. It needs mu.
func (p *Pool) link(c *Conn) {
	at := c.peer.group
	p.conns[at] = append(p.conns[at], c)
	if p.used[c.account] == nil {
		p.used[c.account] = list.New()
	}
	c.inUsed = p.used[c.account].PushBack(c)
}

// unlink takes the i-th connection of a group out of the pool, whose caller has its entry then. It needs mu.
func (p *Pool) unlink(at group, i int) *Conn {
	c := p.conns[at][i]
	p.conns[at] = slices.Delete(p.conns[at], i, i+1)
	used := p.used[c.account]
	if used.Remove(c.inUsed); used.Len() == 0 {
		delete(p.used, c.account)
	}
	c.inUsed = nil
	return c
}

// remove takes the i-th connection of a group out of the pool, and gives its entry back. It needs mu.
func (p *Pool) remove(at group, i int) *Conn {
	c := p.unlink(at, i)
	p.config.Idle.Return(c.account)
	return c
}

// drop ends all connections of a group, and says how many there were. It needs mu.
func (p *Pool) drop(at group, end func(*Conn)) (dropped int) {
	for i := len(p.conns[at]) - 1; i >= 0; i-- {
		end(p.remove(at, i))
		dropped++
	}
	delete(p.conns, at)
	return dropped
}
