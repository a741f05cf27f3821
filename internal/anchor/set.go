// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/crash"
	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
	"github.com/xlb-project/xlb/internal/poller"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/sockdiag"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
)

// Session is what is known of a connection whose bytes reached the slow path.
type Session struct {
	// Listener is the listener's number.
	Listener    uint32
	VIP, Client netip.AddrPort
	// Workload is the network namespace of the client, and Account that by which what its maker has is counted.
	Workload, Account workload.ID
	// Reason is why the kernel declined; VerdictOK when it never saw the bytes.
	Reason maps.Verdict
	// Endpoint is the index of the endpoint that the kernel had chosen, NoEndpoint for none, FailingEndpoint where the first request is to fail.
	Endpoint uint32
	// Draw is the random number by which the kernel has routed the first request, 0 for none.
	Draw uint64
	// Requests is how many the connection has carried before.
	Requests uint32
	// Closing tells whether the answer to the current request is to close the connection.
	Closing func() bool
	// Gone tells whether a client has closed its sending side, and altogether. Stays tells whether it is there still, and knows of one that has closed
	// altogether before its end has come: that waits behind what the client has sent. Of a client on another host both know what has come.
	Gone, Stays func() bool
	// Opened is when the client connected, or a moment later.
	Opened time.Time
	// Tenant is the client's group: see tenantOf and tenantOfHost.
	Tenant shares.Path
	// From says whose the request is that the connection carries, where it comes from another listener of this process; nil: its client's.
	From func() upstream.Origin
}

// NoEndpoint is a Session without a choice of endpoint, FailingEndpoint one whose request has come to no endpoint by the rules of balancing.
const (
	NoEndpoint      = ^uint32(0)
	FailingEndpoint = NoEndpoint - 1
)

// Result is how a session ended.
type Result struct {
	// Read and Written are the bytes that passed during the session.
	Read, Written uint64
	// Requests is how many were read.
	Requests uint32
	// Keep says that the connection is quiet: all that was read was answered, and it may stay open.
	Keep bool
}

// UploadEnd is how an upload ended.
type UploadEnd uint8

const (
	// UploadDone: the request is complete.
	UploadDone UploadEnd = iota
	// UploadClosed: the client has closed its side of a tunnel, and the endpoint has been told.
	UploadClosed
	// UploadLost: the endpoint has gone; who found that tells the client.
	UploadLost
	// UploadMalformed: the client must be told that its request is not one.
	UploadMalformed
	// UploadAborted: the client has gone.
	UploadAborted
)

// Uploaded is what became of an upload.
type Uploaded struct {
	// Read are the bytes taken from the client.
	Read uint64
	End  UploadEnd
	// ResponseStarted: the client has some of the response.
	ResponseStarted bool
}

// Client is the daemon's end of a client's connection, of which the next bytes can be looked at before they are taken.
type Client interface {
	net.Conn
	// Peek waits for bytes and copies them; they stay. io.EOF: the client has closed its sending side.
	Peek(b []byte) (int, error)
	// Discard takes that many bytes, which Peek has seen.
	Discard(n int) error
	// Tenant is the client's group.
	Tenant() shares.Path
	// Listener is the number of the listener that it has connected to.
	Listener() uint32
}

// Handler serves connections.
type Handler interface {
	// Serve serves a connection until it is quiet. It reads the next bytes as a request's head, which at is the proof of.
	Serve(ctx context.Context, conn net.Conn, at Boundary, s Session) Result
	// Refuse tells a client of a workload that the body of its request is not one, and returns the bytes that it wrote. It reads nothing.
	Refuse(conn net.Conn, of workload.ID) (written uint64)
	// Upload sends the rest of a lease's request to its endpoint, or the client's side of a tunnel. It must not take what lies
	// behind the request.
	Upload(ctx context.Context, conn Client, l maps.Lease) Uploaded
}

// Leases finds the lease a client holds.
type Leases interface {
	LeaseOf(cookie uint64) (maps.Lease, bool)
}

// Config is what a Set needs; all fields but Scheduler, NoHost, Limits, Crashes and SynchronizeRCU are required.
type Config struct {
	Shared  *maps.Shared
	Sockets *maps.Sockets
	Handler Handler
	Leases  Leases
	Logger  *slog.Logger
	// Scheduler divides the time of what is done for clients here, as to close their connections. nil: that never waits.
	Scheduler *shares.Scheduler
	// Own is the network namespace the set lives in, NoHost says that its clients are not served: the kernel programs know it, and leave it alone.
	Own    *workload.Workload
	NoHost bool
	// FastPath says that clients' sockets are in the kernel's maps, which tell whether they are open.
	FastPath bool
	// Limits returns those of a listener, by its number. nil: there are none. It must not call the set.
	Limits func(listener uint32) Limits
	// MostConnections is how many intercepted connections there may be while workloads other than the host are served, of which each may have as many as are
	// left free; 0: any number.
	MostConnections uint32
	// Crashes are the panics of code that serves one connection; nil: the set has its own.
	Crashes *crash.Log
	// SynchronizeRCU waits until every program that was running has ended. nil: bpfmap.SynchronizeRCU.
	SynchronizeRCU func() error
}

// Set owns all anchors.
type Set struct {
	cfg    Config
	poller *poller.Poller
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	// listeners are those of all workloads, hostListeners those of the host, ready those of the others. A slice is not changed, but exchanged, by the holder
	// of joining, which guards announced, what the kernel programs know, and stopped: no workload joins any more.
	listeners     atomic.Pointer[[]*listener]
	hostListeners atomic.Pointer[[]*listener]
	ready         *readySet
	announced     map[*workload.Workload]maps.AnchorPorts
	// withdrawn are workloads with listeners that the kernel programs are not to know. Guarded by joining.
	withdrawn map[*workload.Workload]maps.AnchorPorts
	accounts  accounts
	joining   sync.Mutex
	stopped   bool
	active    atomic.Int64
	// accepting is the beat at which connections are accepted, nil without the fast path. looks is how many looks are left for one that
	// was announced, limitStep how often connections with limits are looked at, in ns.
	accepting *poller.Beat
	looks     atomic.Int32
	limitStep atomic.Int64
	// arrived wakes who sweeps, sweepAll is what it is to do. acceptAt connections raise an event. left is how many wait still that were counted
	// before, at most.
	arrived  chan struct{}
	sweepAll atomic.Bool
	acceptAt atomic.Uint32
	left     atomic.Int32
	// bound counts the open connections that have come to bound sockets, and those between two listeners.
	bound    atomic.Int64
	inner    inner
	closings closings
	// guarded counts the open connections that are kept.
	guarded atomic.Int64
	// ending is how long a connection must be without a request to be closed, in ns, because all are to end; 0: they are not.
	ending atomic.Int64

	// refusals counts looks for connections that ended for want of descriptors.
	refusals atomic.Uint64

	mu            sync.Mutex
	conns         map[uint64]*Conn
	open          map[workload.ID]int
	pendingResets map[uint64]struct{}
	// limited are those whose listener has limits. They are looked at as often as pace says, 0 while there are none; paced tells of a
	// quicker one. anew: all are due, whenever they were to be looked at.
	limited map[*Conn]struct{}
	pace    time.Duration
	paced   chan struct{}
	anew    bool
	closing bool
	accepts uint64
	warned  time.Time
}

// New opens the anchor listeners and announces them to the kernel programs. Close ends the set.
func New(cfg Config) (*Set, error) {
	if cfg.SynchronizeRCU == nil {
		cfg.SynchronizeRCU = bpfmap.SynchronizeRCU
	}
	if cfg.Crashes == nil {
		cfg.Crashes = crash.New(cfg.Logger)
	}
	ready, err := newReadySet()
	if err != nil {
		return nil, err
	}
	po, err := poller.New()
	if err != nil {
		return nil, errors.Join(err, ready.close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Set{cfg: cfg, poller: po, ctx: ctx, cancel: cancel, conns: map[uint64]*Conn{}, open: map[workload.ID]int{}, pendingResets: map[uint64]struct{}{}, limited: map[*Conn]struct{}{}, paced: make(chan struct{}, 1), arrived: make(chan struct{}, 1), closings: newClosings()}
	s.ready, s.announced, s.withdrawn = ready, map[*workload.Workload]maps.AnchorPorts{}, map[*workload.Workload]maps.AnchorPorts{}
	s.accounts = newAccounts(&s.cfg)
	s.inner = inner{set: s, expected: map[netip.AddrPort]*visit{}}
	s.limitStep.Store(int64(acceptPace))
	s.listeners.Store(&[]*listener{})
	s.hostListeners.Store(&[]*listener{})
	err = s.Join(cfg.Own)
	if err == nil && cfg.FastPath {
		err = s.beginAccepting()
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.wg.Add(1)
	go s.watchLimits()
	return s, nil
}

// accepted takes charge of a connection. One that the kernel knows nothing of has been closed by its client, with every
// request answered in the kernel; or it was not intercepted: somebody found the anchor's port. It reports whether the client has it still.
func (s *Set) accepted(fd int, peer netip.AddrPort, l *listener) (open bool) {
	key := maps.ConnKey{Addr: peer.Addr().As16(), Port: peer.Port(), AnchorPort: l.port, Netns: l.workload.Netns}
	if poller.IsOver(fd) && s.isSucceeded(peer, key, l.workload) {
		poller.CloseNow(fd)
		return false
	}
	r, ok := s.cfg.Sockets.TakeConn(key)
	if !ok {
		poller.CloseNow(fd)
		return false
	}
	poller.Unlinger(fd)
	c := &Conn{
		set:      s,
		fd:       fd,
		cookie:   r.Cookie,
		workload: l.workload,
		listener: r.Listener,
		vip:      maps.Address(r.Vip, r.VipPort),
		client:   peer,
		opened:   time.Now(),
		tcp:      r.Flags&uint16(maps.ConnPlain) != 0,
		unseen:   r.Flags&uint16(maps.ConnUnseen) != 0,
		tenant:   tenantOf(l.workload, shares.Path(r.Tenant)),
		cgroups:  shares.Path(r.Tenant),
	}
	s.begin(c)
	return true
}

// isSucceeded reports a connection that its client has reset before it was accepted, and whose port
// another client has by now: what the kernel knows by that port is of the other one's.
func (s *Set) isSucceeded(peer netip.AddrPort, key maps.ConnKey, w *workload.Workload) bool {
	r, ok, err := s.cfg.Sockets.Conns.Lookup(key)
	if err != nil || !ok {
		return false
	}
	if s.cfg.FastPath && r.Flags == 0 {
		return s.cfg.Sockets.ClientOpen(r.Cookie)
	}
	anchor := netip.IPv6Loopback()
	if peer.Addr().Unmap().Is4() {
		anchor = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	holder, err := holderOf(w, peer, netip.AddrPortFrom(anchor, key.AnchorPort))
	return err == nil && holder == sockdiag.Process
}

// begin has a new connection served when it has bytes.
func (s *Set) begin(c *Conn) {
	if isReset := s.add(c); isReset {
		c.spawn(c.endNow)
		return
	}
	if c.tcp {
		// The endpoint may speak first.
		c.spawn(c.serve)
		return
	}
	if err := s.poller.Watch(c.fd, c); err != nil {
		s.cfg.Logger.Warn("watch connection", "err", err)
		s.closeSoon(c)
	}
}

// add takes a new connection into the books, and reports whether it is to be reset.
func (s *Set) add(c *Conn) (isReset bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c.cookie] = c
	s.open[c.workload.ID]++
	s.limitLocked(c)
	s.accepts++
	return s.takePendingResetLocked(c)
}

// acceptFailed reports, at most once a second, that connections wait: typically for descriptors.
func (s *Set) acceptFailed(err error) {
	s.refusals.Add(1)
	if s.mayWarn(time.Now()) {
		s.cfg.Logger.Error("accept connection; raise the limit of open files if it is that", "err", err)
	}
}

// mayWarn is true once a second.
func (s *Set) mayWarn(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.warned) < time.Second {
		return false
	}
	s.warned = now
	return true
}

// Go runs f in a goroutine for which Close waits. It reports false, and does nothing, once the set closes.
func (s *Set) Go(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		f()
	}()
	return true
}

// spawn is Set.Go for work on this connection, which a panic of it ends, and nothing else.
func (c *Conn) spawn(f func()) bool {
	return c.set.Go(func() {
		defer c.set.cfg.Crashes.Recover("a client's connection", c.resetUsed)
		f()
	})
}

// resetUsed resets a connection that another goroutine may use at this moment: first what that waits for ends.
func (c *Conn) resetUsed() {
	if conn := c.open(); conn != nil {
		_ = conn.Close()
	}
	c.endNow()
}

func (s *Set) remove(c *Conn) {
	s.poller.Forget(c.fd)
	s.mu.Lock()
	defer s.mu.Unlock()
	// The client's socket may have been disconnected, and have another connection by now.
	if s.conns[c.cookie] == c {
		if c.guarded.Load() {
			s.guarded.Add(-1)
		}
		delete(s.conns, c.cookie)
	}
	delete(s.limited, c)
	if s.open[c.workload.ID]--; s.open[c.workload.ID] == 0 {
		delete(s.open, c.workload.ID)
	}
}

// Outcome says what becomes of a connection after its use.
type Outcome struct {
	end   ending
	whole maps.Whole
}

type ending uint8

const (
	endAbort ending = iota
	endKeep
	endRuns
	endClose
	endWrite
	endLinger
	endCut
)

var (
	// Runs leaves it open: the lease goes on, since its request has not ended, or the lease has ended as it should.
	Runs = Outcome{end: endRuns}
	// Close ends it after what was written.
	Close = Outcome{end: endClose}
	// Abort resets it: the client must not take what it got for the whole.
	Abort = Outcome{end: endAbort}
	// Cut is Abort for a client to which the kernel has moved a part: the client gets that before the reset.
	Cut = Outcome{end: endCut}
	// EndWrite ends the daemon's sending side: the endpoint has closed its side of a tunnel.
	EndWrite = Outcome{end: endWrite}
	// Linger is Close for a client that may be sending still, the rest of a request that has been answered: what it has been told
	// would be lost in the reset that bytes nobody reads are answered with.
	Linger = Outcome{end: endLinger}
)

// Keep leaves it open for the client's next request. The lease has been broken, what was written is whole, and so is the request.
func Keep(w maps.Whole) Outcome { return Outcome{end: endKeep, whole: w} }

// Use lets f answer in place of a lease's endpoint: f alone writes to the client's connection, and returns the bytes it wrote and what is
// to become of the connection. Requests that the client sent behind wait until then. It reports false when the client has gone, or
// cannot be accepted: then its connection is reset as soon as it is.
func (s *Set) Use(cookie uint64, l maps.Lease, reason maps.Verdict, f func(conn net.Conn) (written uint64, o Outcome)) bool {
	refused := s.refusals.Load()
	c := s.find(cookie)
	if c == nil && s.refusals.Load() != refused {
		// It may wait to be accepted.
		c = s.deferReset(cookie, l, reason)
		if c == nil {
			return false
		}
	}
	if c == nil {
		if err := s.cfg.Sockets.SlowConns.Delete(cookie); err != nil {
			s.cfg.Logger.Warn("forget connection", "err", err)
		}
		return false
	}
	if c.isLeaseless() {
		return false
	}
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	conn := c.open()
	if conn == nil || c.isOver() {
		return false
	}
	// Before the first byte: from now on, redirected bytes could overtake what is written here.
	if err := s.cfg.Sockets.MarkSlow(cookie, reason, l); err != nil {
		s.cfg.Logger.Warn("use connection", "err", err)
		c.abort()
		return false
	}
	if reason == maps.VerdictSpilled {
		c.awaitBeginning(l)
	}
	written, o := s.answer(conn, f)
	c.written += written
	c.part(conn, l, o)
	return true
}

// answer has a connection answered, and reset where that panics.
func (s *Set) answer(conn net.Conn, f func(net.Conn) (uint64, Outcome)) (written uint64, o Outcome) {
	defer s.cfg.Crashes.Recover("an answer in place of an endpoint", func() { written, o = 0, Abort })
	return f(conn)
}

// part does with a connection what its use has decided. The caller holds writeMu.
func (c *Conn) part(conn *socket, l maps.Lease, o Outcome) {
	switch o.end {
	case endKeep:
		if !o.whole.Of(l) {
			c.abort()
			return
		}
		c.setNotified(o.whole)
		c.offer(maps.OfferAnswered, false)
	case endRuns:
		c.forwarded = l
		c.offer(maps.OfferAnswered, false)
	case endClose:
		// Interim responses may have been moved before.
		if !c.awaitMoved() {
			c.abort()
			return
		}
		c.closeLocked()
	case endCut:
		c.awaitSender()
		c.abort()
	case endLinger:
		c.end()
		if !c.awaitSender() {
			c.abort()
			return
		}
		// It fails when the client has gone.
		_ = conn.CloseWrite()
		if !c.spawn(func() { c.linger(conn) }) {
			c.closeLocked()
		}
	case endWrite:
		if !c.awaitSender() {
			c.abort()
			return
		}
		// It fails when the client has gone, which ends the connection elsewhere.
		_ = conn.CloseWrite()
	default:
		c.abort()
	}
}

// linger closes a connection that is over when its client has ended its side, or a while later. It reads what comes until then, unless somebody else
// does.
func (c *Conn) linger(conn *socket) {
	deadline := time.Now().Add(limits.LingerTime)
	c.dropUnread(conn, deadline)
	c.awaitUntil(max(time.Until(deadline), longestPause), func() bool {
		return c.isClosed() || poller.HasEnded(c.fd) && poller.Look(c.fd) != poller.Readable
	})
	c.close()
}

func (c *Conn) dropUnread(conn *socket, deadline time.Time) {
	if c.readMu.TryLock() {
		defer c.readMu.Unlock()
		conn.drop(deadline)
	}
}

// Resend lets the slow path go on with a lease's request, in place of its endpoint. The proof is the lease's. It reports false, and does
// nothing, when the client has gone or has sent more already: then its bytes wait for this answer.
func (s *Set) Resend(cookie uint64, l maps.Lease, w maps.Whole, serve func(ctx context.Context, conn net.Conn, at Boundary, s Session) Result) bool {
	c := s.find(cookie)
	if c == nil || c.isLeaseless() || !w.Of(l) || !c.lockRead() {
		return false
	}
	defer c.readMu.Unlock()
	return s.Use(cookie, l, maps.VerdictRequestOnSlowPath, func(net.Conn) (uint64, Outcome) {
		s.active.Add(1)
		defer s.active.Add(-1)
		// A goroutine that waits for the client to be notified may go on to wait for the connection.
		c.setNotified(w)
		r := c.boundaryBehind(w).read(c.session(maps.SlowConn{}), serve)
		c.served.Store(time.Now().UnixNano())
		if r.Requests > 1 {
			// The kernel has counted the first one.
			c.requests.Add(r.Requests - 1)
		}
		c.read += r.Read
		if !r.Keep {
			return r.Written, Close
		}
		return r.Written, Keep(w)
	})
}

// arrivalPatience is longer than the kernel takes to make up for the end of a handshake that was lost: it sends again after a second.
const arrivalPatience = 3 * time.Second

// find returns a client's connection, accepting it if need be; nil when the client has gone, or cannot be accepted. The client's first
// request does not come over TCP: it may be answered before the end of its handshake is here.
func (s *Set) find(cookie uint64) *Conn {
	refused, deadline := s.refusals.Load(), time.Now().Add(arrivalPatience)
	for {
		if c := s.findNow(cookie); c != nil {
			return c
		}
		if !s.isArriving(cookie) || s.refusals.Load() != refused || s.ctx.Err() != nil || time.Now().After(deadline) {
			// Another goroutine may have accepted it behind the look. AcceptNow waits for that one.
			s.AcceptNow()
			return s.lookUp(cookie)
		}
		time.Sleep(longestPause)
	}
}

func (s *Set) findNow(cookie uint64) *Conn {
	for range 2 {
		if c := s.lookUp(cookie); c != nil {
			return c
		}
		s.AcceptNow()
	}
	return nil
}

func (s *Set) lookUp(cookie uint64) *Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns[cookie]
}

// isArriving reports whether a client that is there still has a connection that was never accepted. It looks at all of those: for rare
// occasions.
func (s *Set) isArriving(cookie uint64) (arriving bool) {
	if !s.cfg.FastPath || !s.cfg.Sockets.ClientOpen(cookie) {
		return false
	}
	err := s.cfg.Sockets.Conns.Each(func(_ maps.ConnKey, r maps.ConnRecord) bool {
		arriving = r.Cookie == cookie
		return !arriving
	})
	if err != nil {
		s.cfg.Logger.Warn("look for a connection", "err", err)
	}
	return arriving
}

// Stats are counts of connections.
type Stats struct {
	Open     int
	Accepted uint64
}

// Stats returns the current counts.
func (s *Set) Stats() Stats {
	s.AcceptNow()
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Open: len(s.conns), Accepted: s.accepts}
}

// Active is the number of connections that the slow path is serving.
func (s *Set) Active() int { return int(s.active.Load()) }

// Info describes one open connection.
type Info struct {
	Cookie      uint64
	VIP, Client netip.AddrPort
	Listener    uint32
	// Workload is the network namespace of the client.
	Workload workload.ID
	// Opened is when it was accepted.
	Opened time.Time
	// Bound: it came to a bound socket, and was not intercepted.
	Bound bool
	// Guarded: it is kept off the fast path (Set.Guard).
	Guarded bool
}

// List returns the open connections, in no order.
func (s *Set) List() []Info {
	s.AcceptNow()
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Info, 0, len(s.conns))
	for _, c := range s.conns {
		list = append(list, Info{Cookie: c.cookie, VIP: c.vip, Client: c.client, Listener: c.listener, Workload: c.workload.ID, Opened: c.opened, Bound: c.bound != nil, Guarded: c.guarded.Load()})
	}
	return list
}

// StopListening takes back the announcements and closes the listeners, those of all workloads; no workload joins any more. Open connections stay.
func (s *Set) StopListening() error {
	s.joining.Lock()
	defer s.joining.Unlock()
	s.stopped = true
	list := *s.listeners.Load()
	err := s.cfg.Sockets.Anchors.Delete(s.cfg.Own.Netns)
	for _, l := range list {
		err = errors.Join(err, s.cfg.Sockets.Anchors.Delete(l.workload.Netns))
	}
	clear(s.announced)
	clear(s.withdrawn)
	s.setListeners(nil)
	if err := errors.Join(err, closeAll(list)); err != nil {
		return fmt.Errorf("close anchor listeners: %w", err)
	}
	return nil
}

// Close closes every connection and waits for all goroutines.
func (s *Set) Close() error {
	err := s.StopListening()
	err = errors.Join(err, s.inner.close())
	if s.accepting != nil {
		s.accepting.Stop()
	}
	s.mu.Lock()
	s.closing = true
	var open []*Conn
	for _, c := range s.conns {
		open = append(open, c)
	}
	s.mu.Unlock()
	s.cancel()
	for _, c := range open {
		c.close()
	}
	s.wg.Wait()
	return errors.Join(err, s.ready.close(), s.poller.Close())
}
