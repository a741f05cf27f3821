// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/poller"
)

// Limits bound the connections of a listener's clients; zero is no limit. They are those of
// HttpConnectionManager.common_http_protocol_options, and drain_timeout.
type Limits struct {
	// Idle is how long a connection may be without a request, Age how long it may last.
	Idle, Age time.Duration
	// Drain is how long one whose time is up waits for another request, the answer to which closes it. One that has carried none
	// closes at once.
	Drain time.Duration
	// Opening is how long a connection may be open without a byte of its first request (Listener.listener_filters_timeout). Then it closes, or with
	// Unopened is served without.
	Opening  time.Duration
	Unopened bool
	// View is the number of the listener's view. The time of a connection is up, whatever its age, when its workload sees another one; with AnyView it is not.
	View    uint32
	AnyView bool
}

func (l Limits) none() bool { return l.Idle == 0 && l.Age == 0 && l.Opening == 0 }

// step is how often a connection is looked at that has such limits: often enough to be late by an eighth of them at most.
func (l Limits) step() time.Duration {
	step := coarsestLook
	for _, d := range []time.Duration{l.Idle, l.Age, l.Drain, l.Opening} {
		if d > 0 {
			step = min(step, max(d/8, finestLook))
		}
	}
	return step
}

const (
	finestLook   = 10 * time.Millisecond
	coarsestLook = time.Second
)

// clock is what the limits of a connection are measured by. Only the goroutine that looks at limits uses it.
type clock struct {
	// due is when the connection is to be looked at, idleSince when it was last known to be in use.
	due, idleSince time.Time
	// requests that it had carried then, as far as the kernel and the daemon knew.
	kernel, daemon uint32
	// closeAt is when it closes, if it is not in use; zero while its time is not up.
	closeAt time.Time
	// used: it has carried a request. silent: its time is up because it has not.
	used, silent bool
}

// limits are those of a connection to a listener, or in place of them what ends all connections.
func (s *Set) limits(listener uint32) Limits {
	if quiet := s.ending.Load(); quiet > 0 {
		return Limits{Idle: time.Duration(quiet), AnyView: true}
	}
	if s.cfg.Limits == nil {
		return Limits{}
	}
	return s.cfg.Limits(listener)
}

// isOfOtherView reports whether the client would be led to another view's listener by now. A bound socket has no view of its clients.
func (c *Conn) isOfOtherView(l Limits) bool {
	return !l.AnyView && c.bound == nil && c.workload.View() != l.View
}

// Drain closes each connection that has been without a request for so long, which must be more than 0, as soon as it has, whatever the limits of its
// listener are. One that was used a moment ago stays: its client may be sending the next request, which nobody would answer.
func (s *Set) Drain(quiet time.Duration) {
	s.ending.Store(int64(quiet))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookAnewLocked()
}

// ViewsChanged looks at all connections anew: their workloads may see other views.
func (s *Set) ViewsChanged() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookAnewLocked()
}

// Views are those, by their numbers, of which connections are open.
func (s *Set) Views() map[uint32]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[uint32]bool{}
	for _, c := range s.conns {
		if c.bound == nil {
			found[s.limits(c.listener).View] = true
		}
	}
	return found
}

// LimitsChanged looks at all connections anew: their listeners may have other limits. These are those of all listeners.
func (s *Set) LimitsChanged(all map[uint32]Limits) {
	step := acceptPace
	for _, l := range all {
		if !l.none() {
			step = min(step, l.step())
		}
	}
	s.limitStep.Store(int64(step))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookAnewLocked()
}

func (s *Set) lookAnewLocked() {
	s.limited = map[*Conn]struct{}{}
	s.pace = 0
	s.anew = true
	for _, c := range s.conns {
		s.limitLocked(c)
	}
}

// limitLocked has a connection watched if its listener has limits.
func (s *Set) limitLocked(c *Conn) {
	l := s.limits(c.listener)
	if l.none() && !c.isOfOtherView(l) {
		return
	}
	s.limited[c] = struct{}{}
	if step := l.step(); s.pace == 0 || step < s.pace {
		s.pace = step
		select {
		case s.paced <- struct{}{}:
		default: // it has yet to be heard
		}
	}
}

// watchLimits ends connections whose time is up, until the set closes.
func (s *Set) watchLimits() {
	defer s.wg.Done()
	ticker := time.NewTicker(time.Hour)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.paced:
		case <-ticker.C:
		}
		ticker.Reset(s.sweepLimits(time.Now()))
	}
}

// sweepLimits looks at the connections that are due, and returns how soon to look again.
func (s *Set) sweepLimits(now time.Time) time.Duration {
	var due, over []*Conn
	s.mu.Lock()
	if len(s.limited) == 0 {
		s.pace = 0
	}
	pace, anew := s.pace, s.anew
	s.anew = false
	for c := range s.limited {
		if anew || !now.Before(c.clock.due) {
			due = append(due, c)
		}
	}
	s.mu.Unlock()
	for _, c := range due {
		if c.look(now) {
			over = append(over, c)
		}
	}
	s.endUnused(over)
	if pace == 0 {
		return time.Hour
	}
	return pace
}

// endUnused closes connections whose time is up. They are held: once all programs that were running have ended, no request can begin
// that the kernel would serve. One that has begun is seen, and one that comes from here on reaches the daemon.
func (s *Set) endUnused(conns []*Conn) {
	if len(conns) == 0 {
		return
	}
	if s.cfg.FastPath {
		if err := s.cfg.SynchronizeRCU(); err != nil {
			s.cfg.Logger.Warn("closing connections at their time limit failed; will retry", "err", err)
			return
		}
	}
	for _, c := range conns {
		_, busy := c.inUse(maps.HoldNot)
		switch {
		case busy, !c.arrived():
		case c.clock.silent && s.limits(c.listener).Unopened:
			if c.unopened.CompareAndSwap(false, true) {
				c.spawn(c.serve)
			}
		default:
			c.closeQuiet()
		}
	}
}

// arrived reports whether all that was sent to the client lies in its queue.
func (c *Conn) arrived() bool {
	if !c.set.cfg.FastPath || c.bound != nil {
		return true
	}
	queued, err := c.set.cfg.Sockets.Queued(c.cookie)
	return err == nil && !queued
}

// inUse looks at a connection, and reports whether a request is in progress. Unless hold is HoldNot the kernel begins none from now on.
func (c *Conn) inUse(hold maps.Hold) (look maps.ClientLook, busy bool) {
	if c.bound == nil {
		var err error
		if look, err = c.set.cfg.Sockets.LookAt(c.cookie, hold); err != nil {
			c.set.cfg.Logger.Warn("limits of connections", "err", err)
			return look, true
		}
	}
	if look.Busy != 0 || !c.readMu.TryLock() {
		return look, true
	}
	defer c.readMu.Unlock()
	if !c.writeMu.TryLock() {
		return look, true
	}
	defer c.writeMu.Unlock()
	return look, poller.Look(c.fd) == poller.Readable
}

// look measures the connection by its listener's limits, and reports whether it is to be closed now unless it is in use.
func (c *Conn) look(now time.Time) (over bool) {
	l := c.set.limits(c.listener)
	look, busy := c.inUse(maps.HoldNot)
	c.noteUse(look, busy, now)
	c.clock.due = now.Add(l.step())
	// At the end it is only use that counts: what its listener has allowed is too long, and who is served now may be about to send once more.
	if c.set.ending.Load() > 0 && (busy || c.clock.closeAt.After(now)) {
		c.clock.closeAt = time.Time{}
	}
	if c.clock.closeAt.IsZero() {
		c.clock.silent = l.Opening > 0 && !busy && !c.clock.used && now.Sub(c.opened) >= l.Opening
		if c.clock.silent || l.Idle > 0 && !busy && now.Sub(c.clock.idleSince) >= l.Idle || l.Age > 0 && now.Sub(c.opened) >= l.Age || c.isOfOtherView(l) {
			c.drain(now, l)
		} else {
			c.clock.due = c.nextLook(l, busy, now)
		}
	}
	return !c.clock.closeAt.IsZero() && !busy && !now.Before(c.clock.closeAt)
}

// nextLook is when the time of a connection may be up, or sooner: the end of a request is known exactly only until its slot has served
// another client.
func (c *Conn) nextLook(l Limits, busy bool, now time.Time) time.Time {
	next := now.Add(max(l.Idle/4, finestLook))
	switch {
	case l.Idle == 0 && l.Age > 0:
		next = c.opened.Add(l.Age)
	case l.Idle == 0 && c.clock.used:
		next = now.Add(time.Hour)
	case l.Idle == 0:
		next = now.Add(l.step())
	}
	if end := c.opened.Add(l.Opening); end.After(now) && end.Before(next) {
		next = end
	}
	if end := c.clock.idleSince.Add(l.Idle); l.Idle > 0 && !busy && end.Before(next) {
		next = end
	}
	if end := c.opened.Add(l.Age); l.Age > 0 && end.Before(next) {
		next = end
	}
	if l.Idle > 0 && busy {
		next = now.Add(l.step())
	}
	return next
}

// noteUse takes in what a look has found.
func (c *Conn) noteUse(look maps.ClientLook, busy bool, now time.Time) {
	k := &c.clock
	daemon := c.requests.Load()
	k.used = k.used || look.Requests > 0 || daemon > 0
	changed := look.Known != 0 && look.Requests != k.kernel || daemon != k.daemon
	k.kernel, k.daemon = look.Requests, daemon
	switch {
	case k.idleSince.IsZero() && !changed && !busy:
		k.idleSince = c.opened
	case busy:
		k.idleSince = now
	case changed:
		k.idleSince = c.lastUse(look, now)
	}
}

// lastUse is when the last request ended, or now where that is not known.
func (c *Conn) lastUse(look maps.ClientLook, now time.Time) time.Time {
	var last time.Time
	if at := c.served.Load(); at != 0 {
		last = time.Unix(0, at)
	}
	if look.Known == 0 {
		return last
	}
	if look.EndedNs == 0 {
		return now
	}
	if ended := now.Add(time.Duration(int64(look.EndedNs) - maps.Now())); ended.After(last) {
		return ended
	}
	return last
}

// drain has the answer to the next request close the connection, and the connection close without one after a while. One that has carried none does not wait.
func (c *Conn) drain(now time.Time, l Limits) {
	c.closing.Store(true)
	look, _ := c.inUse(maps.HoldLimit)
	c.clock.closeAt = now
	// One that was led to a view which its workload sees no more may be about to send its first request.
	if look.Requests > 0 || c.requests.Load() > 0 || c.isOfOtherView(l) {
		c.clock.closeAt = now.Add(l.Drain)
	}
}
