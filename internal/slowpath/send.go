// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/xlb-project/xlb/internal/crash"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/buffers"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
)

// maxStale bounds how many connections that had ended while they were idle one request may find.
const maxStale = 3

// sendGrace is how long the end of a request may take that the endpoint has answered, before its connection is given up.
const sendGrace = 50 * time.Millisecond

// sending is a request body on its way, while the answer is awaited.
type sending struct {
	done chan struct{}
	err  error // valid when done is closed
}

// send makes one attempt: it connects, sends the request and reads up to a final head. Where the route terminates CONNECT,
// the connection alone makes it a success.
func (x *exchange) send(endpoint netip.AddrPort) (*h1.Response, error) {
	if x.Head.Connect() && x.Route.TerminateConnect {
		if err := x.connect(endpoint); err != nil {
			return nil, err
		}
		x.upstream.Whole.Store(true)
		return established(), nil
	}
	message := buffers.Head()
	defer buffers.PutHead(message)
	*message = (*message)[:0]
	for refused := 0; ; refused++ {
		if err := x.sendRequest(endpoint, message, refused == 0); err != nil {
			return nil, err
		}
		resp, err := x.upstream.Responses.Final(x.Head.Method, x.passInterim)
		if err == nil {
			return resp, nil
		}
		again := refused < maxStale && x.isUnseen()
		x.endUpstream(false)
		if !again {
			return nil, err
		}
	}
}

// isUnseen reports whether the whole request was sent in one piece, and nobody has seen any of it: the endpoint had closed the connection.
func (x *exchange) isUnseen() bool {
	c, ok := x.upstream.Conn.(interface{ Unseen() bool })
	return ok && x.sending == nil && x.tryCtx.Err() == nil && c.Unseen()
}

// sendRequest sends the head, or begins to send the whole request; the message is made at the first attempt. It tries another connection when
// one that was idle has ended and taken nothing.
func (x *exchange) sendRequest(endpoint netip.AddrPort, message *[]byte, mayReuse bool) error {
	x.sendError = nil
	for stale := 0; ; stale++ {
		if err := x.reuseOrConnect(endpoint, mayReuse && stale < maxStale); err != nil {
			return err
		}
		if len(*message) == 0 {
			x.AnnounceAttempt()
			*message = x.appendRequest(*message)
		}
		n, err := x.upstream.Write(*message)
		x.sentSome = x.sentSome || n > 0
		if err == nil {
			break
		}
		if n > 0 || !x.upstream.Reused || x.ctx.Err() != nil {
			// It may have been answered all the same: the reading tells.
			x.sendError = err
			return nil
		}
		x.endUpstream(false)
	}
	if mayReuse {
		x.headArrived = x.watchTry()
	}
	if x.body != nil && !x.sentBody() {
		x.startSending()
	} else {
		x.upstream.Whole.Store(true)
	}
	return nil
}

// appendRequest appends what is sent before the answer is awaited: the head, and a small body that has come with it.
func (x *exchange) appendRequest(b []byte) []byte {
	b = x.appendRequestHead(b)
	switch {
	case x.body == nil:
	case x.replay != nil:
		source := x.replay.Begin()
		x.bodySource = source
		if !x.Head.Chunked {
			b = source.AppendSmall(b, x.buffered)
		}
	default:
		x.bodySource = x.body
		if x.body.Small(x.buffered) {
			b = x.body.AppendTo(b)
		}
	}
	return b
}

// appendRequestHead appends the request's head for the endpoint in use.
func (x *exchange) appendRequestHead(b []byte) []byte {
	if tls, _ := securityOf(x.endpoint); tls != nil {
		return h1.AppendRequestHead(b, &x.Head, headers.ClientCert)
	}
	return h1.AppendRequestHead(b, &x.Head)
}

// established is Envoy's own answer to CONNECT.
func established() *h1.Response {
	date := time.Now().UTC().Format(http.TimeFormat)
	return &h1.Response{Status: http.StatusOK, Reason: "OK", Fields: []field{{Name: []byte("Date"), Value: []byte(date)}}}
}

// sentBody reports whether the body has gone with the head.
func (x *exchange) sentBody() bool {
	if x.replay == nil {
		return x.body.Whole()
	}
	return !x.Head.Chunked && x.bodySource.Whole()
}

// reuseOrConnect never reuses for CONNECT, whose payload may be no HTTP.
func (x *exchange) reuseOrConnect(endpoint netip.AddrPort, reuse bool) error {
	if reuse && !x.Head.Connect() {
		to := x.destination(endpoint)
		if c := x.proxy.conns.Reuse(&to); c != nil {
			x.use(c)
			return nil
		}
	}
	return x.connect(endpoint)
}

func (x *exchange) connect(endpoint netip.AddrPort) error {
	x.ticket.Yield()
	c, err := x.proxy.conns.Connect(x.tryCtx, x.destination(endpoint), x.connectTimeout)
	x.ticket.Work()
	if err != nil {
		return err
	}
	x.use(c)
	return nil
}

// destination is the endpoint in use, at that address.
func (x *exchange) destination(endpoint netip.AddrPort) conns.Destination {
	if x.endpoint == nil {
		return conns.Destination{Workload: x.session.workload(), Address: endpoint}
	}
	// The payload of a CONNECT that ends here is whatever the client says.
	return destinationOf(x.endpoint, x.session.workload(), x.Head.Authority, !x.Head.Connect(), x.onward)
}

func (x *exchange) use(c *conns.Conn) {
	x.upstream = c
	c.Count(x.connections, x.session.Brief)
	c.Begin(x.tryCtx, x.proxy.config.Limits.heads(), x.ticket)
	if x.maxAttempt > 0 {
		cancel := x.cancelTry
		c.Timer = time.AfterFunc(x.maxAttempt, func() { cancel(ErrMaxAttempt) })
	}
}

// passInterim forwards an interim response. The client's 100 has been sent by us; HTTP/1.0 knows none.
func (x *exchange) passInterim(resp *h1.Response) error {
	x.watchdog.Progress()
	if x.retries != nil {
		x.retries.End()
	}
	if x.view.HTTP10 || resp.Status == http.StatusContinue && x.Head.ExpectContinue {
		return nil
	}
	// A dead client is found by the watchdog or by the final response.
	_ = x.out.Informational(resp.Status, resp.Fields)
	return nil
}

func (x *exchange) startSending() {
	// The view is changed as the response comes, which may be before the body has been sent.
	s, c, body, view := &sending{done: make(chan struct{})}, x.upstream, x.bodySource, x.view
	x.sending = s
	x.senders.Go(func() {
		defer close(s.done)
		defer x.proxy.config.Crashes.Recover("the body of a request", func() {
			s.err = crash.Err
			x.watchdog.Crashed()
			conns.Abort(c.Conn)
		})
		s.err = x.sendBody(c, body, view)
	})
}

// sendBody writes the rest of the request. It leaves the connection open when that cannot be written: the answer may
// lie behind it.
func (x *exchange) sendBody(c *conns.Conn, body h1.BodySource, view h1.ClientView) error {
	w := h1.NewRequestWriter(c.Conn, x.Head.Chunked)
	defer w.Release()
	buf := buffers.Copy()
	defer buffers.PutCopy(buf)
	for {
		n, err := body.Read(*buf)
		if n > 0 {
			if err := w.Data((*buf)[:n]); err != nil {
				return err
			}
		}
		switch {
		case body.Whole():
			err := w.End(view.Passing(x.body.Trailer()))
			c.Whole.Store(err == nil)
			return err
		case err != nil:
			c.Abandon()
			return err
		case x.replay != nil || x.reader.Buffered() == 0: // the next piece may take a while; otherwise it is here
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
}

// passTrailers reports whether trailers pass between the client and the cluster: as in Envoy where both sides have them enabled.
func (x *exchange) passTrailers(to *model.Cluster) bool {
	return x.Table != nil && x.Table.Trailers && to.Trailers
}

// sentWhole reports whether the endpoint has been sent the whole request.
func (x *exchange) sentWhole() bool {
	switch {
	case x.sending == nil:
		return x.sendError == nil
	case !x.body.Whole():
		return false
	}
	// The last piece is being written, or has been.
	return x.endOfSending() == nil && x.upstream.SetWriteDeadline(time.Time{}) == nil
}

// endOfSending gives what is being written a moment, and returns what became of it.
func (x *exchange) endOfSending() error {
	if x.sending == nil {
		return x.sendError
	}
	// A failure shows in the write.
	_ = x.upstream.SetWriteDeadline(time.Now().Add(sendGrace))
	<-x.sending.done
	return x.sending.err
}

// endUpstream ends the use of the endpoint's connection, if there is one. keep: its response is complete, and it says that it
// serves on.
func (x *exchange) endUpstream(keep bool) {
	if x.upstream == nil {
		return
	}
	x.upstream.End(keep && x.sentWhole(), x.proxy.conns)
	x.upstream = nil
}
