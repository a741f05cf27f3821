// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/xlb-project/xlb/internal/crash"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/slowpath/reply"
	"github.com/xlb-project/xlb/internal/usage"
)

// clientGone ends a request that nobody waits for any more, and that no endpoint has got.
func (x *exchange) clientGone() (bool, error) {
	x.finish(0, FlagDownstreamTermination)
	conns.Abort(x.conn)
	return false, nil
}

func (x *exchange) responding(a reply.Answer) func() (bool, error) {
	return func() (bool, error) { return x.respond(a, FlagNone) }
}

// relay writes an endpoint's response to the client.
func (x *exchange) relay(resp *h1.Response) (bool, error) {
	x.view.KeepAlive = x.mayKeep()
	// Bytes behind a refused CONNECT may be the payload's, and the endpoint may have taken the body of a refused upgrade for what is none.
	keep := resp.KeepAlive && !x.Head.Connect() && (!x.Head.Upgrade || x.body == nil)
	f, err := x.out.Relay(resp, &x.view, x.watchdog.Progress, func() {
		if x.sending == nil { // otherwise the client would wait for its own body
			x.endUpstream(keep)
		}
	})
	if err != nil {
		return x.breakOff(resp.Status, f, err)
	}
	x.endUpstream(keep)
	x.finish(resp.Status, x.flag)
	x.done(Outcome{Status: resp.Status})
	return x.closeOrKeep()
}

// mayKeep decides, before a response head is written, whether the connection
// can serve another request. One whose body is still to come cannot.
func (x *exchange) mayKeep() bool {
	return x.view.KeepAlive && !x.isLast() && !x.proxy.draining.Load() && !x.proxy.closed.Load() && (x.body == nil || x.body.Reached(x.buffered))
}

// isLast reports whether the listener lets the connection serve no request after this one.
func (x *exchange) isLast() bool {
	if x.session.Closing != nil && x.session.Closing() {
		return true
	}
	table := x.table()
	return table != nil && table.Connections.Requests > 0 && x.session.Requests+x.requests >= table.Connections.Requests
}

// closeOrKeep ends the reading of the request after its whole answer.
func (x *exchange) closeOrKeep() (bool, error) {
	_ = x.reclaim() // mayKeep has asked whether the body failed
	switch {
	case x.hasCrashed():
		conns.Abort(x.conn)
		return false, crash.Err
	case x.view.KeepAlive && x.readOut():
		return true, nil
	case !x.Head.KeepAlive && (x.body == nil || x.body.Whole()) && x.buffered() == 0:
		_ = x.conn.Close() // the client sends nothing more
	default:
		x.linger()
	}
	return false, nil
}

// readOut reads the rest of the request's body, which proves that another request may be read. It does not block: mayKeep has asked whether
// the body was reached.
func (x *exchange) readOut() bool {
	if x.body != nil && !x.body.Discard() {
		return false
	}
	x.next = new(boundary)
	return true
}

// reclaim takes the connection back from the watchdog and from what sends the body.
func (x *exchange) reclaim() (bodyErr error) {
	x.endUpstream(false) // frees a write that is blocked
	bodyErr = x.stopBody()
	x.senders.Wait()
	if x.watchdog != nil {
		x.watchdog.Stop()
	}
	return bodyErr
}

// stopBody ends the reading of the request's body, and returns the error that it had before.
func (x *exchange) stopBody() error {
	if x.body == nil {
		return nil
	}
	defer func() { _ = x.conn.SetReadDeadline(time.Time{}) }()
	return x.body.Stop(func() { _ = x.conn.SetReadDeadline(time.Unix(1, 0)) })
}

// breakOff ends a response that cannot be completed: the client must see that.
func (x *exchange) breakOff(status int, f h1.Framing, err error) (bool, error) {
	failure := x.classify(err)
	_ = x.reclaim() // what broke the response off is err
	cause := x.cause()
	x.done(Outcome{Status: status, Err: cmp.Or(cause, err)})
	flag := failure.Flag()
	// A write that an interrupt made fail is not the client's doing.
	if _, ok := errors.AsType[*h1.ClientError](err); ok && cause == nil || failure == noReply {
		flag = FlagDownstreamTermination
	}
	if flag != FlagDownstreamTermination && x.out.DiscardBuffered() {
		return x.answer(failure)
	}
	x.finish(status, flag)
	endBroken(x.conn, f)
	return false, err
}

// endBroken closes so that a body cannot be taken for complete. A length or chunks
// tell that by themselves, and leave the client what has arrived.
func endBroken(client net.Conn, f h1.Framing) {
	if f == h1.FramedLength || f == h1.FramedChunks {
		_ = client.Close()
		return
	}
	conns.Abort(client)
}

// fail answers a request that no endpoint answered.
func (x *exchange) fail(failure LocalReply) (bool, error) {
	bodyErr := x.reclaim()
	switch {
	// A client that closed behind a whole request may still wait (Session.Stays).
	case bodyErr != nil && x.in.Failed, failure == noReply:
		x.finish(0, FlagDownstreamTermination)
		conns.Abort(x.conn)
		if cause := x.cause(); !errors.Is(cause, ErrClientGone) {
			return false, cause
		}
		return false, nil
	case bodyErr != nil && failure.Status() != http.StatusRequestTimeout:
		failure = ReplyBadRequest // malformed chunks
	}
	return x.answer(failure)
}

// answer writes a local reply and keeps the connection if it can.
func (x *exchange) answer(reply LocalReply) (bool, error) {
	x.view.KeepAlive = x.view.KeepAlive && reply != ReplyBadRequest
	a := reply.answer()
	a.AsIs = x.isLocal()
	if reply == ReplyNoHealthyUpstream {
		a.Status = x.sticky.Status(a.Status)
	}
	if reply == ReplyOverflow && (x.EnvoyHeaders == nil || !x.EnvoyHeaders.SuppressEnvoyHeaders) {
		a.Fields = append(a.Fields, field{Name: []byte("x-envoy-overloaded"), Value: []byte("true")})
	}
	if x.retries != nil && x.Attempts > 1 {
		a.Body = strings.Replace(a.Body, resetReason, "retried and the latest "+resetReason, 1) // as Envoy
	}
	return x.respond(a, reply.Flag())
}

// isLocal reports a route that answers by itself. As in Envoy it changes that answer only.
func (x *exchange) isLocal() bool { return x.Route != nil && x.Route.IsLocal() }

// respond writes an answer of our own and keeps the connection if it can.
func (x *exchange) respond(a reply.Answer, flag Flag) (bool, error) {
	x.view.KeepAlive = x.view.KeepAlive && !a.Close
	x.view.KeepAlive = x.mayKeep()
	if !a.AsIs {
		a.Fields = x.ChangeResponse(a.Status, true, a.Fields)
	}
	a.Fields = x.FinishResponse(x.sticky.Keep(&x.Request, x.cors.AllowOrigin(a.Fields)))
	x.finish(a.Status, flag)
	if x.IsGRPC() {
		a = a.ForGRPC(x.view.Method)
	}
	if err := a.Write(x.out, x.view); err != nil {
		_ = x.conn.Close()
		return false, nil // the client went away
	}
	return x.closeOrKeep()
}

// finish counts and reports the request.
func (x *exchange) finish(status int, flag Flag) {
	// What the fast path has begun it has counted.
	if x.resumed == nil {
		x.count(usage.Traffic{Requests: 1})
	}
	x.proxy.finish(Report{
		Listener: x.session.Listener, Cluster: x.cluster, Endpoint: x.Address,
		Status: status, Flag: flag, Duration: time.Since(x.Began), Resumed: x.resumed != nil, Sent: x.sentAnew(),
	})
}
