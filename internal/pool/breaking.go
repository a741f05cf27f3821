// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/poller"
)

// Clients that leave amid their requests break an i-sock each. So many are replaced at once, and so
// many in a second; until the next one is, requests that find none are served in user space.
const (
	breaksAtOnce    = 512
	breaksPerSecond = 256
)

// breaking is what the breaks of a subpool's i-socks have used up of what is replaced. Guarded by
// Pool.mu.
type breaking struct {
	// used is how much of breaksAtOnce was gone at that time.
	used float64
	at   time.Time
	// held are broken i-socks that are to be replaced later.
	held int
}

// allowReplacement reports whether one more is replaced at once, and counts it.
func (b *breaking) allowReplacement(now time.Time) bool {
	b.recover(now)
	if b.used > breaksAtOnce-1 {
		return false
	}
	b.used++
	return true
}

func (b *breaking) recover(now time.Time) {
	if !b.at.IsZero() {
		b.used = max(0, b.used-now.Sub(b.at).Seconds()*breaksPerSecond)
	}
	b.at = now
}

// brokenLocked counts an i-sock that its client has broken, and holds its replacement back where there
// were too many.
func (p *Pool) brokenLocked(sub *subpool, now time.Time) {
	if sub.breaking.allowReplacement(now) {
		return
	}
	sub.breaking.held++
	p.held[sub] = struct{}{}
	p.heldBack.Add(1)
}

// replaceHeldLocked replaces what was held back, as fast as may be.
func (p *Pool) replaceHeldLocked(now time.Time) {
	for sub := range p.held {
		for sub.breaking.held > 0 && sub.breaking.allowReplacement(now) {
			sub.breaking.held--
		}
		if sub.gone() {
			sub.breaking.held = 0
		}
		if sub.breaking.held == 0 {
			delete(p.held, sub)
		}
		p.fillLocked(sub)
	}
}

// HeldBack is how many i-socks were not replaced at once because clients broke too many.
func (p *Pool) HeldBack() uint64 { return p.heldBack.Load() }

// brokenByClient reports an i-sock of which the lease has broken though the endpoint serves on.
func (s *isock) brokenByClient() bool {
	return s.broke() && !s.failed && poller.Look(s.fd) == poller.Quiet
}

// broke reports whether the last lease ended otherwise than with a whole response.
func (s *isock) broke() bool {
	sl := &s.pool.cfg.Shared.Slots[s.slot]
	broken := atomic.LoadUint64(&sl.BrokenLease)
	return broken != 0 && broken+1 == atomic.LoadUint64(&sl.Lease)
}
