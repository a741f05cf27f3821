// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

// newTransport pools upstream connections by address. Nothing that the
// standard client adds for its own sake is left on.
func (p *Proxy) newTransport() *http.Transport {
	return &http.Transport{
		DialContext:            p.dial,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    p.config.Limits.IdlePerEndpoint,
		IdleConnTimeout:        p.config.Limits.UpstreamIdle,
		MaxResponseHeaderBytes: int64(p.config.Limits.HeadBytes),
		Protocols:              http1Only(),
	}
}

func http1Only() *http.Protocols {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &protocols
}

// connectTimeoutKey carries a cluster's connect_timeout to the dial.
type connectTimeoutKey struct{}

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

// dial is called by the transport, detached from the request's cancellation
// (the connection may serve the next request) but with its values.
func (p *Proxy) dial(ctx context.Context, _, address string) (net.Conn, error) {
	endpoint, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, fmt.Errorf("endpoint address %q: %w", address, err)
	}
	timeout, _ := ctx.Value(connectTimeoutKey{}).(time.Duration)
	if timeout <= 0 {
		timeout = model.DefaultConnectTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer context.AfterFunc(p.base, cancel)()
	conn, err := p.config.Dial(ctx, endpoint)
	if err != nil {
		var ne net.Error
		timedOut := ctx.Err() == context.DeadlineExceeded || errors.As(err, &ne) && ne.Timeout()
		return nil, &dialError{endpoint, timedOut, err}
	}
	return &upstreamConn{Conn: conn}, nil
}

func dialTCP(ctx context.Context, endpoint netip.AddrPort) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", endpoint.String())
}

// upstreamConn remembers whether the connection itself failed, which tells a
// terminated connection (UC) from a protocol error (UPE).
type upstreamConn struct {
	net.Conn
	broken atomic.Bool
	// written counts the bytes that it has sent.
	written atomic.Uint64
}

func (c *upstreamConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.broken.Store(true)
	}
	return n, err
}

func (c *upstreamConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(uint64(n))
	if err != nil {
		c.broken.Store(true)
	}
	return n, err
}

// ReadFrom copies request bodies with pooled buffers and without splice.
func (c *upstreamConn) ReadFrom(r io.Reader) (int64, error) {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{c}, r, *buf)
}

// CloseWrite serves half-closed upgraded connections.
func (c *upstreamConn) CloseWrite() error { return closeWrite(c.Conn) }

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

// lingerTime and lingerBytes bound the reading on after a final response, like
// Envoy's delayed_close_timeout: closing with unread data would reset the
// connection and could destroy the response on its way.
const (
	lingerTime  = time.Second
	lingerBytes = 1 << 20
)

// lingeringClose sends FIN and waits a little for the client to read and close.
func lingeringClose(conn net.Conn) {
	if closeWrite(conn) == nil && conn.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, struct{ io.Reader }{conn}, lingerBytes)
	}
	_ = conn.Close()
}
