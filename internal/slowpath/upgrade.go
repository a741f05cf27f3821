// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
)

var errUnasked = errors.New("endpoint switched protocols unasked")

// switchProtocols passes a 101 on, and what follows it.
func (x *exchange) switchProtocols(resp *http.Response) (bool, error) {
	upstream, ok := resp.Body.(io.ReadWriteCloser)
	if !ok || !x.head.upgrade || x.head.connect() || x.body != nil && !x.body.ended.Load() {
		_ = resp.Body.Close()
		x.done(Outcome{Status: resp.StatusCode, Err: errUnasked})
		_ = x.reclaim() // the endpoint is at fault, whatever the body's state
		return x.answer(ReplyUpstreamProtocolError)
	}
	keepUpgrade(resp.Header)
	return x.switchTo(upstream, resp)
}

// switchTo answers with a head that no HTTP follows, and moves bytes both ways
// until both directions have ended or one has failed. A half close is passed on.
func (x *exchange) switchTo(upstream io.ReadWriteCloser, resp *http.Response) (bool, error) {
	defer func() { _ = upstream.Close() }()
	x.watchdog.tunnel()
	x.out.final()
	head, err := switchHead(x.view, resp)
	if err == nil {
		err = x.out.writeThrough(head)
	}
	if err == nil {
		err = x.tunnel(upstream)
	}
	x.watchdog.stop()
	x.finish(resp.StatusCode, FlagNone)
	x.done(Outcome{Status: resp.StatusCode, Err: err})
	_ = x.conn.Close()
	return false, err
}

// keepUpgrade leaves of a head of 101 what the next hop must know.
func keepUpgrade(header http.Header) {
	protocol := strings.Join(header.Values("Upgrade"), ", ")
	removeHopByHop(header)
	header["Connection"] = []string{"Upgrade"}
	header["Upgrade"] = []string{protocol}
}

// switchHead is a head without any framing: no body follows it.
func switchHead(view clientView, resp *http.Response) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(view.version() + statusText(resp) + "\r\n")
	if err := resp.Header.WriteSubset(&b, framingFields); err != nil {
		return nil, err
	}
	b.WriteString("\r\n")
	return b.Bytes(), nil
}

// tunnel passes a half close on, unless Session.Gone knows that the client has closed altogether: the other direction
// would wait for a reader that is not there.
func (x *exchange) tunnel(upstream io.ReadWriteCloser) error {
	sent := make(chan error, 1)
	go func() {
		err := x.pump(x.reader, writerFunc(upstream.Write))
		if err == nil && x.session.Gone != nil && x.session.Gone() {
			err = ErrClientGone
			abort(x.conn) // frees the other direction from a blocked write
		}
		if half, ok := upstream.(interface{ CloseWrite() error }); ok && err == nil {
			err = half.CloseWrite()
		}
		if err != nil {
			_ = upstream.Close() // ends the other direction
		}
		sent <- err
	}()
	err := x.pump(upstream, writerFunc(func(p []byte) (int, error) { return len(p), x.out.writeThrough(p) }))
	if err == nil {
		err = closeWrite(x.conn)
	}
	if err != nil {
		// What has failed must not look like an end.
		abort(x.conn)
	}
	return errors.Join(err, <-sent)
}

// writerFunc hides every method but Write, so that io.Copy uses our buffers.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// pump copies until EOF; every piece is progress.
func (x *exchange) pump(from io.Reader, to io.Writer) error {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	watched := writerFunc(func(p []byte) (int, error) {
		x.watchdog.progress()
		return to.Write(p)
	})
	_, err := io.CopyBuffer(watched, struct{ io.Reader }{from}, *buf)
	return err
}
