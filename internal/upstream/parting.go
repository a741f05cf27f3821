// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// MaxWaiting is how many connections to endpoints may wait in TIME_WAIT because this process has
	// closed them first. Each keeps its port, of which a host has some 28,000.
	MaxWaiting = 1024
	// timeWait is how long each does (TCP_TIMEWAIT_LEN of the kernel).
	timeWait = time.Minute
)

// Partings bounds how many ports wait behind connections that were closed in order: those beyond
// are reset, which leaves nothing. All that a process opens to endpoints share one. The zero value
// is ready.
type Partings struct {
	mu sync.Mutex
	// closed is when the last ones were closed in order; next is the place of the oldest.
	closed [MaxWaiting]time.Time
	next   int
}

// Part makes the close of a connection, which is to follow, an orderly one, or a reset if too many
// ports wait. It returns whether it will be a reset.
func (p *Partings) Part(fd int) (resets bool) {
	if !established(fd) || p.mayWait(time.Now()) {
		Orderly(fd)
		return false
	}
	Reset(fd)
	return true
}

// mayWait reports whether one more port may wait, and counts it.
func (p *Partings) mayWait(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	oldest := &p.closed[p.next]
	if !oldest.IsZero() && now.Sub(*oldest) < timeWait {
		return false
	}
	*oldest = now
	p.next = (p.next + 1) % len(p.closed)
	return true
}

// established reports whether neither side has ended: who ends first has the port wait.
func established(fd int) bool {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	return err == nil && info.State == unix.BPF_TCP_ESTABLISHED
}

// Reset makes the close of an open socket a reset: the other end does not take for whole what was not,
// and no port waits.
func Reset(fd int) { linger(fd, unix.Linger{Onoff: 1}) }

// Orderly makes the close of an open socket one behind all that was sent, whatever it was to be.
func Orderly(fd int) { linger(fd, unix.Linger{}) }

// EndTimeout is how long the kernel waits for the answer to the end of a connection that BoundEnd has bounded.
const EndTimeout = 5 * time.Second

// BoundEnd bounds how long a connection may hold its network namespace once it has been closed in order, and no answer to that comes: the interface of a pod goes
// before its last process does, and the kernel tries for two minutes (tcp_orphan_retries). What has been sent, and not acknowledged, is not cut short by it.
func BoundEnd(fd int) {
	if unsent, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ); err != nil || unsent > 0 {
		return
	}
	// It cannot fail: the socket is open.
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(EndTimeout.Milliseconds()))
}

func linger(fd int, l unix.Linger) {
	// It cannot fail: the socket is open.
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &l)
}
