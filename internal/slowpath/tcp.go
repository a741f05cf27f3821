// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/xlb-project/xlb/internal/crash"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath/buffers"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
)

var errNoEndpoint = errors.New("no endpoint could be connected to")

// plain is a connection of a listener without HTTP.
type plain struct {
	proxy  *Proxy
	client net.Conn
	// first has been read from the client already.
	first []byte
	// idle interrupts both sides when nothing has moved; nil: never.
	idle    *time.Timer
	timeout time.Duration
	// up and down are the turns of the two directions.
	up, down *shares.Turn
}

// servePlain connects a client to an endpoint, and moves bytes both ways until both directions have ended, or one has failed. It
// closes the client's connection: in the manner of the endpoint's, or, where none can be had, as Envoy does.
func (p *Proxy) servePlain(ctx context.Context, client net.Conn, s Session, proxy *model.TCPProxy, first []byte) (Result, error) {
	upstream, endpoint, err := p.connectPlain(ctx, proxy, s)
	if err != nil {
		_ = client.Close()
		return Result{}, err
	}
	defer endpoint.Done(Outcome{Plain: true})
	defer context.AfterFunc(ctx, func() { conns.Abort(upstream) })()
	down := turnOf(s.Turn)
	c := &plain{proxy: p, client: client, first: first, timeout: proxy.IdleTimeout, down: down, up: down.Another()}
	if c.timeout > 0 {
		c.idle = time.AfterFunc(c.timeout, func() { conns.Abort(client); conns.Abort(upstream) })
		defer c.idle.Stop()
	}
	return c.run(upstream)
}

// connectPlain tries as many endpoints as the listener says, each once.
func (p *Proxy) connectPlain(ctx context.Context, proxy *model.TCPProxy, s Session) (net.Conn, Picked, error) {
	name := proxy.Share(cmp.Or(s.Draw, rand.Uint64())).Name
	cluster := p.config.Cluster(name)
	if cluster == nil {
		return nil, nil, errNoEndpoint
	}
	var tried []netip.AddrPort
	failure := errNoEndpoint
	for range max(proxy.ConnectAttempts, 1) {
		endpoint, ok := p.pick(name, "", rand.Uint64(), s.Destination, func(a netip.AddrPort) bool { return slices.Contains(tried, a) })
		if !ok {
			return nil, nil, failure
		}
		if p.circles(name, endpoint, s.origin()) {
			endpoint.Done(Outcome{})
			return nil, nil, errCircle
		}
		conn, err := p.connectTo(ctx, endpoint, s, cluster)
		if err == nil {
			return conn.Conn, endpoint, nil
		}
		failure = err
		tried = append(tried, endpoint.Address())
	}
	return nil, nil, failure
}

// connectTo connects to an endpoint, whose use it ends unless there is a connection.
func (p *Proxy) connectTo(ctx context.Context, e Picked, s Session, cluster *model.Cluster) (conn *conns.Conn, err error) {
	o := Outcome{} // of a panic
	defer func() {
		if conn == nil {
			e.Done(o)
		}
	}()
	conn, err = p.conns.Connect(ctx, destinationOf(e, "", false, s.connecting), cluster.ConnectTimeout)
	o = Outcome{Err: err, ConnectFailed: true}
	return conn, err
}

func (c *plain) run(upstream net.Conn) (Result, error) {
	type direction struct {
		bytes uint64
		err   error
	}
	up, over := make(chan direction, 1), false
	defer func() {
		if !over { // a panic: the other direction ends, too
			conns.Abort(upstream)
			conns.Abort(c.client)
			<-up
		}
	}()
	go func() {
		defer c.proxy.config.Crashes.Recover("a connection's direction", func() {
			conns.Abort(upstream)
			conns.Abort(c.client)
			up <- direction{0, crash.Err}
		})
		_, err := upstream.Write(c.first)
		if err != nil {
			conns.Abort(upstream)
			conns.Abort(c.client)
			up <- direction{0, err}
			return
		}
		n, err := c.pump(upstream, c.client, c.up)
		up <- direction{n + uint64(len(c.first)), err}
	}()
	answered, err := c.pump(c.client, upstream, c.down)
	request := <-up
	over = true
	_ = upstream.Close()
	_ = c.client.Close()
	return Result{Consumed: request.bytes, Answered: answered}, errors.Join(request.err, err)
}

// pump moves bytes until their end, which it passes on. A failure resets both connections: it must not look like an end.
func (c *plain) pump(to, from net.Conn, turn *shares.Turn) (uint64, error) {
	n, err := func() (uint64, error) {
		defer turn.Rest()
		return c.copy(to, conns.Paced{Reader: from, Turn: turn})
	}()
	if err == nil {
		err = conns.CloseWrite(to)
	}
	if err != nil {
		conns.Abort(to)
		conns.Abort(from)
	}
	return n, err
}

func (c *plain) copy(to io.Writer, from io.Reader) (moved uint64, err error) {
	buffer := buffers.Copy()
	defer buffers.PutCopy(buffer)
	for {
		n, err := from.Read(*buffer)
		if n > 0 && c.idle != nil {
			c.idle.Reset(c.timeout)
		}
		written, failed := to.Write((*buffer)[:n])
		moved += uint64(written)
		switch {
		case failed != nil:
			return moved, failed
		case errors.Is(err, io.EOF):
			return moved, nil
		case err != nil:
			return moved, err
		}
	}
}
