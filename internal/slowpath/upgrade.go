// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"errors"
	"io"

	"github.com/xlb-project/xlb/internal/crash"
	"github.com/xlb-project/xlb/internal/slowpath/buffers"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
)

var errUnasked = h1.Malformed("protocol switched unasked")

// switchProtocols passes a 101 on, and what follows it.
func (x *exchange) switchProtocols(resp *h1.Response) (bool, error) {
	if !x.Head.Upgrade || x.Head.Connect() || resp.Upgrade() == "" || !x.sentWhole() {
		x.done(Outcome{Status: resp.Status, Err: errUnasked})
		_ = x.reclaim() // the endpoint is at fault, whatever the body's state
		return x.answer(ReplyUpstreamProtocolError)
	}
	return x.serveUpgraded(resp)
}

// serveUpgraded answers with a head that no HTTP follows, and moves bytes both ways
// until both directions have ended or one has failed. A half close is passed on.
func (x *exchange) serveUpgraded(resp *h1.Response) (bool, error) {
	x.watchdog.Tunnel()
	err := x.out.WriteThrough(h1.AppendSwitch(nil, resp, x.view))
	if err == nil {
		err = x.tunnel(x.upstream)
	}
	x.endUpstream(false)
	x.watchdog.Stop()
	x.finish(resp.Status, FlagNone)
	// How a tunnel ends says nothing about the endpoint: either side may have left.
	x.done(Outcome{Status: resp.Status})
	_ = x.conn.Close()
	return false, err
}

// tunnel passes a half close on, unless Session.Gone knows that the client has closed altogether: the other direction
// would wait for a reader that is not there.
func (x *exchange) tunnel(upstream *conns.Conn) error {
	sent := make(chan error, 1)
	x.senders.Go(func() {
		defer x.proxy.config.Crashes.Recover("a tunnel", func() {
			conns.Abort(x.conn)
			conns.Abort(upstream.Conn)
			sent <- crash.Err
		})
		err := x.pump(conns.Paced{Reader: x.reader, Ticket: x.ticket}, writerFunc(upstream.Write))
		if err == nil && x.session.Gone != nil && x.session.Gone() {
			err = ErrClientGone
			conns.Abort(x.conn) // frees the other direction from a blocked write
		}
		if err == nil {
			err = conns.CloseWrite(upstream.Conn)
		}
		if err != nil {
			_ = upstream.Close() // ends the other direction
		}
		sent <- err
	})
	err := x.pump(upstream.Responses, writerFunc(func(p []byte) (int, error) { return len(p), x.out.WriteThrough(p) }))
	if err == nil {
		err = conns.CloseWrite(x.conn)
	}
	if err != nil {
		// What has failed must not look like an end.
		conns.Abort(x.conn)
	}
	return errors.Join(err, <-sent)
}

// writerFunc hides every method but Write, so that io.Copy uses our buffers.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// pump copies until EOF; every piece is progress.
func (x *exchange) pump(from io.Reader, to io.Writer) error {
	buf := buffers.Copy()
	defer buffers.PutCopy(buf)
	watched := writerFunc(func(p []byte) (int, error) {
		x.watchdog.Progress()
		return to.Write(p)
	})
	_, err := io.CopyBuffer(watched, struct{ io.Reader }{from}, *buf)
	return err
}
