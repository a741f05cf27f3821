// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"context"
	"time"
)

// nextEvent is when something expires next; zero: never.
func (s *state) nextEvent() time.Time {
	for len(s.fetches) > 0 && s.fetches[0].done() {
		s.fetches = s.fetches[1:]
	}
	var next time.Time
	if len(s.fetches) > 0 {
		next = s.fetches[0].deadline
	}
	if len(s.lingering) > 0 {
		next = earlier(next, s.lingering[0].deadline)
	}
	for e := range s.mortal {
		next = earlier(next, e.expires)
	}
	return next
}

// done says whether nobody waits for the resource. One that was refused is there, and its deadline does not count.
func (f fetch) done() bool {
	return f.entry.gone || f.entry.unused || f.entry.settled() || f.entry.refused != nil
}

// elapse does what is due: what was not sent in time counts as absent, what has no time left to live ends.
func (s *state) elapse(now time.Time) (late int) {
	for len(s.fetches) > 0 && !s.fetches[0].deadline.After(now) {
		f := s.fetches[0]
		s.fetches = s.fetches[1:]
		if f.done() {
			continue
		}
		late++
		f.entry.absent, f.entry.updated = true, now
		s.release(f.entry, now)
	}
	for e := range s.mortal {
		if !e.expires.After(now) {
			s.expire(e, now)
		}
	}
	s.sweep(now)
	return late
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// watchClock does what is due, when it is due, also while there is no server.
func (c *Client) watchClock(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.alarm:
		case <-timer.C:
		}
		c.mu.Lock()
		now := time.Now()
		if late := c.state.elapse(now); late > 0 {
			c.counted.timeouts += uint64(late)
			c.log.Warn("management server has not sent what is referred to; it counts as absent", "resources", late)
		}
		next := c.state.nextEvent()
		if !c.begun {
			next = earlier(next, c.firstBy)
			if !now.Before(c.firstBy) {
				c.overdue, next = true, c.state.nextEvent()
			}
		}
		c.mu.Unlock()
		c.news()
		timer.Stop()
		if !next.IsZero() {
			timer.Reset(max(0, time.Until(next)))
		}
	}
}
