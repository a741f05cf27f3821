// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"net/netip"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/workload"
)

// unreached is to which addresses connects of workloads have failed lately, the host's among them. An endpoint is in service for all or for none (reach), and
// some may not be let through: what is known of one of them keeps its requests from waiting there, each for a connect timeout. It is safe for concurrent use.
type unreached struct {
	mu    sync.RWMutex
	until map[way]time.Time
}

// way is from a workload's network namespace to an address.
type way struct {
	from workload.ID
	to   netip.AddrPort
}

// unreachedFor is how long a failure is known behind the time in which the next connect has ended: while requests of the workload ask for i-socks there is one
// at least every longestWait.
const unreachedFor = 10 * time.Second

// fail notes that a connect has failed, which may take as long as timeout.
func (u *unreached) fail(w way, now time.Time, timeout time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.until == nil {
		u.until = map[way]time.Time{}
	}
	u.until[w] = now.Add(timeout + unreachedFor)
}

// reach notes that a connect has succeeded.
func (u *unreached) reach(w way) {
	if !u.hasAny() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.until, w)
}

// forget drops what is too old to be known.
func (u *unreached) forget(now time.Time) {
	if !u.hasAny() {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for w, until := range u.until {
		if !now.Before(until) {
			delete(u.until, w)
		}
	}
}

func (u *unreached) has(w way, now time.Time) bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	until, is := u.until[w]
	return is && now.Before(until)
}

func (u *unreached) hasAny() bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return len(u.until) > 0
}

// Misses is to which addresses connects of a workload have failed lately, while it has no i-sock there; nil: to none that is known. The function is for one
// request, and like this one it is safe for concurrent use.
func (p *Pool) Misses(from workload.ID) func(netip.AddrPort) bool {
	if !p.unreached.hasAny() {
		return nil
	}
	now := time.Now()
	return func(to netip.AddrPort) bool { return p.unreached.has(way{from, to}, now) }
}
