// SPDX-License-Identifier: Apache-2.0

package xds

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
)

// features tell the server what this client can do beyond the protocol's oldest form.
var features = []string{"xds.config.supports-resource-ttl", "xds.config.supports-resource-in-sotw"}

// Client asks management servers for a configuration, and hands out what is warm of it.
type Client struct {
	config  Config
	log     *slog.Logger
	pauses  Backoff
	pace    *Pace
	firstBy time.Time // when the first state is handed out though it is incomplete

	mu      sync.Mutex
	state   *state
	counted counters
	kinds   [kinds]kindCounters
	link    link
	// begun: a state was handed out; overdue: the first one need not be complete.
	begun, overdue bool
	last           Snapshot

	// Each is filled when there may be something to do: for the stream, for the clock, for the caller of Update.
	wake, alarm, fresh chan struct{}
}

// New makes a client, which does nothing before Run.
func New(config Config) *Client {
	if len(config.Roots)+len(config.Names) == 0 {
		config.Roots = []Kind{Clusters, Listeners}
	}
	node := &corev3.Node{}
	if config.Node != nil {
		node = proto.CloneOf(config.Node)
	}
	for _, feature := range features {
		if !slices.Contains(node.ClientFeatures, feature) {
			node.ClientFeatures = append(node.ClientFeatures, feature)
		}
	}
	config.Node = node
	log := config.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	pace := config.Pace
	if pace == nil {
		pace = NewPace()
	}
	state := newState(config.FetchTimeout)
	state.ready = config.Ready
	return &Client{
		config: config, log: log, pace: pace, state: state, pauses: Backoff{First: 500 * time.Millisecond, Longest: 30 * time.Second},
		wake: make(chan struct{}, 1), alarm: make(chan struct{}, 1), fresh: make(chan struct{}, 1),
	}
}

// Run asks until the context ends, once. It returns when a call of Update that is under way has returned.
func (c *Client) Run(ctx context.Context) {
	patience := c.config.FetchTimeout
	if patience == 0 {
		patience = firstAnswer
	}
	now := time.Now()
	c.firstBy = now.Add(patience)
	c.mu.Lock()
	for kind, names := range c.config.Names {
		c.state.hold(kind, names, now)
		c.state.show(kind, names, +1)
	}
	c.mu.Unlock()

	var all sync.WaitGroup
	for _, part := range []func(context.Context){c.converse, c.watchClock, c.handOut} {
		all.Go(func() { part(ctx) })
	}
	all.Wait()
}

// Again asks Config.Ready anew for what has not been ready. It may be called at any time.
func (c *Client) Again() {
	c.mu.Lock()
	c.state.again(time.Now())
	c.mu.Unlock()
	c.news()
}

// news says that the state has changed.
func (c *Client) news() {
	poke(c.wake)
	poke(c.fresh)
}

// poke fills a channel that says there may be something to do.
func poke(what chan struct{}) {
	select {
	case what <- struct{}{}:
	default:
	}
}

// handOut calls Update with the newest state whenever it has changed. The stream does not wait for it: what a server is told is that a
// resource is good and is taken, not that it is in force. So a slow Update costs no more than one state that waits, and skips those between.
func (c *Client) handOut(ctx context.Context) {
	c.pace.join()
	defer c.pace.leave()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.fresh:
		}
		next, ok := c.newest()
		if !ok {
			continue
		}
		begun := time.Now()
		err := c.config.Update(next)
		took := time.Since(begun)
		if err != nil && !errors.Is(err, ErrUnfinished) {
			c.log.Error("configuration of the management server was not applied; the one before stays in force", "error", err)
		}
		c.countUpdate(err)
		if rest := c.pace.rest(begun, took); rest > 0 && !Sleep(ctx, rest) {
			return
		}
	}
}

// countUpdate counts what Update has returned.
func (c *Client) countUpdate(err error) {
	if errors.Is(err, ErrUnfinished) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counted.updates++
	if err != nil {
		c.counted.failures++
	}
}

// newest returns what is to be handed out, if it is something new. The first state is held back until it is complete, as Envoy does not listen
// before its first configuration has warmed: so a restart does not begin with half of it. It is handed out even if it is empty.
func (c *Client) newest() (Snapshot, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.begun
	if first && (!c.state.heard() || !c.overdue && !c.state.complete(c.config.Roots)) {
		return Snapshot{}, false
	}
	c.begun = true
	next, differs := c.state.snapshot(c.last)
	c.last = next
	return next, differs || first
}
