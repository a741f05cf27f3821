// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/poller"
	"github.com/xlb-project/xlb/internal/quota"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/usage"
	"github.com/xlb-project/xlb/internal/workload"
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
	// Carries is whose the request is, and where to.
	Carries usage.Destination
	Cookie  uint64
	Why     Failure
	// Head reports that the request was a HEAD.
	Head bool
	// ResponseStarted: the client has some of the response. Whole: the response is framed to its end. ReplyOpen: it is not known to have been moved to there.
	ResponseStarted, Whole, ReplyOpen bool
	// RequestOpen: the client has not sent all of its request; of a tunnel, that it has not ended its side.
	RequestOpen bool
	// Copy is the request if it may be sent again; nil otherwise. Unseen: it is certain that no server has seen it, so that its method is of
	// no consequence. In any other case the route's policy decides.
	Copy   *RequestCopy
	Unseen bool
}

// RequestCopy is a request that the kernel has begun to serve, and has kept a copy of.
type RequestCopy struct {
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
	// meanwhile, and may block. runs: it has not broken the lease; should that break otherwise, its client is still to be notified.
	Spill(ctx context.Context, s Spilled) (runs bool)
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
	// Carries is whose the request is, and where to.
	Carries usage.Destination
	// Copy is the request if the route's policy may want to send it again; nil otherwise. Nothing of the response has been moved.
	Copy *RequestCopy
}

// Config is what a pool needs. All fields are required but the limits, PrepareRemote, Partings
// and SynchronizeRCU.
type Config struct {
	Shared *maps.Shared
	// Ledger counts what i-socks have carried; nil: nothing does.
	Ledger  *usage.Ledger
	Sockets *maps.Sockets
	Clients Clients
	Logger  *slog.Logger
	// Own is the daemon's own network namespace. NoHost: it is not served, and has no i-socks.
	Own    *workload.Workload
	NoHost bool
	// Initial and Max bound the i-socks of one workload to one endpoint; 0 means 4 and 2048. Initial is of the host alone: other workloads have
	// none before their requests ask for some.
	Initial, Max int
	// Eager is up to how many endpoints there may be for each to have its Initial i-socks; 0 means 256. Where there are more, an
	// endpoint is connected to when a request finds no i-sock of it, or when it comes to a cluster most of whose endpoints have one,
	// and gets no more before they are missed once half of the slots are in use, unless its workload has few.
	Eager int
	// StreamIdle is how long a leased i-sock may carry nothing, 0 means 5 minutes, as Envoy's
	// HttpConnectionManager.stream_idle_timeout.
	StreamIdle time.Duration
	// ShrinkAfter is how long an endpoint keeps i-socks that it does not need, 0 means 10 s.
	ShrinkAfter time.Duration
	// LastAfter is how long an endpoint that is not asked keeps its last i-sock where there are too many for Initial each, 0 means 5 min; it is closed
	// earlier where slots become scarce, unless its workload has few.
	LastAfter time.Duration
	// CongestionControl of i-socks, as in /proc/sys/net/ipv4/tcp_available_congestion_control; "" is the machine's.
	CongestionControl string
	// Released is told when the last i-sock of a removed endpoint has closed.
	Released func(endpoint uint32)
	// Refused is told when the host could not connect to an endpoint, or the endpoint has closed a connection that it had just accepted; open is how
	// many others there are. Connects of other workloads do not count, nor, once a workload has joined, those to loopback addresses, nor those to an endpoint
	// that another workload reaches. It must not block.
	Refused func(endpoint uint32, open int)
	// Descriptors are how many of the daemon's are for i-socks, and for what each workload takes beside connections, while workloads other than the host are
	// served; 0: there may be as many i-socks as there are slots.
	Descriptors int
	// PrepareRemote is given the descriptor of each new i-sock to another host before a request takes it;
	// an error gives the i-sock up. nil: nothing is to be done. It must not keep the descriptor.
	PrepareRemote func(fd int) error
	// Partings are those of all connections to endpoints; nil: the pool's own.
	Partings *upstream.Partings
	// SynchronizeRCU waits until every program that was running has ended. nil: bpfmap.SynchronizeRCU.
	SynchronizeRCU func() error
	// Now tells how long an i-sock has lasted. nil: time.Now.
	Now func() time.Time
}

// Endpoint is where i-socks lead.
type Endpoint struct {
	Index          uint32
	Address        netip.AddrPort
	ConnectTimeout time.Duration
	// Cluster that the endpoint is of, and how many i-socks each workload may have to all of its endpoints, 0 for any number: a workload counts as an Envoy
	// of its own does beside it. As in Envoy each endpoint has one in any case.
	Cluster        model.ClusterKey
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
	dialer dialer
	// probeTickets bound the probes in progress: each holds one.
	probeTickets chan struct{}
	// probePartings are those of probes: a thousand endpoints have more in a minute than the daemon's other connections may.
	probePartings upstream.Partings

	mu sync.Mutex
	// floor is how many i-socks of the host an endpoint that is not asked keeps.
	floor        int
	destinations map[uint32]*destination
	// active is how many of them are not removed.
	active int
	// origins are the workloads that have i-socks, or may have some. others counts those that are not the host, and have not left.
	origins map[workload.ID]*origin
	others  int
	// live are the subpools that have i-socks, leaving those that are gone: of thousands few, and sweeps look at them alone.
	live, leaving map[*subpool]struct{}
	isocks        map[uint32]*isock
	// held are the subpools of which broken i-socks are to be replaced later, heldBack counts
	// those that were.
	held     map[*subpool]struct{}
	heldBack atomic.Uint64
	// ofCluster counts the i-socks of each workload to each cluster, those that are being opened too.
	ofCluster map[clusterKey]uint32
	// users are the workloads that have some to a cluster.
	users map[model.ClusterKey]map[*origin]struct{}
	// probers is how many goroutines probe, or wait for that.
	probers int
	// free are slots, pools indices of maps.Shared.Pools.
	free, pools []uint32
	// slots is who has those that are not free: open i-socks, those being opened, and zombies.
	slots *quota.Table[workload.ID]
	// warned is when a lack of room was logged last.
	warned time.Time
	// zombies are the slots of i-socks that are closed, or could not be connected, on which programs
	// may still be at work, or that still lie in a stack.
	zombies map[uint32]*subpool
	// lent are the slots that somebody outside is to end a part of a lease of: until then none becomes another i-sock's.
	lent map[uint32]struct{}
	// reclaiming: a goroutine is about to free their slots.
	reclaiming bool
	// growPolled is when the pool last looked at which subpools wait for more i-socks, or are of no use any more.
	growPolled time.Time
	// calm is between two looks while there is little to see.
	calm time.Duration
	// beats sweeps.
	beats *poller.Beat
}

const (
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
	if cfg.SynchronizeRCU == nil {
		cfg.SynchronizeRCU = bpfmap.SynchronizeRCU
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Partings == nil {
		cfg.Partings = &upstream.Partings{}
	}
	po, err := poller.New()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Pool{
		cfg:          cfg,
		poller:       po,
		ctx:          ctx,
		cancel:       cancel,
		dialer:       dialer{isn: newISNGenerator(), congestion: cfg.CongestionControl},
		probeTickets: make(chan struct{}, maxProbes),
		destinations: map[uint32]*destination{},
		origins:      map[workload.ID]*origin{},
		live:         map[*subpool]struct{}{},
		leaving:      map[*subpool]struct{}{},
		isocks:       map[uint32]*isock{},
		held:         map[*subpool]struct{}{},
		ofCluster:    map[clusterKey]uint32{},
		users:        map[model.ClusterKey]map[*origin]struct{}{},
		zombies:      map[uint32]*subpool{},
		lent:         map[uint32]struct{}{},
		free:         indices(len(cfg.Shared.Slots)),
		slots:        quota.New[workload.ID](len(cfg.Shared.Slots), 1),
		pools:        indices(len(cfg.Shared.Pools)),
		calm:         calmInterval,
	}
	if !cfg.NoHost {
		p.origins[workload.Host] = newOrigin(cfg.Own, maxDials)
		p.slots.Join(workload.Host)
	}
	p.shareLocked()
	if p.beats, err = poller.Every(p.beat); err != nil {
		cancel()
		return nil, errors.Join(err, po.Close())
	}
	return p, nil
}

// indices are so many, the first one last: that is taken first.
func indices(count int) (list []uint32) {
	for i := count; i > 0; i-- {
		list = append(list, uint32(i-1))
	}
	return list
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
	for _, d := range p.destinations {
		for _, sub := range d.subpools {
			if sub.retry != nil {
				sub.retry.Stop()
			}
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

// Knows reports whether an endpoint is connected to, or has i-socks yet to be closed, whichever workload's.
func (p *Pool) Knows(index uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.destinations[index] != nil
}

// Usage is which workload has how many slots, those of closed i-socks that are not free yet too, and how often one had no room for another i-sock.
func (p *Pool) Usage() quota.Usage[workload.ID] { return p.slots.Usage() }

// Ready reports whether every endpoint that is to have i-socks of the host has been tried: they are open, or could not be opened, or there was no room for
// them, which waiting does not change.
func (p *Pool) Ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.destinations {
		if sub := d.host(); sub != nil && sub.open == 0 && sub.dialing > 0 && sub.target > 0 && sub.backoff == 0 && !sub.gone() {
			return false
		}
	}
	return true
}
