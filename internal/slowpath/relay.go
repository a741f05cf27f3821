// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/xlb-project/xlb/internal/crash"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
)

// RelayRequest is what Relay must know about the request that was sent.
type RelayRequest struct {
	Method string
	// HTTP10 and KeepAlive are the client's version and wish.
	HTTP10    bool
	KeepAlive bool
	// Open reports that the request is still on its way to the endpoint, through the kernel or by somebody else's hands, who reads it from
	// the client's connection. So that is not read here: what was discarded would be missing there. It stays open behind a whole response
	// if the endpoint keeps its connection; else nobody takes the request's rest, and the client is told that its connection ends, as by
	// Envoy behind each answer that comes before the end of its request. Open is called when the head of an answer is about to be written,
	// which has to say so; it may wait. A request that has ended has ended for good. nil: it has.
	Open func() bool
	// Upgrade: the request asked for another protocol, to which the endpoint may switch.
	Upgrade bool
	// Trailers of the response pass.
	Trailers bool
	// Deadline of the whole response; zero: none.
	Deadline time.Time
	// Idle is the longest time without progress: zero stands for Limits.StreamIdle, a negative one for none.
	Idle time.Duration
	// Ticket to do the work; nil: it never waits.
	Ticket *shares.Ticket
	// Report to the observer; Relay sets Status, Flag and Duration.
	Report Report
}

// RelayResult tells what became of both connections.
type RelayResult struct {
	// UpstreamReusable: the response was complete, the endpoint keeps the
	// connection, and nothing came behind it. Otherwise the caller closes it.
	UpstreamReusable bool
	// ClientReusable: otherwise the client's connection has been closed, or lingers.
	ClientReusable bool
	// Lingers: the client has been told that its connection ends. The caller ends it, its sending side at once, and the rest behind who reads it.
	Lingers bool
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
// It does not read from client. A cancelled ctx aborts both connections; where
// its cause is ErrRouteTimeout or ErrRequestTimeout, a client that has nothing of
// the response is answered first. The error is the reason for a local reply or
// for an aborted response.
func (p *Proxy) Relay(ctx context.Context, client, upstream net.Conn, req RelayRequest) (result RelayResult, err error) {
	if !p.enter() {
		conns.Abort(client)
		return RelayResult{}, ErrClosed
	}
	defer p.leave()
	began := time.Now()
	r := newRelay(p, client, upstream, req)
	defer r.release()
	defer context.AfterFunc(ctx, func() { r.interrupt(context.Cause(ctx)) })()
	defer p.config.Crashes.Recover("a response", func() {
		r.crashed = true
		conns.Abort(client)
		conns.Abort(upstream)
		result, err = RelayResult{Received: r.in.Consumed, Flag: FlagDownstreamTermination}, crash.Err
	})
	err = r.run(ctx)
	r.result.Answered, r.result.Received = r.out.Sent(), r.in.Consumed
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
	view     h1.ClientView
	deadline time.Time
	idle     time.Duration
	upgrade  bool
	// keepAlive is the client's wish. isOpen is RelayRequest.Open, and open what it has said.
	keepAlive bool
	isOpen    func() bool
	open      bool
	in        *conns.Source // over upstream
	answers   *h1.ResponseReader
	out       *h1.Writer
	ticket    *shares.Ticket
	result    RelayResult
	// crashed is downstream's.
	crashed bool
}

func newRelay(p *Proxy, client, upstream net.Conn, req RelayRequest) *relay {
	r := &relay{
		proxy: p, client: client, upstream: upstream,
		view:     h1.ClientView{Method: req.Method, HTTP10: req.HTTP10, Trailers: req.Trailers},
		deadline: req.Deadline,
		idle:     cmp.Or(req.Idle, p.config.Limits.StreamIdle),
		upgrade:  req.Upgrade,

		keepAlive: req.KeepAlive,
		isOpen:    req.Open,
		in:        &conns.Source{Conn: upstream},
		out:       h1.NewWriter(client, p.config.Crashes, conns.Abort),
		ticket:    ticketOf(req.Ticket),
	}
	r.answers = h1.NewResponseReader(conns.Paced{Reader: r.in, Ticket: r.ticket}, p.config.Limits.heads())
	r.out.Begin()
	return r
}

func (r *relay) release() {
	r.ticket.Yield()
	if r.crashed {
		r.out.Abandon()
		return
	}
	r.out.Release()
	r.answers.Release()
}

func (r *relay) run(ctx context.Context) error {
	if err := r.setDeadline(); err != nil {
		conns.Abort(r.client)
		return err
	}
	resp, err := r.answers.Final(r.view.Method, r.passInterim)
	if err == nil && resp.Status == http.StatusSwitchingProtocols && (!r.upgrade || resp.Upgrade() == "") {
		err = errUnasked
	}
	if err != nil {
		return r.refuse(ctx, err)
	}
	r.result.Status = resp.Status
	if resp.Status == http.StatusSwitchingProtocols {
		return r.switchProtocols(resp)
	}
	stays := resp.KeepAlive && !resp.HTTP10
	r.decide(stays)
	f, err := r.out.Relay(resp, &r.view, r.progress, func() {})
	if err != nil {
		return r.breakOff(ctx, f, err)
	}
	r.result.UpstreamReusable = stays && r.answers.Buffered() == 0
	r.part()
	if !r.view.KeepAlive {
		return nil
	}
	return r.clearDeadlines()
}

// decide says, before an answer's head is written, whether the client's connection goes on behind the answer. stays: the endpoint takes what is left
// of the request. Whether there is any is found out only where it matters, for that may take a while; the body of an answer to HTTP/1.0 may yet end
// with the connection.
func (r *relay) decide(stays bool) {
	wanted := r.keepAlive && !r.proxy.draining.Load() && !r.proxy.closed.Load()
	r.view.KeepAlive = wanted
	if stays && wanted && !r.view.HTTP10 || r.isOpen == nil {
		return
	}
	r.ticket.Yield()
	r.open = r.isOpen()
	r.ticket.Work()
	if r.open {
		r.view.KeepAlive = stays
	}
}

// part leaves the client's connection behind a whole answer.
func (r *relay) part() {
	r.result.ClientReusable = r.view.KeepAlive
	switch {
	case r.view.KeepAlive:
	case r.open:
		r.result.Lingers = true
	default:
		r.ticket.Yield()
		conns.LingeringClose(r.client)
	}
}

func (r *relay) passInterim(resp *h1.Response) error {
	if r.view.HTTP10 {
		return nil
	}
	if err := r.out.Informational(resp.Status, resp.Fields); err != nil {
		return &h1.ClientError{Err: err}
	}
	return nil
}

// switchProtocols answers 101, and passes on what came with it.
func (r *relay) switchProtocols(resp *h1.Response) error {
	if err := r.out.WriteThrough(append(h1.AppendSwitch(nil, resp, r.view), r.answers.Ahead()...)); err != nil {
		conns.Abort(r.client)
		return &h1.ClientError{Err: err}
	}
	r.result.Switched = true
	return r.clearDeadlines()
}

// progress extends the idle limit.
func (r *relay) progress() {
	// A failure shows at the next read or write.
	_ = r.setDeadline()
}

// setDeadline bounds both connections: by the route's deadline, or by the idle limit if that is sooner.
func (r *relay) setDeadline() error {
	t := r.deadline
	if idle := time.Now().Add(r.idle); r.idle > 0 && (t.IsZero() || idle.Before(t)) {
		t = idle
	}
	return errors.Join(r.upstream.SetReadDeadline(t), r.client.SetWriteDeadline(t))
}

func (r *relay) clearDeadlines() error {
	return errors.Join(r.upstream.SetReadDeadline(time.Time{}), r.client.SetWriteDeadline(time.Time{}))
}

// interrupt ends reads and writes that wait. A client is left for the answer that tells of the time.
func (r *relay) interrupt(cause error) {
	if isLate(cause) {
		_ = r.client.SetWriteDeadline(time.Unix(1, 0)) // fails only where nothing waits
	} else {
		conns.Abort(r.client)
	}
	conns.Abort(r.upstream)
}

// isLate tells that what has interrupted a relay is a time of its request.
func isLate(cause error) bool {
	return errors.Is(cause, ErrRouteTimeout) || errors.Is(cause, ErrRequestTimeout)
}

// refuse answers locally: no response head arrived.
func (r *relay) refuse(ctx context.Context, err error) error {
	if ctx.Err() != nil && !isLate(context.Cause(ctx)) {
		return ctx.Err()
	}
	if _, ok := errors.AsType[*h1.ClientError](err); ok {
		r.result.Flag = FlagDownstreamTermination
		conns.Abort(r.client)
		return err
	}
	reply := r.classify(ctx, err)
	// The rest of a request that fails is nobody's, and must not be read for the next one.
	r.decide(false)
	r.result.Status, r.result.Flag = reply.Status(), reply.Flag()
	if werr := reply.answer().Write(r.out, r.view); werr != nil {
		_ = r.client.Close()
		return errors.Join(err, werr)
	}
	r.part()
	return err
}

func (r *relay) classify(ctx context.Context, err error) LocalReply {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrRequestTimeout):
		return ReplyRequestTimeout
	case errors.Is(cause, ErrRouteTimeout):
		return ReplyUpstreamTimeout
	case errors.Is(err, os.ErrDeadlineExceeded) && (r.deadline.IsZero() || time.Now().Before(r.deadline)):
		return ReplyResponseStalled
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ReplyUpstreamTimeout
	case h1.IsProtocolError(err):
		return ReplyUpstreamProtocolError
	default:
		return ReplyUpstreamTermination
	}
}

// breakOff ends a response that cannot be completed. A client that has nothing of it yet is answered.
func (r *relay) breakOff(ctx context.Context, f h1.Framing, err error) error {
	r.result.Flag = r.classify(ctx, err).Flag()
	if _, ok := errors.AsType[*h1.ClientError](err); ok && !errors.Is(err, os.ErrDeadlineExceeded) {
		r.result.Flag = FlagDownstreamTermination
	}
	if r.result.Flag != FlagDownstreamTermination && r.out.DiscardBuffered() {
		return r.refuse(ctx, err)
	}
	endBroken(r.client, f)
	return err
}
