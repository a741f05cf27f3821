// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"time"
)

// RelayRequest is what Relay must know about the request that was sent.
type RelayRequest struct {
	Method string
	// HTTP10 and KeepAlive are the client's version and wish.
	HTTP10    bool
	KeepAlive bool
	// Upgrade: the request asked for another protocol, to which the endpoint may switch.
	Upgrade bool
	// Deadline of the whole response; zero: none.
	Deadline time.Time
	// Report to the observer; Relay sets Status, Flag and Duration.
	Report Report
}

// RelayResult tells what became of both connections.
type RelayResult struct {
	// UpstreamReusable: the response was complete, the endpoint keeps the
	// connection, and nothing came behind it. Otherwise the caller closes it.
	UpstreamReusable bool
	// ClientReusable: otherwise the client's connection has been closed.
	ClientReusable bool
	// Switched: the endpoint has switched protocols. The client has the response's head, and what came behind it; both
	// connections are open, and the caller moves their bytes from here on.
	Switched bool
	// Answered is the number of bytes written to the client, Received the
	// number read from upstream.
	Answered, Received uint64
	// Status sent to the client; 0: none. Flag tells a local reply.
	Status int
	Flag   Flag
}

// Relay reads one response from upstream, on which a request has already been
// sent, and writes it to client exactly as Serve would, local replies included.
// It does not read from client. A cancelled ctx aborts both connections. The
// error is the reason for a local reply or for an aborted response.
func (p *Proxy) Relay(ctx context.Context, client, upstream net.Conn, req RelayRequest) (RelayResult, error) {
	if !p.enter() {
		abort(client)
		return RelayResult{}, ErrClosed
	}
	defer p.leave()
	began := time.Now()
	r := newRelay(p, client, upstream, req)
	defer r.release()
	defer context.AfterFunc(ctx, func() { abort(client); abort(upstream) })()
	err := r.run(ctx)
	r.result.Answered, r.result.Received = r.out.bytesSent(), r.in.consumed
	p.counters.sent.Add(r.result.Answered)
	report := req.Report
	report.Status, report.Flag, report.Duration = r.result.Status, r.result.Flag, time.Since(began)
	p.finish(report)
	return r.result, err
}

// relay is one Relay call.
type relay struct {
	proxy    *Proxy
	client   net.Conn
	upstream net.Conn
	request  *http.Request
	view     clientView
	deadline time.Time
	upgrade  bool
	in       *source // over upstream
	limit    *io.LimitedReader
	reader   *bufio.Reader
	out      *clientWriter
	result   RelayResult
}

func newRelay(p *Proxy, client, upstream net.Conn, req RelayRequest) *relay {
	r := &relay{
		proxy: p, client: client, upstream: upstream,
		request:  &http.Request{Method: req.Method},
		view:     clientView{method: req.Method, http10: req.HTTP10, keepAlive: req.KeepAlive && !p.draining.Load() && !p.closed.Load()},
		deadline: req.Deadline,
		upgrade:  req.Upgrade,
		in:       &source{conn: upstream},
		reader:   readers.Get().(*bufio.Reader),
		out:      newClientWriter(client),
	}
	r.limit = &io.LimitedReader{R: r.in, N: int64(p.config.Limits.HeadBytes)}
	r.reader.Reset(r.limit)
	r.out.begin(r)
	return r
}

func (r *relay) release() {
	r.out.release()
	r.reader.Reset(nil)
	readers.Put(r.reader)
}

func (r *relay) run(ctx context.Context) error {
	if err := r.setDeadline(r.deadline); err != nil {
		abort(r.client)
		return err
	}
	resp, err := r.readResponse()
	if err != nil {
		return r.refuse(ctx, err)
	}
	r.result.Status = resp.StatusCode
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return r.switchProtocols(resp)
	}
	// Progress lengthens the idle limit where the route sets no deadline.
	f, err := r.out.relay(resp, &r.view, r.progress)
	_ = resp.Body.Close()
	if err != nil {
		r.breakOff(f, err)
		return err
	}
	r.result.UpstreamReusable = !resp.Close && resp.ProtoAtLeast(1, 1) && !closeDelimited(resp, r.view.method) &&
		r.reader.Buffered() == 0
	r.result.ClientReusable = r.view.keepAlive
	if !r.view.keepAlive {
		lingeringClose(r.client)
		return nil
	}
	return r.clearDeadlines()
}

// closeDelimited: the end of the connection was the end of the body.
func closeDelimited(resp *http.Response, method string) bool {
	return resp.ContentLength < 0 && len(resp.TransferEncoding) == 0 && method != http.MethodHead
}

// readResponse reads up to a final head and forwards informational ones.
func (r *relay) readResponse() (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(r.reader, r.request)
		if err != nil {
			return nil, fmt.Errorf("read response head: %w", err)
		}
		if !plainNames(resp.Header) {
			return nil, errNames
		}
		switch {
		case resp.StatusCode == http.StatusSwitchingProtocols:
			if !r.upgrade || resp.Header.Get("Upgrade") == "" {
				return nil, errUnasked
			}
			return resp, nil
		case resp.StatusCode < http.StatusOK:
			if r.view.http10 {
				continue
			}
			if err := r.out.informational(r, resp.StatusCode, resp.Header); err != nil {
				return nil, &clientError{err}
			}
		default:
			r.limit.N = math.MaxInt64
			return resp, nil
		}
	}
}

// switchProtocols answers 101, and passes on what came with it.
func (r *relay) switchProtocols(resp *http.Response) error {
	ahead, _ := r.reader.Peek(r.reader.Buffered()) // they are buffered: it cannot fail
	keepUpgrade(resp.Header)
	head, err := switchHead(r.view, resp)
	if err == nil {
		r.out.final()
		err = r.out.writeThrough(append(head, ahead...))
	}
	if err != nil {
		abort(r.client)
		return &clientError{err}
	}
	r.result.Switched = true
	return r.clearDeadlines()
}

// progress extends the idle limit.
func (r *relay) progress() {
	if r.deadline.IsZero() {
		// A failure shows at the next read or write.
		_ = r.setDeadline(time.Time{})
	}
}

// setDeadline bounds both connections: by the route's deadline, else by the
// stream idle limit.
func (r *relay) setDeadline(t time.Time) error {
	if t.IsZero() {
		t = time.Now().Add(r.proxy.config.Limits.StreamIdle)
	}
	return errors.Join(r.upstream.SetReadDeadline(t), r.client.SetWriteDeadline(t))
}

func (r *relay) clearDeadlines() error {
	return errors.Join(r.upstream.SetReadDeadline(time.Time{}), r.client.SetWriteDeadline(time.Time{}))
}

// refuse answers locally: no response head arrived.
func (r *relay) refuse(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if _, ok := errors.AsType[*clientError](err); ok {
		r.result.Flag = FlagDownstreamTermination
		abort(r.client)
		return err
	}
	reply := r.classify(err)
	r.result.Status, r.result.Flag = reply.Status(), reply.Flag()
	if werr := r.out.reply(reply, r.view); werr != nil {
		_ = r.client.Close()
		return errors.Join(err, werr)
	}
	r.result.ClientReusable = r.view.keepAlive
	if !r.view.keepAlive {
		lingeringClose(r.client)
	}
	return err
}

func (r *relay) classify(err error) LocalReply {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && r.deadline.IsZero():
		return ReplyResponseStalled
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ReplyUpstreamTimeout
	case r.in.failed:
		return ReplyUpstreamTermination
	default:
		return ReplyUpstreamProtocolError
	}
}

// breakOff ends a response that cannot be completed.
func (r *relay) breakOff(f framing, err error) {
	r.result.Flag = r.classify(err).Flag()
	if _, ok := errors.AsType[*clientError](err); ok && !errors.Is(err, os.ErrDeadlineExceeded) {
		r.result.Flag = FlagDownstreamTermination
	}
	if f == framedLength || f == framedChunks {
		_ = r.client.Close()
		return
	}
	abort(r.client)
}
