// SPDX-License-Identifier: Apache-2.0

// Package sds asks servers for secrets (secret discovery service). As in Envoy a server of its own is asked for each secret on a stream of its own,
// and a control plane for all of them on one: it may wait until it has been asked for all that it has.
package sds

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xlb-project/xlb/internal/xds"
)

// typeURL is that of secrets.
const typeURL = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"

// What bounds the pauses between two attempts to reach a server, which are random below that.
const (
	firstPause   = 200 * time.Millisecond
	longestPause = 10 * time.Second
)

// Config says whom to ask, and who wants to know.
type Config struct {
	// Servers are tried in their order.
	Servers []xds.Server
	Node    *corev3.Node
	// Aggregated servers have everything (ADS). Delta asks for changes.
	Aggregated, Delta bool
	// Update takes the text of a secret that is asked for, or refuses it with a reason, which the server is told. It is called for one secret at a
	// time.
	Update func(name string, body []byte, version string) error
	Logger *slog.Logger
}

// Client asks for secrets on one stream at a time.
type Client struct {
	c Config
	// wake has room for one word that there are other names.
	wake chan struct{}

	mu sync.Mutex
	// names are asked for, sorted. Never changed in place. Guarded by mu.
	names []string

	// versions are those that were taken last, by name; version is that of the last response that was taken whole. Run's own.
	versions map[string]string
	version  string
}

// New makes a client that asks for nothing yet.
func New(c Config) *Client {
	return &Client{c: c, wake: make(chan struct{}, 1), versions: map[string]string{}}
}

// Want makes these the secrets that are asked for. There have to be some while the client runs: none is all, to a server.
func (c *Client) Want(names []string) {
	names = slices.Sorted(slices.Values(names))
	c.mu.Lock()
	same := slices.Equal(c.names, names)
	c.names = names
	c.mu.Unlock()
	if same {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *Client) wanted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.names
}

// Run keeps a stream until ctx ends. A secret that has come stays, whatever becomes of the stream.
func (c *Client) Run(ctx context.Context) {
	pauses := xds.Backoff{First: firstPause, Longest: longestPause}
	for {
		for _, server := range c.c.Servers {
			heard, err := c.converse(ctx, server)
			if ctx.Err() != nil {
				return
			}
			c.c.Logger.Warn("stream of secrets has ended; it is opened again", "secrets", c.wanted(), "server", server.Address, "err", err)
			if heard {
				pauses.Reset()
			}
		}
		if !xds.Sleep(ctx, pauses.Next()) {
			return
		}
	}
}

// converse has one stream.
func (c *Client) converse(ctx context.Context, server xds.Server) (heard bool, err error) {
	conn, err := xds.Dial(server)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	select {
	case <-c.wake: // the stream begins with the newest names
	default:
	}
	if c.c.Delta {
		return c.deltas(ctx, conn)
	}
	return c.states(ctx, conn)
}

// incoming is what a server says next.
type incoming[T any] struct {
	response T
	err      error
}

// receive hands on what a server says, until it ends, or ctx does.
func receive[T any](ctx context.Context, next func() (T, error)) <-chan incoming[T] {
	out := make(chan incoming[T])
	go func() {
		for {
			response, err := next()
			select {
			case out <- incoming[T]{response, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return out
}
