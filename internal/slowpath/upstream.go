// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/limits"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/upstream"
)

// dialError marks a failure before anything was sent.
type dialError struct {
	endpoint netip.AddrPort
	timeout  bool
	err      error
}

func (e *dialError) Error() string {
	return fmt.Sprintf("connect to endpoint %s: %v", e.endpoint, e.err)
}
func (e *dialError) Unwrap() error { return e.err }

// place is where a connection leads, and how it is secured. Connections to one place serve the same requests.
type place struct {
	address netip.AddrPort
	// tls tells how it is secured, and sni the name that is asked for; empty: it is plain text.
	tls, sni string
	// host is what the endpoint's certificate was checked for; empty: it need not have the name of the request's host.
	host string
	// inner: it leads to a listener of this process.
	inner bool
}

// destination is an endpoint that is connected to.
type destination struct {
	address netip.AddrPort
	// target is nil where connections are plain text.
	target *Target
	// inner: it is a listener of this process. from is for whom it is connected to, which that listener has to know.
	inner bool
	from  upstream.Origin
}

// destinationOf is that of a request, for that host, or of what else is sent to an endpoint. Where it is a listener of this process onward says
// for whom.
func destinationOf(e Picked, host string, http bool, onward func() upstream.Origin) destination {
	out := destination{address: e.Address(), inner: isInner(e)}
	if out.inner {
		out.from = onward()
	}
	if s, ok := e.(Secured); ok {
		if tls, hostname := s.Security(); tls != nil {
			out.target = &Target{TLS: tls, Hostname: hostname, Host: host, HTTP: http}
		}
	}
	return out
}

func (d *destination) place() place {
	p := place{address: d.address, inner: d.inner}
	if d.target == nil {
		return p
	}
	p.tls = d.target.TLS.Key
	switch {
	case d.target.TLS.AutoHostSNI && d.target.Hostname != "":
		p.sni = d.target.Hostname
	case d.target.TLS.AutoSNI:
		p.sni = d.target.Host
	}
	if d.target.TLS.HostSAN {
		p.host = d.target.Host
	}
	return p
}

// connect opens a connection to an endpoint within the timeout, which is a cluster's connect_timeout; 0 means its default. A
// failure is a dialError.
func (p *Proxy) connect(ctx context.Context, to destination, timeout time.Duration) (*upstreamConn, error) {
	if timeout <= 0 {
		timeout = model.DefaultConnectTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer context.AfterFunc(p.base, cancel)()
	conn, err := p.dial(ctx, &to)
	if upstream.IsShortage(err) && p.idle.shed() > 0 {
		conn, err = p.dial(ctx, &to)
	}
	inner, _ := conn.(InnerConn)
	if err == nil && to.target != nil {
		conn, err = p.secure(ctx, conn, to.target)
	}
	if err != nil {
		var ne net.Error
		timedOut := ctx.Err() == context.DeadlineExceeded || errors.As(err, &ne) && ne.Timeout()
		return nil, &dialError{to.address, timedOut, err}
	}
	c := newUpstreamConn(conn, to.place())
	c.inner = inner
	return c, nil
}

// secure is Config.Secure, which owns the connection, unless it panics.
func (p *Proxy) secure(ctx context.Context, conn net.Conn, to *Target) (net.Conn, error) {
	returned := false
	defer func() {
		if !returned {
			abort(conn)
		}
	}()
	secured, err := p.config.Secure(ctx, conn, *to)
	returned = true
	return secured, err
}

func (p *Proxy) dial(ctx context.Context, to *destination) (net.Conn, error) {
	if !to.inner {
		return p.config.Dial(ctx, to.address)
	}
	conn, err := p.config.DialInner(ctx, to.address, to.from)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// reuse takes a connection that no request uses, or nil.
func (p *Proxy) reuse(to *destination) *upstreamConn {
	c := p.idle.take(to.place())
	if c != nil && c.inner != nil {
		c.inner.Carry(to.from)
	}
	return c
}

func dialTCP(ctx context.Context, endpoint netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", endpoint.String())
}

// upstreamConn is a connection to an endpoint. One request at a time uses it, between begin and end.
type upstreamConn struct {
	net.Conn
	place place
	// inner tells the listener of this process that it leads to whose request follows; nil: it leads to none.
	inner  InnerConn
	reused bool
	// brief: it was opened, and has been used since, for sessions that are Brief.
	brief bool
	// opened is when it was, idleSince when the last request ended.
	opened, idleSince time.Time
	// requests it has been used for, and the limits of the cluster that used it last.
	requests uint32
	limits   model.UpstreamLimits
	// timer ends the attempt that uses it; nil: nothing does.
	timer *time.Timer

	responses *h1.ResponseReader // of the request that uses it
	// whole: that request has been sent to its end.
	whole  atomic.Bool
	detach func() bool
	// lent is set where the connection is the fast path's, which takes it back.
	lent *lentConn
}

func newUpstreamConn(conn net.Conn, at place) *upstreamConn {
	if tcp, ok := conn.(upstream.TCP); ok {
		conn = upstream.New(tcp)
	}
	return &upstreamConn{Conn: conn, place: at, opened: time.Now()}
}

// worn reports whether the cluster lets the connection serve no further request.
func (c *upstreamConn) worn(now time.Time) bool {
	l := &c.limits
	return l.Requests > 0 && c.requests >= l.Requests || l.Age > 0 && now.Sub(c.opened) >= l.Age
}

// quiet reports whether the connection is open and the endpoint has said nothing. One that cannot be looked at serves one request.
func (c *upstreamConn) quiet() bool {
	q, ok := c.Conn.(interface{ Quiet() bool })
	return ok && q.Quiet()
}

// begin starts the use by a request. The end of its context closes the connection, and so ends reads and writes that are blocked.
func (c *upstreamConn) begin(ctx context.Context, limits *Limits, turn *shares.Turn) {
	c.responses = h1.NewResponseReader(paced{c.Conn, turn}, limits.heads())
	if conn, ok := c.Conn.(interface{ Begin() }); ok {
		conn.Begin()
	}
	c.whole.Store(false)
	c.detach = context.AfterFunc(ctx, c.giveUp)
}

// end ends the use; nobody may read or write any more. A connection to be kept goes to the pool, unless bytes lie behind the response.
func (c *upstreamConn) end(keep bool, pool *idlePool) {
	open := c.detach()
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	keep = keep && open && c.responses.Buffered() == 0
	c.responses.Release()
	c.responses, c.detach = nil, nil
	if c.lent != nil {
		c.lent.end(AttemptEnd{keep, c.lent.received, c.lent.withheld})
		return
	}
	if !keep {
		c.giveUp()
		return
	}
	if c.worn(time.Now()) {
		_ = c.Close()
		return
	}
	c.reused = true
	pool.put(c)
}

// giveUp closes a connection that serves no further request. One that has not been sent whole must
// not look whole.
func (c *upstreamConn) giveUp() {
	if c.whole.Load() {
		_ = c.Close()
		return
	}
	abort(c.Conn)
}

// closeWrite ends the sending direction, where the connection can.
func closeWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return conn.Close()
}

// abort closes a connection so that its peer sees a reset, never a clean end.
func abort(conn net.Conn) {
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		// A connection that is already closed is as good as reset.
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// lingeringClose sends FIN and waits a little for the client to read and close.
func lingeringClose(conn net.Conn) {
	if closeWrite(conn) == nil && conn.SetReadDeadline(time.Now().Add(limits.LingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, struct{ io.Reader }{conn}, limits.LingerBytes)
	}
	_ = conn.Close()
}
