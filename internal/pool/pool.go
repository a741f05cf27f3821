// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/poller"
	"github.com/xlb-project/xlb/internal/upstream"
)

// Failure is how a leased request ended without its response.
type Failure uint8

const (
	// Reset: the endpoint closed the connection, or sent what is not HTTP.
	Reset Failure = iota
	// Timeout: the route's time was up.
	Timeout
	// Stalled: nothing moved, in either direction, for as long as a request may stand still.
	Stalled
	// RequestTimeout: the client's time to send the request was up.
	RequestTimeout
)

// Lost is a lease that ended without its response.
type Lost struct {
	Lease maps.Lease
	// Endpoint is its index.
	Endpoint uint32
	Cookie   uint64
	Why      Failure
	// Head reports that the request was a HEAD.
	Head bool
	// Begun: the client has some of the response. Whole: all of it.
	Begun, Whole bool
	// RequestOpen: the client has not sent all of its request; of a tunnel, that it has not ended its side.
	RequestOpen bool
	// Kept is the request if it may be sent again; nil otherwise. Unseen: it is certain that no server has seen it, so that its method is of
	// no consequence. In any other case the route's policy decides.
	Kept   *Kept
	Unseen bool
}

// Kept is a request that the kernel has begun to serve.
type Kept struct {
	// Request is whole, and as the client has sent it.
	Request string
	// Draw is the random number that has decided about it, 0 for none.
	Draw uint64
	// Began is when it was sent, Deadline the end of the route's timeout; zero: there is none.
	Began, Deadline time.Time
}

// Clients answers, over TCP, clients whose lease the pool had to end or whose response spills.
type Clients interface {
	// Fail ends a request: a local reply when nothing of the response has reached the client, an abort when not all has.
	Fail(l Lost)
	// Spill reads the rest of a response and forwards it, until the lease has ended. It owns the slot's response
	// meanwhile, and may block.
	Spill(ctx context.Context, s Spilled)
}

// ErrLate is the cause with which the context of a Spill ends when the request, or the response behind it, has not come in time.
var ErrLate = errors.New("time of the request or of its response is up")

// Spilled is a response that the daemon has to forward.
type Spilled struct {
	Lease  maps.Lease
	Cookie uint64
	// Upstream is the pool's to close.
	Upstream *upstream.Conn
	// Head reports that the request was a HEAD, Upgrade that it asked for another protocol.
	Head, Upgrade bool
	// Deadline of the response. While the request is coming there is none yet: when the time of the lease is up, the context of Spill ends with
	// ErrLate.
	Deadline time.Time
	// Idle is the longest time without progress, zero for the usual one, negative for none.
	Idle time.Duration
	// Endpoint is its index.
	Endpoint uint32
	// Kept is the request if the route's policy may want to send it again; nil otherwise. Nothing of the response has been moved.
	Kept *Kept
}

// Config is what a pool needs. All fields are required but the limits.
type Config struct {
	Shared  *maps.Shared
	Sockets *maps.Sockets
	Clients Clients
	Logger  *slog.Logger
	// Netns is the cookie of the network namespace the i-socks live in.
	Netns uint64
	// Initial and Max bound the i-socks of one endpoint; 0 means 4 and 2048.
	Initial, Max int
	// Eager is up to how many endpoints there may be for each to have its Initial i-socks; 0 means 256. Where there are more, an
	// endpoint is connected to when a request finds no i-sock of it, or when it comes to a cluster most of whose endpoints have one,
	// and gets no more before they are missed once half of the slots are in use.
	Eager int
	// StreamIdle is how long a leased i-sock may carry nothing, 0 means 5 minutes, as Envoy's
	// HttpConnectionManager.stream_idle_timeout.
	StreamIdle time.Duration
	// ShrinkAfter is how long an endpoint keeps i-socks that it does not need, 0 means 10 s.
	ShrinkAfter time.Duration
	// LastAfter is how long an endpoint that is not asked keeps its last i-sock where there are too many for Initial each, 0 means 5 min; it is closed
	// earlier where slots become scarce.
	LastAfter time.Duration
	// CongestionControl of i-socks, as in /proc/sys/net/ipv4/tcp_available_congestion_control; "" is the machine's.
	CongestionControl string
	// Released is told when the last i-sock of a removed endpoint has closed.
	Released func(endpoint uint32)
	// Refused is told when an endpoint could not be connected to, or has closed a connection that it had just accepted; open is how
	// many others there are. It must not block.
	Refused func(endpoint uint32, open int)
}

// Endpoint is where i-socks lead.
type Endpoint struct {
	Index          uint32
	Address        netip.AddrPort
	ConnectTimeout time.Duration
	// Cluster that the endpoint is of, and how many i-socks there may be to all of its endpoints, 0 for any number. As in Envoy each
	// endpoint has one in any case.
	Cluster        string
	MaxConnections uint32
	Limits         Limits
	// Draining: it gets no new requests, and its connections are to close when they are idle. One that a request takes all the same,
	// since there is no other, is connected to again.
	Draining bool
}

// Pool owns all i-socks.
type Pool struct {
	cfg    Config
	poller *poller.Poller
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	// dials bounds connects in progress.
	dials chan struct{}

	mu sync.Mutex
	// floor is how many i-socks an endpoint that is not asked keeps.
	floor     int
	endpoints map[uint32]*endpoint
	// wanted is how many of them are not gone.
	wanted int
	// live are the endpoints that have i-socks, leaving those that are gone: of thousands few, and sweeps look at them alone.
	live, leaving map[uint32]*endpoint
	isocks        map[uint32]*isock
	// ofCluster counts the i-socks of each, those that are being opened too.
	ofCluster map[string]uint32
	free      []uint32
	// complain is when the last complaint about room was made.
	complain time.Time
	// zombies are the slots of closed i-socks that programs may still be at work on, or that still lie in a stack.
	zombies map[uint32]struct{}
	// burying: a goroutine is about to free their slots.
	burying bool
	// calm is between two looks while there is little to see.
	calm time.Duration
	// beats sweeps.
	beats *poller.Beat
}

// endpoint is guarded by Pool.mu.
type endpoint struct {
	Endpoint
	open    int
	dialing int
	// isocks are those that are open.
	isocks []*isock
	// dead counts its zombies.
	dead int
	// worn counts those that this sweep has closed for their age.
	worn int
	// target is how many i-socks it should have.
	target int
	demand demand
	gone   bool
	// backoff is the wait before the next connect after a failure, 0 after a success.
	backoff time.Duration
	retry   *time.Timer
}

const (
	maxDials     = 16
	firstBackoff = 20 * time.Millisecond
	longestWait  = 2 * time.Second
	// sweepInterval is between two looks at all i-socks while there is much to see, calmInterval while there is not, shortestPause the least
	// that a lease whose time is nearly up makes of that.
	sweepInterval = 20 * time.Millisecond
	calmInterval  = 250 * time.Millisecond
	shortestPause = time.Millisecond
)

// New returns a pool without endpoints; Close ends it.
func New(cfg Config) (*Pool, error) {
	if cfg.Initial == 0 {
		cfg.Initial = 4
	}
	if cfg.Max == 0 {
		cfg.Max = 2048
	}
	if cfg.Eager == 0 {
		cfg.Eager = 256
	}
	if cfg.StreamIdle == 0 {
		cfg.StreamIdle = 5 * time.Minute
	}
	if cfg.ShrinkAfter == 0 {
		cfg.ShrinkAfter = 10 * time.Second
	}
	if cfg.LastAfter == 0 {
		cfg.LastAfter = 5 * time.Minute
	}
	po, err := poller.New()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Pool{
		cfg:       cfg,
		poller:    po,
		ctx:       ctx,
		cancel:    cancel,
		dials:     make(chan struct{}, maxDials),
		endpoints: map[uint32]*endpoint{},
		live:      map[uint32]*endpoint{},
		leaving:   map[uint32]*endpoint{},
		isocks:    map[uint32]*isock{},
		ofCluster: map[string]uint32{},
		zombies:   map[uint32]struct{}{},
		calm:      calmInterval,
	}
	for i := len(cfg.Shared.Slots); i > 0; i-- {
		p.free = append(p.free, uint32(i-1))
	}
	if p.beats, err = poller.Every(p.beat); err != nil {
		cancel()
		return nil, errors.Join(err, po.Close())
	}
	return p, nil
}

// SetShortest says what the shortest time limit of any request is: leases are looked at more than once in that time, so that none is
// overdue unseen. 0: there is none.
func (p *Pool) SetShortest(limit time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calm = calmInterval
	if limit > 0 {
		p.calm = min(max(limit/2, sweepInterval), calmInterval)
	}
	p.beats.Soon(p.calm)
}

// Close closes every i-sock and waits for all goroutines.
func (p *Pool) Close() error {
	p.cancel()
	p.beats.Stop()
	p.mu.Lock()
	for _, e := range p.endpoints {
		if e.retry != nil {
			e.retry.Stop()
		}
	}
	p.mu.Unlock()
	p.wg.Wait()
	err := p.poller.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.isocks {
		p.cfg.Shared.Break(s.slot)
		p.closeLocked(s)
	}
	return err
}

// SetEndpoints makes these the endpoints to connect to. Others are drained: their idle i-socks close at once, leased ones when
// their lease ends.
func (p *Pool) SetEndpoints(list []Endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	keep := make(map[uint32]struct{}, len(list))
	for i := range list {
		keep[list[i].Index] = struct{}{}
	}
	var removed []uint32
	for index := range p.endpoints {
		if _, stays := keep[index]; !stays {
			removed = append(removed, index)
		}
	}
	p.changeLocked(list, removed)
}

// Change is SetEndpoints for a few: all but these, and the removed ones, which are told by their index, stay as they are.
func (p *Pool) Change(list []Endpoint, removed []uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changeLocked(list, removed)
}

func (p *Pool) changeLocked(list []Endpoint, removed []uint32) {
	var fresh []*endpoint
	for i := range list {
		if e, isNew := p.wantLocked(&list[i]); isNew {
			fresh = append(fresh, e)
		}
	}
	leaving := make([]*endpoint, 0, len(removed))
	for _, index := range removed {
		if e := p.endpoints[index]; e != nil && !e.gone {
			leaving = append(leaving, e)
		}
	}
	p.wanted -= len(leaving)
	before := p.floor
	if p.floor = p.cfg.Initial; p.wanted > p.cfg.Eager {
		// Thousands of connections at once would be a storm, and most of them for nothing.
		p.floor = 0
		p.expectLocked(list, fresh, leaving)
	}
	for i := range list {
		p.followLocked(p.endpoints[list[i].Index])
	}
	for _, e := range leaving {
		p.drainLocked(e)
	}
	if p.floor <= before {
		return
	}
	for _, e := range p.endpoints {
		if !e.gone {
			p.followLocked(e)
		}
	}
}

// expectLocked has an i-sock opened for a new endpoint before it is asked, where most of its cluster's others have one: what takes the place of
// an endpoint in use will be asked as well, and its first request would take the slow path and open two connections. A cluster gets no more of
// them at once than it had.
func (p *Pool) expectLocked(list []Endpoint, fresh, leaving []*endpoint) {
	if len(fresh) == 0 || len(p.free) <= len(p.cfg.Shared.Slots)/spared {
		return
	}
	// use is how many endpoints there were besides the new ones, and how many of them have i-socks.
	type use struct{ endpoints, asked int }
	of, isNew := map[string]*use{}, map[*endpoint]bool{}
	for _, e := range fresh {
		of[e.Cluster], isNew[e] = &use{}, true
	}
	count := func(e *endpoint) {
		u := of[e.Cluster]
		if u == nil || isNew[e] {
			return
		}
		u.endpoints++
		if e.open > 0 {
			u.asked++
		}
	}
	for i := range list {
		count(p.endpoints[list[i].Index])
	}
	for _, e := range leaving {
		count(e)
	}
	for _, e := range fresh {
		// Of both as many are taken away as leaves the comparison as it is.
		if u := of[e.Cluster]; u.asked > 0 && 2*u.asked >= u.endpoints {
			u.asked, u.endpoints = u.asked-1, u.endpoints-2
			e.target = max(e.target, 1)
		}
	}
}

// wantLocked notes what an endpoint is to be, and reports whether it is new, or has come back.
func (p *Pool) wantLocked(want *Endpoint) (e *endpoint, isNew bool) {
	e = p.endpoints[want.Index]
	if e == nil {
		e = &endpoint{gone: true}
		p.endpoints[want.Index] = e
	}
	e.Endpoint = *want
	if isNew = e.gone; isNew {
		e.gone = false
		p.wanted++
		delete(p.leaving, want.Index)
	}
	return e, isNew
}

// followLocked opens and closes i-socks as the endpoint's settings say.
func (p *Pool) followLocked(e *endpoint) {
	e.target = max(e.target, p.floorOf(e))
	if e.Draining {
		e.target = 0
		p.retireLocked(e)
	}
	p.fillLocked(e)
}

// Knows reports whether an endpoint is connected to, or has i-socks yet to be closed.
func (p *Pool) Knows(index uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.endpoints[index] != nil
}

// Ready reports whether every endpoint that is to have i-socks has been tried: they are open, or could not be opened.
func (p *Pool) Ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.endpoints {
		if e.open == 0 && e.target > 0 && e.backoff == 0 && !e.gone {
			return false
		}
	}
	return true
}

// Grow opens more i-socks for an endpoint that ran out of idle ones, or is about to: half as many again as are in use, and one for each request
// that has found none.
func (p *Pool) Grow(index uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.endpoints[index]
	if e == nil || e.gone {
		return
	}
	shared := &p.cfg.Shared.Endpoints[index]
	missed := int(atomic.SwapUint32(&shared.Missed, 0))
	leased := p.leasedLocked(e)
	if missed > 0 {
		// All were in use a moment ago.
		leased = e.open
	}
	e.demand.peak = max(e.demand.peak, leased)
	if leased >= busy(e.open) && (missed > 0 || p.hasSparesLocked()) {
		e.target = min(max(e.target, leased+(leased+1)/2, e.open+missed, 1), p.cfg.Max)
	}
	p.fillLocked(e)
	if e.dialing > 0 {
		return
	}
	// Enough are idle, or there is no way to open more. To ask again would change nothing until requests are more, or an i-sock opens.
	at := uint32(0)
	if idle := busy(e.open) - leased; idle > 0 && e.open >= enough {
		at = atomic.LoadUint32(&shared.Outstanding) + uint32(idle)
	}
	atomic.StoreUint32(&shared.AskAt, at)
	atomic.StoreUint32(&shared.Want, 0)
}

// hasSparesLocked reports whether an endpoint may have i-socks before requests have missed them. Thousands of endpoints that are asked now and then would
// each get a second one with every request and lose it soon after, each time with another source port that stays in use for a minute, and leave no
// slots for the first ones of others.
func (p *Pool) hasSparesLocked() bool {
	return p.floor > 0 || 2*len(p.free) > len(p.cfg.Shared.Slots)
}

func (p *Pool) leasedLocked(e *endpoint) (n int) {
	for _, s := range e.isocks {
		if p.cfg.Shared.State(s.slot) == maps.SlotLeased {
			n++
		}
	}
	return n
}

// busy is how many of so many i-socks must be in use for more to be opened before all are.
func busy(open int) int { return open - open/4 }

// enough is how many i-socks an endpoint must have for that.
const enough = 8

// askLocked says at how many requests an endpoint is to have more i-socks. To open them takes time, of which a busy machine has little: those
// that find none meanwhile are served in user space, and take more of it. Requests of the slow path count as well: Grow looks closer.
func (p *Pool) askLocked(e *endpoint) {
	at := 0
	if e.open >= enough && e.open < p.cfg.Max {
		at = busy(e.open)
	}
	atomic.StoreUint32(&p.cfg.Shared.Endpoints[e.Index].AskAt, uint32(at))
}

// Again connects at once to an endpoint that the pool avoids for a while, because somebody has seen that it is well.
func (p *Pool) Again(index uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A timer that cannot be stopped has fired: it connects anyway.
	if e := p.endpoints[index]; e != nil && e.retry != nil && e.retry.Stop() {
		e.retry = time.AfterFunc(0, func() { p.retry(e) })
	}
}

// fillLocked starts as many connects as the endpoint is short of.
func (p *Pool) fillLocked(e *endpoint) {
	if e.backoff > 0 || e.gone || p.ctx.Err() != nil {
		return
	}
	for e.open+e.dialing < e.target {
		if len(p.free) == 0 {
			p.complainLocked(e, fmt.Errorf("no free slot among %d", len(p.cfg.Shared.Slots)))
			return
		}
		if err := p.holdLocked(); err != nil {
			p.complainLocked(e, err)
			return
		}
		if !p.mayOpenLocked(e) {
			return
		}
		p.openLocked(e)
	}
}

// mayOpenLocked reports whether the endpoint's cluster may have another i-sock.
func (p *Pool) mayOpenLocked(e *endpoint) bool {
	return e.open+e.dialing == 0 || e.MaxConnections == 0 || p.ofCluster[e.Cluster] < e.MaxConnections
}

// openLocked takes a free slot, of which there must be one, for another i-sock.
func (p *Pool) openLocked(e *endpoint) {
	slot := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	e.dialing++
	p.ofCluster[e.Cluster]++
	p.wg.Add(1)
	go p.open(e, e.Endpoint, slot)
}

// uncountLocked takes an i-sock from its cluster's count.
func (p *Pool) uncountLocked(e *endpoint) {
	if p.ofCluster[e.Cluster]--; p.ofCluster[e.Cluster] == 0 {
		delete(p.ofCluster, e.Cluster)
	}
}

// holdLocked has the kernel's array of slots hold the next one. There is a free one.
func (p *Pool) holdLocked() error {
	return p.cfg.Shared.Hold(maps.GrowingSlots, p.free[len(p.free)-1], 1)
}

// complainLocked reports, at most once a second, that there is no room for an i-sock: each request to the endpoint asks again.
func (p *Pool) complainLocked(e *endpoint, err error) {
	if time.Since(p.complain) < time.Second {
		return
	}
	p.complain = time.Now()
	p.cfg.Logger.Warn("no room for an i-sock; requests that find none are served in user space", "endpoint", e.Address, "err", err)
}

// open connects one i-sock and puts it in service.
func (p *Pool) open(e *endpoint, to Endpoint, slot uint32) {
	defer p.wg.Done()
	p.dials <- struct{}{}
	s, err := p.connect(to, slot)
	<-p.dials

	p.mu.Lock()
	defer p.mu.Unlock()
	e.dialing--
	if err != nil {
		p.free = append(p.free, slot)
		p.uncountLocked(e)
		p.failedLocked(e, err)
		return
	}
	e.open++
	e.add(s)
	p.askLocked(e)
	p.live[e.Index] = e
	e.backoff = 0
	s.opened = time.Now()
	p.isocks[slot] = s
	shared := &p.cfg.Shared.Endpoints[to.Index]
	if atomic.LoadUint32(&shared.Flags)&uint32(maps.EndpointDown) != 0 {
		atomic.AndUint32(&shared.Flags, ^uint32(maps.EndpointDown))
		p.cfg.Logger.Info("endpoint is back", "endpoint", to.Address)
	}
	if e.gone || p.ctx.Err() != nil {
		p.cfg.Shared.Exchange(slot, maps.SlotConnecting, maps.SlotBroken)
		p.closeLocked(s)
		return
	}
	p.serveLocked(s)
	atomic.StoreUint32(&shared.Want, 0)
	p.fillLocked(e)
}

// serveLocked makes a connected i-sock leasable.
func (p *Pool) serveLocked(s *isock) {
	p.cfg.Shared.Exchange(s.slot, maps.SlotConnecting, maps.SlotReady)
	if err := p.watch(s); err != nil || !p.cfg.Shared.Push(s.slot) {
		p.cfg.Shared.Break(s.slot)
		p.closeLocked(s)
	}
}

// watch begins to wait for the endpoint's end of the connection. What an endpoint elsewhere sends passes a kernel program, which
// tells when there is something for the daemon; what it sent before the program was there is unasked for.
func (p *Pool) watch(s *isock) error {
	if !s.remote {
		return p.poller.Watch(s.fd, s)
	}
	if err := p.poller.WatchClose(s.fd, s); err != nil {
		return err
	}
	if !s.idle() {
		return errUnasked
	}
	return nil
}

var (
	errUnasked = errors.New("the endpoint speaks first")
	errUnused  = errors.New("the endpoint closes new connections")
)

// connect opens the socket of a slot. On error nothing of it is left.
func (p *Pool) connect(to Endpoint, slot uint32) (*isock, error) {
	s := &isock{pool: p, slot: slot, endpoint: to.Index}
	p.cfg.Shared.Prepare(slot, to.Index)
	p.cfg.Shared.Slots[slot].MaxRequests = to.Limits.Requests
	announced := false
	fd, err := connect(p.ctx, to.Address, to.ConnectTimeout, p.cfg.CongestionControl, func(local netip.AddrPort) error {
		s.peer = peerKey(local, to.Address, p.cfg.Netns)
		announced = true
		return p.cfg.Sockets.Peers.Put(s.peer, slot)
	})
	if err == nil {
		s.fd = fd
		err = p.register(s)
		if err != nil {
			unix.Close(fd)
		}
	}
	if err == nil {
		return s, nil
	}
	if announced {
		err = errors.Join(err, p.cfg.Sockets.Peers.Delete(s.peer))
	}
	atomic.StoreUint32(&p.cfg.Shared.Slots[slot].State, uint32(maps.SlotFree))
	return nil, err
}

// register decides, once and for all, how requests reach this endpoint: into its socket when that is known to the
// kernel programs, through the network otherwise.
func (p *Pool) register(s *isock) error {
	if p.local(s.slot) {
		return nil
	}
	cookie, err := unix.GetsockoptUint64(s.fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil {
		return fmt.Errorf("read socket cookie: %w", err)
	}
	s.remote = true
	s.cookie = cookie
	return p.cfg.Sockets.JoinISock(s.slot, cookie, s.fd)
}

func (p *Pool) local(slot uint32) bool {
	return atomic.LoadUint32(&p.cfg.Shared.Slots[slot].Flags)&uint32(maps.SlotLocal) != 0
}

// failedLocked takes an endpoint out of service that has no connection and refuses new ones, and tries again later.
func (p *Pool) failedLocked(e *endpoint, err error) {
	if p.ctx.Err() != nil {
		return
	}
	if e.gone {
		p.releaseLocked(e)
		return
	}
	if e.backoff == 0 {
		e.backoff = firstBackoff
	}
	if upstream.IsShortage(err) {
		p.complainLocked(e, err)
	} else {
		p.refusedLocked(e, err)
	}
	if e.retry == nil {
		e.retry = time.AfterFunc(e.backoff, func() { p.retry(e) })
	}
}

// refusedLocked notes that an endpoint has not let itself be connected to.
func (p *Pool) refusedLocked(e *endpoint, err error) {
	if p.cfg.Refused != nil {
		p.cfg.Refused(e.Index, e.open)
	}
	flags := &p.cfg.Shared.Endpoints[e.Index].Flags
	if e.open == 0 && atomic.OrUint32(flags, uint32(maps.EndpointDown))&uint32(maps.EndpointDown) == 0 {
		p.cfg.Logger.Warn("endpoint is out of service", "endpoint", e.Address, "err", err)
	}
}

// retry probes with one connection; when it opens, the others follow.
func (p *Pool) retry(e *endpoint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.retry = nil
	if p.ctx.Err() != nil || e.gone || e.dialing > 0 {
		return
	}
	if e.open >= e.target {
		e.backoff = 0
		return
	}
	if len(p.free) == 0 || p.holdLocked() != nil {
		e.retry = time.AfterFunc(e.backoff, func() { p.retry(e) })
		return
	}
	e.backoff = min(2*e.backoff, longestWait)
	p.openLocked(e)
}

func (p *Pool) drainLocked(e *endpoint) {
	e.gone = true
	p.leaving[e.Index] = e
	e.backoff = 0
	if e.retry != nil {
		e.retry.Stop()
		e.retry = nil
	}
	p.retireLocked(e)
	p.releaseLocked(e)
}

// retireLocked closes an endpoint's idle i-socks, and the others when their lease ends.
func (p *Pool) retireLocked(e *endpoint) {
	for _, s := range slices.Clone(e.isocks) {
		p.cfg.Shared.Retire(s.slot)
		p.discardLocked(s)
	}
}

// add and remove keep the list of what is open.
func (e *endpoint) add(s *isock) {
	s.place = len(e.isocks)
	e.isocks = append(e.isocks, s)
}

func (e *endpoint) remove(s *isock) {
	last := len(e.isocks) - 1
	e.isocks[s.place] = e.isocks[last]
	e.isocks[s.place].place = s.place
	e.isocks[last] = nil
	e.isocks = e.isocks[:last]
}

// floorOf is how many i-socks an endpoint keeps that is not asked.
func (p *Pool) floorOf(e *endpoint) int {
	if e.Draining {
		return 0
	}
	return p.floor
}

// releaseLocked forgets a removed endpoint that has no i-sock left.
func (p *Pool) releaseLocked(e *endpoint) {
	if !e.gone || e.open > 0 || e.dialing > 0 || e.dead > 0 {
		return
	}
	delete(p.endpoints, e.Index)
	delete(p.leaving, e.Index)
	if p.cfg.Released != nil {
		p.cfg.Released(e.Index)
	}
}

// closeLocked closes the socket of a BROKEN slot. One that spills closes when that has ended; it is ended at once, since
// its client may be the one that left.
func (p *Pool) closeLocked(s *isock) {
	if s.busy != nil {
		s.busy()
		return
	}
	if p.isocks[s.slot] != s {
		return
	}
	delete(p.isocks, s.slot)
	if s.lent != nil {
		s.lent()
	}
	p.poller.Forget(s.fd)
	s.resetIfUnread()
	unix.Close(s.fd)
	err := p.cfg.Sockets.Peers.Delete(s.peer)
	if s.remote {
		err = errors.Join(err, p.cfg.Sockets.ISockSlots.Delete(s.cookie))
	}
	if err != nil {
		p.cfg.Logger.Warn("close i-sock", "slot", s.slot, "err", err)
	}
	p.zombies[s.slot] = struct{}{}
	e := p.endpoints[s.endpoint]
	if e == nil {
		return
	}
	e.open--
	e.remove(s)
	p.askLocked(e)
	p.uncountLocked(e)
	e.dead++
	if e.open == 0 {
		delete(p.live, e.Index)
	}
	if e.open >= e.target {
		return
	}
	switch lasted := time.Since(s.opened); {
	case s.unwanted || s.served() || lasted >= soon:
		p.fillLocked(e)
	case lasted >= atOnce:
		e.target = e.open
	default:
		// Without a pause this endpoint would be connected to as fast as it closes.
		p.failedLocked(e, errUnused)
	}
}

// forgetSpill removes the mark of a spill whose client had closed, daemon's end and all, when it was set. No program marks any more.
func (p *Pool) forgetSpill(slot uint32) error {
	sl := &p.cfg.Shared.Slots[slot]
	if !spilled(sl) {
		return nil
	}
	cookie := atomic.LoadUint64(&sl.Cookie)
	if p.cfg.Sockets.ClientOpen(cookie) {
		return nil
	}
	return p.cfg.Sockets.SlowConns.Delete(cookie)
}

// served reports whether an i-sock has carried a request.
func (s *isock) served() bool {
	return atomic.LoadUint64(&s.pool.cfg.Shared.Slots[s.slot].Traffic.Requests) != 0
}

// bury frees the slots that were closed before the call, except those that lie in a stack, once no program is at work on them.
func (p *Pool) bury() {
	p.mu.Lock()
	dead := p.deadLocked()
	p.mu.Unlock()
	if len(dead) == 0 {
		return
	}
	if err := maps.Settle(); err != nil {
		p.cfg.Logger.Warn("slots of closed i-socks are kept", "err", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, slot := range dead {
		p.buryLocked(slot)
	}
	p.purgeCrowdedLocked()
	for _, e := range p.leaving {
		p.releaseLocked(e)
	}
}

func (p *Pool) deadLocked() []uint32 {
	var dead []uint32
	for slot := range p.zombies {
		dead = append(dead, slot)
	}
	return dead
}

// buryLocked frees a closed slot that lies in no stack. Programs must have had time to end.
func (p *Pool) buryLocked(slot uint32) {
	sl := &p.cfg.Shared.Slots[slot]
	if _, dead := p.zombies[slot]; !dead || atomic.LoadUint32(&sl.Stacked) != 0 {
		return
	}
	if e := p.endpoints[sl.Endpoint]; e != nil {
		e.dead--
	}
	delete(p.zombies, slot)
	if err := p.forgetSpill(slot); err != nil {
		p.cfg.Logger.Warn("forget spilled response", "slot", slot, "err", err)
	}
	p.cfg.Shared.Free(slot)
	p.free = append(p.free, slot)
}

// purgeCrowdedLocked cleans the stacks that hold many dead slots, or nothing else, and those from which nobody takes any more.
func (p *Pool) purgeCrowdedLocked() {
	stacked := map[uint32]int{}
	for slot := range p.zombies {
		if atomic.LoadUint32(&p.cfg.Shared.Slots[slot].Stacked) != 0 {
			stacked[p.cfg.Shared.Slots[slot].Endpoint]++
		}
	}
	for index, n := range stacked {
		e := p.endpoints[index]
		if n >= crowdedStack || e == nil || e.gone || e.open == 0 {
			p.purgeLocked(index)
		}
	}
}

// purgeLocked takes broken slots out of an endpoint's stack. While it runs the stack is short of the good ones too, so
// it is for stacks that hold many.
func (p *Pool) purgeLocked(endpoint uint32) {
	var good []uint32
	for {
		slot := p.cfg.Shared.Pop(endpoint)
		if slot == maps.NoSlot {
			break
		}
		// The others have left the stack with this, and are freed at the next sweep.
		if p.cfg.Shared.State(slot) == maps.SlotReady {
			good = append(good, slot)
		}
	}
	for _, slot := range good {
		if !p.cfg.Shared.Push(slot) {
			p.cfg.Shared.Break(slot)
		}
	}
}
