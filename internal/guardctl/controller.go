// SPDX-License-Identifier: Apache-2.0

package guardctl

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/check"
	"github.com/xlb-project/xlb/internal/guard"
	"github.com/xlb-project/xlb/internal/logging"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/internal/shares"
)

// Config is what a Controller works with. All of it is needed, and safe for concurrent use.
type Config struct {
	Shared *maps.Shared
	Logger *slog.Logger
	// Acts: decisions are put in force. Otherwise broken invariants are logged only.
	Acts bool
	// Counts reads how often each invariant was broken, by maps.Guard.
	Counts func() ([]uint64, error)
	// AddressOf finds an endpoint by its index.
	AddressOf func(index uint32) (address netip.AddrPort, ok bool)
	Clients   Clients
	// WithEndpoints calls f with the endpoints in force. No other configuration comes into force meanwhile.
	WithEndpoints func(f func(endpoints []reconcile.EndpointEntry))
	// NewTicker sends at that pace while due reports true.
	NewTicker func(pace time.Duration, due func() bool) (call <-chan struct{}, stop func())
}

// Clients are the connections of clients (anchor.Set).
type Clients interface {
	// ClientOf returns the address of a client with an open connection, and its cgroups.
	ClientOf(cookie uint64) (client netip.AddrPort, cgroups shares.Path, ok bool)
	// Guard takes a connection off the fast path. It reports false if that is so already, or the client has gone.
	Guard(cookie uint64) (anew bool, err error)
}

// Controller takes in broken invariants, logs them, and takes off the fast path what package guard decides. Its methods are safe for concurrent use.
type Controller struct {
	cfg Config
	// mount is of the cgroup hierarchy; "": it cannot be seen, and no tenant is known.
	mount  string
	events chan maps.Event
	// looked is when the counts were read, of maps.Now; next is when something returns, 0: nothing
	// does; behind: the counts are to be read once more.
	looked, next atomic.Int64
	behind       atomic.Bool
	log          guardLog

	// mu guards policy. WithEndpoints comes before it.
	mu     sync.Mutex
	policy *guard.Policy
}

// pace is how often the counts are looked at, if there may be something to count, or to return. More
// events than eventCapacity do not wait: they are among those that are only counted.
const (
	pace          = time.Second
	eventCapacity = 128
)

// New returns a controller to which nothing has happened.
func New(cfg Config) *Controller {
	c := &Controller{cfg: cfg, events: make(chan maps.Event, eventCapacity), policy: guard.New(), log: guardLog{pace: time.Second}}
	c.looked.Store(maps.Now())
	c.mount, _ = check.CgroupMount()
	return c
}

// Event takes in an event of the kernel. It never waits.
func (c *Controller) Event(e maps.Event) {
	select {
	case c.events <- e:
	default:
	}
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	look, stop := c.cfg.NewTicker(pace, c.due)
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-c.events:
			c.take(time.Now(), e)
		case <-look:
			c.look(time.Now())
		}
	}
}

// countLag is how long a program may have counted, at most, since it raised an event: maps.h says
// 10 ms.
const countLag = int64(20 * time.Millisecond)

// due reports whether anything may have been counted since the last look, or is to return. It does
// not wait.
func (c *Controller) due() bool {
	last, at := int64(0), &c.cfg.Shared.Control.GuardNs
	for i := range at {
		last = max(last, int64(atomic.LoadUint64(&at[i])))
	}
	next := c.next.Load()
	return last+countLag >= c.looked.Load() || c.behind.Load() || next != 0 && maps.Now() >= next
}

// take takes an event in.
func (c *Controller) take(now time.Time, e maps.Event) {
	seen := guard.Event{What: maps.Guard(e.Detail), Client: e.Cookie}
	if seen.What == maps.GuardUnasked {
		// It was found before the lease was filled: the cookie is that of the lease before.
		seen.Client = 0
	}
	if address, ok := c.cfg.AddressOf(e.Endpoint); ok {
		seen.Endpoint = address
	}
	client := c.clientOf(&seen)
	if suppressed, ok := c.log.allows(now, maps.GuardName(seen.What)); ok {
		c.cfg.Logger.Warn("an exchange broke an invariant; it was ended, or its accounts were put right", "guard", maps.GuardName(seen.What),
			"endpoint", textOf(seen.Endpoint), "client", textOf(client), "cgroup", logging.NonZero(seen.Tenant), "cookie", logging.NonZero(seen.Client), "lease", e.Lease, "slot", e.Slot,
			"not_logged", logging.NonZero(suppressed))
	}
	c.mu.Lock()
	decisions := c.policy.Event(now, seen)
	c.mu.Unlock()
	c.act(now, decisions)
}

// clientOf finds a client's address, and whose it is.
func (c *Controller) clientOf(e *guard.Event) (client netip.AddrPort) {
	if e.Client == 0 {
		return client
	}
	client, path, open := c.cfg.Clients.ClientOf(e.Client)
	if !open || c.mount == "" {
		return client
	}
	tenant, err := tenantOf(c.mount, path)
	e.Tenant = tenant
	if err != nil {
		c.cfg.Logger.Debug("the cgroup of a client is not known", "client", textOf(client), "err", err)
	}
	return client
}

// look reads the counts, and lets return what is due.
func (c *Controller) look(now time.Time) {
	c.looked.Store(maps.Now())
	counts, err := c.cfg.Counts()
	if err != nil {
		c.cfg.Logger.Warn("reading guard counters failed; will retry", "err", err)
	}
	c.mu.Lock()
	missed, decisions := c.policy.Counts(now, counts)
	decisions = append(decisions, c.policy.Due(now)...)
	c.behind.Store(c.policy.Behind())
	c.mu.Unlock()
	for what, n := range missed {
		if n > 0 {
			c.cfg.Logger.Warn("exchanges broke an invariant, and nothing more is known of them", "guard", maps.GuardName(maps.Guard(what)), "count", n)
		}
	}
	c.act(now, decisions)
}

// act puts decisions in force.
func (c *Controller) act(now time.Time, decisions []guard.Decision) {
	defer c.plan()
	if !c.cfg.Acts {
		return
	}
	endpoints := false
	for _, d := range decisions {
		switch d.Scope {
		case guard.Client:
			c.guardClient(now, d)
		case guard.Endpoint:
			endpoints = true
			c.logEndpoint(d)
		case guard.Machine:
			atomic.StoreUint32(&c.cfg.Shared.Control.Guarded, 1)
			c.cfg.Logger.Error("no request takes the fast path any more until the daemon is started again", "why", d.Why)
		}
	}
	if endpoints {
		c.cfg.WithEndpoints(c.mark)
	}
}

// textOf is an address in a line of the log.
func textOf(a netip.AddrPort) string {
	if !a.IsValid() {
		return "unknown"
	}
	return a.String()
}

// guardClient takes a client's connection off the fast path.
func (c *Controller) guardClient(now time.Time, d guard.Decision) {
	client, _, _ := c.cfg.Clients.ClientOf(d.Client)
	anew, err := c.cfg.Clients.Guard(d.Client)
	if err != nil {
		c.cfg.Logger.Warn("a connection that is to leave the fast path stays there", "client", textOf(client), "cookie", d.Client, "err", err)
		return
	}
	if !anew {
		return
	}
	if suppressed, ok := c.log.allows(now, "client"); ok {
		c.cfg.Logger.Warn("a client's connection is kept off the fast path", "client", textOf(client), "cookie", d.Client, "why", d.Why, "not_logged", logging.NonZero(suppressed))
	}
}

func (c *Controller) logEndpoint(d guard.Decision) {
	if d.Back {
		c.cfg.Logger.Info("endpoint returns to the fast path", "endpoint", d.Endpoint, "after", d.For.Round(time.Millisecond))
		return
	}
	c.cfg.Logger.Warn("endpoint is off the fast path", "endpoint", d.Endpoint, "why", d.Why, "for", d.For)
}

// plan notes when something returns.
func (c *Controller) plan() {
	c.mu.Lock()
	next := c.policy.Next()
	c.mu.Unlock()
	if next.IsZero() {
		c.next.Store(0)
		return
	}
	c.next.Store(maps.Now() + int64(time.Until(next)))
}

// Off lists what is off the fast path, but for clients' connections. It is empty where the controller does not act.
func (c *Controller) Off() []guard.Off {
	if !c.cfg.Acts {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.policy.Off()
}

// off are the endpoints that are off the fast path.
func (c *Controller) off() map[netip.AddrPort]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	off := map[netip.AddrPort]bool{}
	for _, o := range c.policy.Off() {
		if o.Scope == guard.Endpoint {
			off[o.Endpoint] = true
		}
	}
	return off
}

// Apply marks the endpoints that a new configuration has changed. No other one may come into force meanwhile.
func (c *Controller) Apply(changed []reconcile.EndpointEntry) {
	if c.cfg.Acts && len(c.off()) > 0 {
		c.mark(changed)
	}
}

// mark tells the programs which of some endpoints are off the fast path. The caller keeps their indices from becoming others'.
func (c *Controller) mark(endpoints []reconcile.EndpointEntry) {
	off := c.off()
	for i := range endpoints {
		flags := &c.cfg.Shared.Endpoints[endpoints[i].Index].Flags
		if off[endpoints[i].Address] {
			atomic.OrUint32(flags, uint32(maps.EndpointGuarded))
		} else {
			atomic.AndUint32(flags, ^uint32(maps.EndpointGuarded))
		}
	}
}

// guardLog lets the same line be logged once in a while only.
type guardLog struct {
	pace time.Duration
	last map[string]logEntry
}

type logEntry struct {
	at         time.Time
	suppressed uint64
}

// allows reports whether a thing may be logged now, and how many lines were suppressed since the last one.
func (s *guardLog) allows(now time.Time, what string) (suppressed uint64, ok bool) {
	if s.last == nil {
		s.last = map[string]logEntry{}
	}
	u := s.last[what]
	if now.Sub(u.at) < s.pace {
		u.suppressed++
		s.last[what] = u
		return 0, false
	}
	s.last[what] = logEntry{at: now}
	return u.suppressed, true
}
