// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
)

// Conn is the daemon's end of one client connection.
type Conn struct {
	set      *Set
	fd       int
	cookie   uint64
	listener uint32
	vip      netip.AddrPort
	client   netip.AddrPort
	opened   time.Time

	// use is held by whoever reads or writes the connection. It guards what follows.
	use  sync.Mutex
	conn *socket
	// read and written count the bytes that ever passed here, which is what an offer to the kernel states.
	read, written uint64
	closed        bool
}

// Ready implements poller.Handler.
func (c *Conn) Ready() {
	var b [1]byte
	n, _, err := unix.Recvfrom(c.fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		c.rearm()
	case err == nil && n > 0:
		c.set.spawn(c.serve)
	case err == nil && !c.set.gone(c.cookie):
		c.set.spawn(c.awaitHalfClosed)
	default:
		c.set.spawnClose(c)
	}
}

func (c *Conn) rearm() {
	if err := c.set.poller.Rearm(c.fd); err != nil {
		c.set.spawnClose(c)
	}
}

// serve handles bytes that the kernel declined.
func (c *Conn) serve() {
	c.set.active.Add(1)
	defer c.set.active.Add(-1)
	slow, _, err := c.set.cfg.Sockets.SlowConns.Lookup(c.cookie)
	if err != nil {
		c.set.cfg.Logger.Warn("read hand-over", "err", err)
	}
	if slow.HasLease != 0 {
		// Pipelined: its response must not overtake the one before.
		c.awaitLease(slow.Slot, slow.Lease)
	}
	if maps.Verdict(slow.Reason) == maps.HandoverUnread {
		c.awaitSender()
	}
	c.use.Lock()
	defer c.use.Unlock()
	if c.closed || c.set.ctx.Err() != nil {
		return
	}
	r := c.set.cfg.Handler.Serve(c.set.ctx, c.open(), c.session(slow))
	c.read += r.Read
	c.written += r.Written
	c.settle(r.Keep)
}

func (c *Conn) session(slow maps.SlowConn) Session {
	return Session{
		Listener: c.listener,
		VIP:      c.vip,
		Client:   c.client,
		Reason:   maps.Verdict(slow.Reason),
		Endpoint: slow.Endpoint - 1,
		Gone:     func() bool { return c.set.gone(c.cookie) },
	}
}

// settle gives a quiet connection back, or closes it.
func (c *Conn) settle(keep bool) {
	if !keep {
		c.closeLocked()
		return
	}
	if err := c.set.cfg.Sockets.Offer(c.cookie, uint32(c.read), uint32(c.written)); err != nil {
		c.set.cfg.Logger.Warn("connection stays on the slow path", "err", err)
	}
	c.rearm()
}

// open makes a net.Conn of the descriptor, once: only connections that ever need the slow path pay for it.
func (c *Conn) open() *socket {
	if c.conn == nil {
		c.conn = newSocket(c.fd, c.vip, c.client)
	}
	return c.conn
}

// awaitLease returns when a lease has ended, or the set closes.
func (c *Conn) awaitLease(slot uint32, lease uint64) {
	wait := 50 * time.Microsecond
	for c.set.ctx.Err() == nil && c.set.cfg.Shared.HoldsLease(slot, lease) {
		time.Sleep(wait)
		wait = min(2*wait, 5*time.Millisecond)
	}
}

// unreadPause is longer than a process is kept from running between two steps of a send, unless the machine is hopelessly behind.
const unreadPause = 5 * time.Millisecond

// awaitSender lets the process that has sent a response finish: the lease has ended, but the last bytes may not yet have reached
// the client. Clients that pipeline, and those that half-close, wait here.
func (c *Conn) awaitSender() {
	if err := maps.Settle(); err != nil {
		c.set.cfg.Logger.Warn("order of pipelined answers", "err", err)
	}
	time.Sleep(unreadPause)
}

// awaitHalfClosed lets the response to a client that has closed its sending side arrive, then closes.
func (c *Conn) awaitHalfClosed() {
	if slot, lease, ok := c.set.cfg.Leases.LeaseOf(c.cookie); ok {
		c.awaitLease(slot, lease)
	}
	c.awaitSender()
	c.close()
}

func (c *Conn) close() {
	c.use.Lock()
	defer c.use.Unlock()
	c.closeLocked()
}

// closeQuiet closes unless somebody uses the connection, or its bytes wait to be served.
func (c *Conn) closeQuiet() {
	if !c.use.TryLock() {
		return
	}
	defer c.use.Unlock()
	var b [1]byte
	if c.closed {
		return
	}
	if n, _, err := unix.Recvfrom(c.fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT); err == nil && n > 0 {
		return
	}
	c.closeLocked()
}

// abort closes so that the client sees an error, not the end of a short body.
func (c *Conn) abort() {
	if !c.closed {
		reset(c.fd)
	}
	c.closeLocked()
}

// reset makes the socket's close a reset.
func reset(fd int) {
	// The socket is ours and open: it cannot fail.
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

func (c *Conn) closeLocked() {
	if c.closed {
		return
	}
	c.closed = true
	c.set.remove(c)
	if c.conn != nil {
		// What is wrong with the socket was found while it was used.
		_ = c.conn.release()
	} else {
		unix.Close(c.fd)
	}
	if err := c.set.cfg.Sockets.SlowConns.Delete(c.cookie); err != nil {
		c.set.cfg.Logger.Warn("forget connection", "err", err)
	}
}
