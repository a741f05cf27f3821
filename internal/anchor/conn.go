// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/poller"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/sockdiag"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
)

// Conn is the daemon's end of one client connection.
type Conn struct {
	set    *Set
	fd     int
	cookie uint64
	// workload is the network namespace of the client, as far as the kernel's programs know it; otherwise the daemon's own.
	workload *workload.Workload
	listener uint32
	vip      netip.AddrPort
	client   netip.AddrPort
	opened   time.Time
	clock    clock
	// tcp: of a listener without HTTP.
	tcp bool
	// unseen: no program sees its bytes.
	unseen bool
	// bound is the socket that it came to, nil for one that was intercepted. The kernel's programs know nothing of such a connection.
	bound *Bound
	// from says whose requests it carries, of one between two listeners of this process; nil: it is the client's.
	from *atomic.Pointer[upstream.Origin]
	// tenant is the client's group, and cgroups those that its process was in when it connected, the outermost first; all 0 of one that was not intercepted.
	tenant  shares.Path
	cgroups shares.Path
	// requests counts those of both paths, as far as the daemon knows; served is when it served the last one, Unix time in ns.
	requests atomic.Uint32
	served   atomic.Int64
	// unopened: the client has not begun in time, and is served without.
	unopened atomic.Bool
	// guarded: the daemon keeps the connection, since it has broken invariants too often. Set with
	// set.mu held.
	guarded atomic.Bool
	// closing: the connection's time is up, and the answer to its next request closes it.
	closing atomic.Bool

	// readMu is held by the goroutine that reads the connection, writeMu by the one that writes it: the rest of a request and the beginning
	// of its response may pass at the same time. A goroutine that needs both takes readMu first.
	readMu  sync.Mutex
	writeMu sync.Mutex
	// uploaded is the last lease of whose request the daemon has sent on the rest. Guarded by readMu.
	uploaded maps.Lease
	// read and written count the bytes that ever passed here, which is what an offer to the kernel states. Guarded by writeMu.
	read, written uint64
	// forwarded is the last lease of which the daemon has forwarded a response, to its end. Guarded by writeMu.
	forwarded maps.Lease

	// mu guards what follows, for moments.
	mu     sync.Mutex
	conn   *socket
	closed bool
	// notifiedLease is the last lease in place of whose endpoint the daemon has answered and kept the connection.
	notifiedLease maps.Whole
	// over: the client has its answer, and the connection is about to be closed. What still comes is the rest of nothing.
	over bool
	// behind: what is read comes behind a lease's request, and waits for the end of that.
	behind bool
}

// Ready implements poller.Handler.
func (c *Conn) Ready() {
	switch poller.Look(c.fd) {
	case poller.Quiet:
		c.rearm()
	case poller.Readable:
		c.spawn(c.serve)
	case poller.Ended:
		// Where no program moves bytes, nothing is on its way to a client whose requests have been answered.
		if c.bound != nil || !c.set.cfg.FastPath || c.gone() {
			c.set.closeSoon(c)
			return
		}
		c.spawn(c.halfClosed)
	default:
		c.set.closeSoon(c)
	}
}

func (c *Conn) rearm() {
	if err := c.set.poller.Rearm(c.fd); err != nil {
		c.set.closeSoon(c)
	}
}

// serve handles bytes that the kernel declined.
func (c *Conn) serve() {
	c.set.active.Add(1)
	defer c.set.active.Add(-1)
	c.readMu.Lock()
	defer c.readMu.Unlock()
	if c.bound != nil {
		c.serveBound()
		return
	}
	waiting := c.waiting()
	if waiting == poller.Quiet && !c.servesFirst() {
		c.awaitMore()
		return
	}
	slow, found := c.entry()
	if maps.Verdict(slow.Reason) == maps.HandoverBodyMalformed {
		if lingers := c.refuse(slow); lingers {
			c.awaitEnd()
		}
		return
	}
	// The entry stays while bytes wait here, which only this goroutine takes: the program accepts an offer that counts all bytes that were
	// sent, and no offer so far counts these.
	stays := found && waiting == poller.Readable
	reason := maps.Verdict(slow.Reason)
	pipelined := reason == maps.HandoverUnread || reason == maps.HandoverPipelined
	if l, ok := c.leaseOf(slow, found); ok {
		if c.awaitTurn(l) {
			c.upload(l)
			return
		}
		if !c.awaitNotified(l) {
			return
		}
		pipelined = true
	}
	at, ok := c.boundaryAt(slow, found)
	if !ok {
		c.awaitEnd()
		return
	}
	quiescent := stays && slow.Settled != 0
	if pipelined && !quiescent {
		if !c.awaitSender() {
			c.endNow()
			return
		}
		quiescent = stays
	}
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if c.open() == nil || c.set.ctx.Err() != nil {
		return
	}
	c.requests.Store(max(c.requests.Load(), slow.Requests))
	r := at.read(c.session(slow), c.set.cfg.Handler.Serve)
	c.requests.Add(r.Requests)
	c.served.Store(time.Now().UnixNano())
	c.read += r.Read
	c.written += r.Written
	c.offerBack(r.Keep, maps.OfferAnswered, quiescent)
}

// refuse ends a connection of which the request's body cannot be framed. Its client is answered, unless it has some of a response. lingers: it has
// all of one, and may be sending still.
func (c *Conn) refuse(slow maps.SlowConn) (lingers bool) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	conn := c.open()
	if conn == nil || c.set.ctx.Err() != nil {
		return false
	}
	l := maps.Lease{Slot: slow.Slot, Number: slow.Lease}
	return c.refuseLocked(conn, l, slow.Begun != 0)
}

// refuseLocked is refuse for the request of a lease. The caller holds writeMu.
func (c *Conn) refuseLocked(conn *socket, l maps.Lease, responseStarted bool) (lingers bool) {
	switch {
	case c.forwarded == l && l.Number != 0:
		c.part(conn, l, Linger)
		return true
	case responseStarted:
		c.abort()
	default:
		c.written += c.set.cfg.Handler.Refuse(conn, c.workload.ID)
		c.closeLocked()
	}
	return false
}

// awaitMore is for bytes that are not there: who has sent a request again may have taken what came behind it, and answered that as well. To wait
// here would keep everybody else from this connection, and what comes from now on belongs to another entry.
func (c *Conn) awaitMore() {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if !c.isClosed() {
		c.rearm()
	}
}

// waiting looks for what is to be read. It is Quiet on a connection that is closed.
func (c *Conn) waiting() poller.Sight {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return poller.Quiet
	}
	return poller.Look(c.fd)
}

// gone tells whether a client whose sending side is closed has closed altogether, as far as that is known.
func (c *Conn) gone() bool { return c.holder() == sockdiag.Kernel }

// holder tells who has the client's socket.
func (c *Conn) holder() sockdiag.Holder {
	if c.set.cfg.FastPath && !c.unseen && c.bound == nil {
		if c.set.cfg.Sockets.ClientOpen(c.cookie) {
			return sockdiag.Process
		}
		return sockdiag.Kernel
	}
	own, err := unix.Getsockname(c.fd)
	if err != nil {
		return sockdiag.Unknown
	}
	holder, err := holderOf(c.workload, c.client, addrPort(own))
	switch {
	case err != nil && c.bound == nil:
		return sockdiag.Process // it has not been seen leaving
	case err != nil:
		return sockdiag.Unknown
	case holder == sockdiag.Unknown && c.bound == nil:
		return sockdiag.Kernel // it was there when it connected
	}
	return holder
}

// left and stays implement Session's Gone and Stays.
func (c *Conn) left() bool { return poller.HasEnded(c.fd) && c.gone() }

func (c *Conn) stays() bool {
	switch c.holder() {
	case sockdiag.Process:
		return true
	case sockdiag.Kernel:
		return false
	}
	return !poller.HasEnded(c.fd)
}

// entry reads the kernel's entry of the connection.
func (c *Conn) entry() (slow maps.SlowConn, found bool) {
	slow, found, err := c.set.cfg.Sockets.SlowConns.Lookup(c.cookie)
	if err != nil {
		c.set.cfg.Logger.Warn("read hand-over", "err", err)
	}
	return slow, found
}

// servesFirst reports a connection whose endpoint may speak before its client does.
func (c *Conn) servesFirst() bool { return c.tcp || c.unopened.Load() }

func (c *Conn) session(slow maps.SlowConn) Session {
	return Session{
		Listener: c.listener,
		VIP:      c.vip,
		Client:   c.client,
		Workload: c.workload.ID,
		Account:  c.workload.Account(),
		Reason:   maps.Verdict(slow.Reason),
		Endpoint: slow.Endpoint - 1,
		Draw:     slow.Draw,
		Requests: c.requests.Load(),
		Closing:  c.closing.Load,
		Opened:   c.opened,
		Tenant:   c.tenant,
		Gone:     c.left,
		Stays:    c.stays,
	}
}

// leaseOf returns the lease that the client's bytes are part of, or wait for. Where no state could be kept, every i-sock is asked.
func (c *Conn) leaseOf(slow maps.SlowConn, found bool) (maps.Lease, bool) {
	if c.isLeaseless() {
		return maps.Lease{}, false
	}
	if !found {
		return c.set.cfg.Leases.LeaseOf(c.cookie)
	}
	return maps.Lease{Slot: slow.Slot, Number: slow.Lease}, slow.HasLease != 0
}

// isLeaseless tells that no lease is this connection's. One that has its socket's cookie is of an earlier connection: the client has
// disconnected the socket (AF_UNSPEC) and connected it again, and what is left of that lease must not come here.
func (c *Conn) isLeaseless() bool { return c.unseen }

// awaitTurn reports whether the client's bytes are the lease's own. Otherwise they are pipelined, and it returns when the lease has
// ended: their response must not overtake the one before.
func (c *Conn) awaitTurn(l maps.Lease) (own bool) {
	shared := c.set.cfg.Shared
	c.setBehind(true)
	defer c.setBehind(false)
	c.awaitUntil(0, func() bool {
		own = shared.AwaitsRequest(l)
		return own || !shared.Holds(l)
	})
	return own
}

// awaitNotified returns when the client has been notified of the end of a lease, and reports whether its next request may be answered.
func (c *Conn) awaitNotified(l maps.Lease) bool {
	if !c.set.cfg.Shared.Broke(l) {
		return true
	}
	c.setBehind(true)
	defer c.setBehind(false)
	if !c.awaitUntil(failurePatience, func() bool { return c.hasNotified(l) || c.isClosed() || c.isOver() }) {
		c.endNow()
		return false
	}
	if c.isOver() {
		c.awaitEnd()
		return false
	}
	return !c.isClosed()
}

func (c *Conn) setBehind(behind bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.behind = behind
}

// readPatience bounds the wait for whoever has just answered the request before, and is about to let go of the connection.
const readPatience = 100 * time.Millisecond

// lockRead reports whether the caller has got readMu. It does not wait for a goroutine that waits for the caller's request.
func (c *Conn) lockRead() (taken bool) {
	c.awaitUntil(readPatience, func() bool {
		taken = c.readMu.TryLock()
		c.mu.Lock()
		defer c.mu.Unlock()
		return taken || c.behind || c.closed
	})
	return taken
}

func (c *Conn) setNotified(w maps.Whole) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notifiedLease = w
}

func (c *Conn) hasNotified(l maps.Lease) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.notifiedLease.Of(l)
}

// end has what still comes of the client read and dropped, until the connection is closed.
func (c *Conn) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

func (c *Conn) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// upload sends on what is left of a request that the kernel has begun to move. The caller holds readMu.
func (c *Conn) upload(l maps.Lease) {
	conn := c.open()
	if conn == nil {
		return
	}
	r := c.set.cfg.Handler.Upload(c.set.ctx, conn, l)
	switch r.End {
	case UploadClosed:
		c.finish(l)
		return
	case UploadLost:
		c.awaitEnd()
		return
	}
	if lingers := c.uploadEnded(conn, l, r); lingers {
		c.awaitEnd()
	}
}

// uploadEnded leaves the connection behind an upload. lingers is as of refuse.
func (c *Conn) uploadEnded(conn *socket, l maps.Lease, r Uploaded) (lingers bool) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if c.isClosed() {
		return false
	}
	c.read += r.Read
	switch r.End {
	case UploadMalformed:
		return c.refuseLocked(conn, l, r.ResponseStarted)
	case UploadDone:
		c.uploaded = l
	}
	c.offerBack(r.End == UploadDone, maps.OfferSentOn, false)
	return false
}

// offerBack gives a quiet connection back, or closes it. what and settled are as in Sockets.Offer.
func (c *Conn) offerBack(keep bool, what maps.Offer, quiescent bool) {
	if !keep {
		c.closeLocked()
		return
	}
	c.offer(what, quiescent)
	c.rearm()
}

// offer gives the connection back to the kernel, as far as the daemon is concerned.
func (c *Conn) offer(what maps.Offer, quiescent bool) {
	var err error
	if c.guarded.Load() {
		err = c.set.cfg.Sockets.Withhold(c.cookie, c.requests.Load(), quiescent)
	} else {
		err = c.set.cfg.Sockets.Offer(c.cookie, uint32(c.read), uint32(c.written), c.requests.Load(), what, quiescent)
	}
	if err != nil {
		c.set.cfg.Logger.Warn("connection stays on the slow path", "err", err)
	}
}

// open makes a net.Conn of the descriptor, once: only connections that ever need the slow path pay for it. nil: the connection is
// closed.
func (c *Conn) open() *socket {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	if c.conn == nil {
		c.conn = newSocket(c.fd, c.vip, c.client, c.tenant, c.listener)
	}
	return c.conn
}

func (c *Conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// longestPause is between two looks at something that rarely takes long.
const longestPause = 5 * time.Millisecond

// awaitUntil polls until the condition holds, the patience is over (0: never), or the set closes. It reports whether it holds.
func (c *Conn) awaitUntil(patience time.Duration, holds func() bool) bool {
	deadline := time.Now().Add(patience)
	wait := 50 * time.Microsecond
	for !holds() {
		if c.set.ctx.Err() != nil || patience != 0 && time.Now().After(deadline) {
			return false
		}
		time.Sleep(wait)
		wait = min(2*wait, longestPause)
	}
	return true
}

// failurePatience is longer than the pool takes to answer for a lease that it lost.
const failurePatience = time.Second

// awaitEnd is for the rest of a request that has failed, or was answered before it was whole: it is read, so that the client can
// send it and read its answer, and dropped. The connection ends: whoever tells the client closes it, or it is reset. The caller
// holds readMu.
func (c *Conn) awaitEnd() {
	deadline := time.Now().Add(failurePatience)
	if conn := c.open(); conn != nil {
		conn.drop(deadline)
	}
	if !c.awaitUntil(max(time.Until(deadline), longestPause), c.isClosed) {
		c.endNow()
	}
}

// endNow resets the connection.
func (c *Conn) endNow() {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	c.abort()
}

// senderPatience bounds the wait for a process that is kept from running in the midst of its send, or for a worker of the kernel.
const senderPatience = 5 * time.Second

// awaitSender lets what has been sent to the client arrive: a lease has ended, but the last bytes may not yet have reached the client's
// queue. The process that sends them may have been interrupted on the way, or they wait for a worker. Clients that pipeline, and those
// that half-close, wait here. It reports false when the bytes do not come: what is sent then would be taken for them.
//
// One wait is enough for as long as the connection stays with the daemon, which is as long as its entry lives: a program moves bytes to the
// client for a lease alone, the one before has ended, and the program takes none before it has accepted an offer and removed the entry.
// SlowConn.Settled keeps this in the entry, which a program makes without it.
func (c *Conn) awaitSender() bool {
	if !c.set.cfg.FastPath {
		return true // nobody moves bytes
	}
	// From here on whoever moves bytes to the client is seen to.
	if err := c.set.cfg.SynchronizeRCU(); err != nil {
		c.set.cfg.Logger.Warn("waiting for in-flight sends failed", "err", err)
	}
	return c.awaitMoved()
}

// awaitMoved is awaitSender for bytes of which the move has begun before something that the daemon has seen. A worker of the kernel may have them
// still, and an end or a reset would overtake them: the client would read that there is no answer.
func (c *Conn) awaitMoved() bool {
	if !c.set.cfg.FastPath || c.unseen || c.bound != nil {
		return true
	}
	return c.awaitUntil(senderPatience, func() bool {
		queued, err := c.set.cfg.Sockets.Queued(c.cookie)
		if err != nil {
			c.set.cfg.Logger.Warn("reading the queue of a client's socket failed", "err", err)
		}
		return !queued
	})
}

// workerPause is between the first looks at whether the beginning of a response has arrived. Go's own timers may take a millisecond.
const workerPause = 50 * time.Microsecond

// awaitBeginning lets the beginning of a response arrive, of which the rest is about to follow over TCP. The order is kept without that: while a
// worker of the kernel has bytes for the client, what comes over TCP waits behind them. But that wakes the client at once, and it finds nothing:
// recv() fails with EAGAIN, of a socket in blocking mode too, and poll() goes on saying that there is something to read. A worker that gets no
// processor holds the rest up for senderPatience at most. What comes from a server on this host needs no worker.
func (c *Conn) awaitBeginning(l maps.Lease) {
	if atomic.LoadUint32(&c.set.cfg.Shared.Slots[l.Slot].Flags)&uint32(maps.SlotLocal) != 0 {
		return
	}
	for range 3 {
		if c.arrived() {
			return
		}
		poller.Pause(workerPause)
	}
	c.awaitMoved()
}

// halfClosed lets the response to a client that has closed its sending side arrive, then closes. In a tunnel the end is passed on to the endpoint.
func (c *Conn) halfClosed() {
	l, ok := c.leaseOf(maps.SlowConn{}, false)
	if ok && c.awaitTunnel(l) {
		c.readMu.Lock()
		defer c.readMu.Unlock()
		c.upload(l)
		return
	}
	if ok && !c.awaitAnswer(l) {
		return
	}
	if !c.awaitSender() {
		c.endNow()
		return
	}
	// The lease may have broken at the moment of the first look.
	if l, ok := c.leaseOf(maps.SlowConn{}, false); ok && !c.awaitNotified(l) {
		return
	}
	c.close()
}

// awaitTunnel waits for the end of the lease of a client that sends nothing more, and reports whether it has become a tunnel instead, to
// which the client's end belongs. A request of which the end is missing will never be one.
func (c *Conn) awaitTunnel(l maps.Lease) bool {
	shared := c.set.cfg.Shared
	slot := &shared.Slots[l.Slot]
	c.awaitUntil(0, func() bool { return !shared.Holds(l) || slot.RequestOpen() })
	return shared.Holds(l) && slot.Tunnel()
}

// awaitAnswer reports whether a client that sends nothing more may take what it has got for whole. Its lease has ended, or waits for the
// rest of the request.
func (c *Conn) awaitAnswer(l maps.Lease) bool {
	shared := c.set.cfg.Shared
	if !shared.Holds(l) {
		return c.awaitNotified(l)
	}
	whole := !shared.Slots[l.Slot].ResponseOpen()
	shared.CancelLease(l)
	if !whole {
		c.endNow()
	}
	return whole
}

// endPatience is how long an endpoint may take to end a tunnel of which the client has gone.
const endPatience = 5 * time.Second

// finish waits for the endpoint's side of a tunnel, of which the client's has ended, and closes.
func (c *Conn) finish(l maps.Lease) {
	shared := c.set.cfg.Shared
	over := func() bool { return !shared.Holds(l) }
	c.awaitUntil(0, func() bool { return over() || c.gone() })
	if !c.awaitUntil(endPatience, over) {
		shared.CancelLease(l)
		c.close()
		return
	}
	if !c.awaitNotified(l) {
		return
	}
	if !c.awaitSender() {
		c.endNow()
		return
	}
	c.close()
}

func (c *Conn) close() {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	c.closeLocked()
}

// closeQuiet closes unless somebody uses the connection, or its bytes wait to be served.
func (c *Conn) closeQuiet() {
	if !c.readMu.TryLock() {
		return
	}
	defer c.readMu.Unlock()
	if !c.writeMu.TryLock() {
		return
	}
	defer c.writeMu.Unlock()
	if c.isClosed() || poller.Look(c.fd) == poller.Readable {
		return
	}
	c.closeLocked()
}

// abort closes so that the client sees an error, not the end of a short body. The caller holds writeMu.
func (c *Conn) abort() {
	if !c.isClosed() {
		reset(c.fd)
	}
	c.closeLocked()
}

// reset makes the socket's close a reset.
func reset(fd int) {
	// The socket is ours and open: it cannot fail.
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
}

// closeLocked closes the descriptor; a read that waits ends. The caller holds writeMu. It does so once: the steps are deferred, last one first, so that
// each is taken whatever one before panics at.
func (c *Conn) closeLocked() {
	conn, closed := c.markClosed()
	if closed {
		return
	}
	if c.bound == nil {
		defer c.dropEntry()
	}
	defer c.closeSocket(conn)
	defer c.set.remove(c)
	if c.bound != nil {
		c.bound.without()
	} else {
		c.endLease()
	}
}

// closeSocket closes the descriptor; conn is nil where no goroutine has used it.
func (c *Conn) closeSocket(conn *socket) {
	if conn == nil {
		unix.Close(c.fd)
		return
	}
	// What is wrong with the socket was found while it was used.
	defer func() { _ = conn.release() }()
	if c.hasUnsent() {
		reset(c.fd)
	}
}

func (c *Conn) dropEntry() {
	if err := c.set.cfg.Sockets.SlowConns.Delete(c.cookie); err != nil {
		c.set.cfg.Logger.Warn("forget connection", "err", err)
	}
}

func (c *Conn) markClosed() (conn *socket, was bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, c.closed = c.closed, true
	return c.conn, was
}

// hasUnsent reports bytes of which the client has gone. A p-sock that closes is no more than a FIN, and its window may stay closed: without a
// reset they would stay in memory for minutes.
func (c *Conn) hasUnsent() bool {
	unsent, err := unix.IoctlGetInt(c.fd, unix.SIOCOUTQ)
	return err == nil && unsent > 0 && c.bound == nil && poller.HasEnded(c.fd) && c.gone()
}

// endLease ends the lease of which the daemon had the client's bytes, if it runs still: no program ends a tunnel that has been
// handed over, so that it would last until it is overdue.
func (c *Conn) endLease() {
	slow, found := c.entry()
	if found && slow.HasLease != 0 {
		c.set.cfg.Shared.CancelLease(maps.Lease{Slot: slow.Slot, Number: slow.Lease})
	}
}
