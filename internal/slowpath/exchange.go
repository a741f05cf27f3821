// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/model"
)

// exchange is one request and its response.
type exchange struct {
	*downstream
	head     head
	incoming *http.Request
	body     *requestBody // nil: the request has none
	view     clientView
	began    time.Time

	ctx      context.Context
	watchdog *watchdog

	route    *model.Route
	cluster  string
	endpoint Picked                       // in use
	address  netip.AddrPort               // of the last endpoint used
	upstream atomic.Pointer[upstreamConn] // set by the transport's goroutine
	// reused tells that upstream has served before, writtenBefore how much it
	// had sent then.
	reused        atomic.Bool
	writtenBefore atomic.Uint64
	stale         int // attempts on connections that had ended
}

// serveOne answers the request whose head ends at that offset. keep is false
// once the connection has been closed.
func (d *downstream) serveOne(ctx context.Context, end int) (keep bool, err error) {
	h, reply := parseHead((*d.head)[:end], d.proxy.config.Limits.HeadFields)
	view := clientView{method: h.method, http10: h.http10, keepAlive: h.keepAlive}
	if h.upgrade || h.connect() {
		// What follows may be the other protocol, whatever the answer: as in Envoy
		// the connection serves no further request.
		view.keepAlive = false
	}
	if reply != noReply {
		d.reject(reply, view)
		return false, nil
	}
	incoming, err := d.request(&h)
	if err != nil {
		d.reject(ReplyBadRequest, view)
		return false, nil // the client's fault, answered
	}
	x := &exchange{downstream: d, head: h, incoming: incoming, view: view, began: time.Now()}
	if h.hasBody() {
		x.body = &requestBody{in: incoming, left: h.length, onProgress: func() { x.watchdog.progress() }}
	}
	return x.run(ctx)
}

func (x *exchange) run(ctx context.Context) (bool, error) {
	claim := x.session.Claim
	x.session.Claim = nil
	if reply := x.match(); reply != noReply {
		claim.unused()
		return x.answer(reply)
	}
	if !claim.fits(x.route) {
		claim.unused()
		claim = nil
	}
	x.cluster = x.chooseCluster()
	if claim != nil {
		x.cluster = claim.Cluster
	}
	cluster := x.proxy.config.Cluster(x.cluster)
	if cluster == nil {
		claim.unused()
		return x.answer(ReplyNoCluster)
	}
	ctx = context.WithValue(ctx, connectTimeoutKey{}, cluster.ConnectTimeout)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x.ctx = httptrace.WithClientTrace(ctx, x.trace())
	x.out.begin(x)
	x.watchdog = startWatchdog(x.conn, x.reader, x.proxy.config.Limits.StreamIdle, cancel)
	x.watchdog.gone = x.session.Gone
	x.beginBody()
	resp, failure := x.roundTrip(claim)
	if resp == nil {
		return x.fail(failure)
	}
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		return x.switchProtocols(resp)
	case x.head.connect() && resp.StatusCode < http.StatusMultipleChoices:
		return x.establish(resp)
	}
	return x.relay(resp)
}

// unused gives a claim back.
func (c *Claim) unused() {
	if c != nil {
		c.Endpoint.Done(Outcome{})
	}
}

func (c *Claim) fits(route *model.Route) bool {
	return c != nil && slices.ContainsFunc(route.Clusters, func(w model.WeightedCluster) bool {
		return w.Name == c.Cluster
	})
}

// match finds the request's route, and asks whether it allows what the request
// wants to switch to. Envoy has no route for "OPTIONS *".
func (x *exchange) match() LocalReply {
	table, ok := x.proxy.config.Table(x.session.Listener)
	if !ok || x.head.path == "*" {
		return ReplyNoRoute
	}
	x.route = table.Match(&model.Request{
		Authority: x.head.authority, Path: x.head.path, Connect: x.head.connect(), Values: x.head.values,
	})
	switch {
	case x.route == nil:
		return ReplyNoRoute
	case x.head.upgrade && !x.route.Allows(x.head.protocol), x.head.connect() && !x.route.Allows(model.UpgradeConnect):
		return ReplyUpgradeRefused
	}
	return noReply
}

// chooseCluster draws among the route's clusters in proportion to their weights.
func (x *exchange) chooseCluster() string {
	clusters := x.route.Clusters
	if len(clusters) == 1 {
		return clusters[0].Name
	}
	n := rand.Uint32N(max(x.route.TotalWeight(), 1))
	for _, c := range clusters {
		if n < c.Weight {
			return c.Name
		}
		n -= c.Weight
	}
	return clusters[0].Name
}

// trace forwards informational responses and remembers the connection.
func (x *exchange) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if c, ok := info.Conn.(*upstreamConn); ok {
				x.upstream.Store(c)
				x.reused.Store(info.Reused)
				x.writtenBefore.Store(c.written.Load())
			}
		},
		Got1xxResponse: func(code int, header textproto.MIMEHeader) error {
			// The client's 100 has been sent by us; HTTP/1.0 knows none.
			ours := code == http.StatusContinue && x.head.expectContinue
			if x.head.http10 || ours || code == http.StatusSwitchingProtocols {
				return nil
			}
			x.watchdog.progress()
			// A dead client is found by the watchdog or by the final response.
			_ = x.out.informational(x, code, http.Header(header))
			return nil
		},
	}
}

// beginBody tells the client to send its body, as Envoy does, without asking
// the endpoint; and arms the route's timeout. A CONNECT has none: it counts from
// the end of the request, which is that of the tunnel.
func (x *exchange) beginBody() {
	timeout := x.route.Timeout
	if x.head.connect() {
		timeout = 0
	}
	if x.body == nil {
		x.watchdog.requestRead(timeout)
		return
	}
	x.body.onEnd = func() { x.watchdog.requestRead(timeout) }
	if x.head.chunked {
		x.body.trailer = http.Header{}
		for name := range x.incoming.Trailer {
			x.body.trailer[name] = nil
		}
	}
	if x.head.expectContinue {
		_ = x.out.informational(x, http.StatusContinue, nil)
	}
}

// maxStale bounds how many connections that had ended while they were idle one
// request may find.
const maxStale = 3

// unsent reports whether a failed attempt was on a connection that had served
// before, and has sent nothing on it.
func (x *exchange) unsent() bool {
	c := x.upstream.Load()
	return c != nil && x.reused.Load() && c.written.Load() == x.writtenBefore.Load() && (x.body == nil || !x.body.started.Load())
}

// roundTrip sends the request to an endpoint, and to another when a connection
// cannot be made: nothing has been sent then. Each is tried once.
func (x *exchange) roundTrip(claim *Claim) (*http.Response, LocalReply) {
	var tried []netip.AddrPort
	failure := ReplyNoHealthyUpstream
	skip := func(a netip.AddrPort) bool { return slices.Contains(tried, a) }
	for {
		if claim != nil {
			x.endpoint, claim = claim.Endpoint, nil
		} else if e, ok := x.proxy.config.Balancer.Pick(x.cluster, skip); ok {
			x.endpoint = e
		} else {
			return nil, failure
		}
		x.address = x.endpoint.Address()
		x.upstream.Store(nil)
		resp, err := x.send(x.address)
		if err == nil && !plainNames(resp.Header) {
			_ = resp.Body.Close()
			err = errNames
		}
		if err == nil {
			return resp, noReply
		}
		var dial *dialError
		connectFailed := errors.As(err, &dial)
		failure = x.classify(dial)
		unsent := x.unsent()
		x.done(Outcome{Err: cmp.Or(context.Cause(x.ctx), err), ConnectFailed: connectFailed || unsent})
		if unsent && x.ctx.Err() == nil && x.stale < maxStale {
			x.stale++
			continue
		}
		if !connectFailed || x.ctx.Err() != nil || x.body != nil && x.body.started.Load() {
			return nil, failure
		}
		tried = append(tried, x.address)
	}
}

// send makes one attempt.
func (x *exchange) send(endpoint netip.AddrPort) (*http.Response, error) {
	if x.head.connect() {
		return x.sendConnect(endpoint)
	}
	return x.proxy.transport.RoundTrip(x.outgoing(endpoint))
}

// done ends the use of the endpoint.
func (x *exchange) done(o Outcome) {
	if x.endpoint != nil {
		x.endpoint.Done(o)
		x.endpoint = nil
	}
}

// classify names the local reply for a failed round trip.
func (x *exchange) classify(dial *dialError) LocalReply {
	switch cause := context.Cause(x.ctx); {
	case errors.Is(cause, ErrRouteTimeout):
		return ReplyUpstreamTimeout
	case errors.Is(cause, ErrStreamIdle):
		if x.head.connect() || x.body != nil && !x.body.ended.Load() {
			return ReplyRequestStalled
		}
		return ReplyResponseStalled
	case cause != nil:
		return noReply
	case dial != nil && dial.timeout:
		return ReplyConnectTimeout
	case dial != nil:
		return ReplyConnectFailure
	}
	if c := x.upstream.Load(); c != nil && !c.broken.Load() {
		return ReplyUpstreamProtocolError
	}
	return ReplyUpstreamTermination
}

// outgoing builds the request for an endpoint.
func (x *exchange) outgoing(endpoint netip.AddrPort) *http.Request {
	header := x.outgoingHeader()
	if x.head.upgrade {
		header["Connection"] = []string{"Upgrade"}
		header["Upgrade"] = []string{x.head.protocol}
	}
	if _, ok := header["User-Agent"]; !ok {
		// An empty value keeps net/http from adding its own.
		header["User-Agent"] = []string{""}
	}
	out := &http.Request{
		Method: x.head.method,
		Proto:  "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		URL:    x.outgoingURL(endpoint),
		Host:   x.head.authority,
		Header: header,
	}
	switch {
	case x.body != nil:
		out.Body, out.ContentLength = x.body, x.head.length
	case replayable(x.head.method):
		out.Body = noReplay{}
	}
	if x.head.chunked {
		out.TransferEncoding = []string{"chunked"}
		out.Trailer = x.body.trailer
	}
	return out.WithContext(x.ctx)
}

// outgoingHeader is the client's, without what concerns its own connection.
func (x *exchange) outgoingHeader() http.Header {
	header := x.incoming.Header
	removeHopByHop(header)
	header.Del("Http2-Settings") // only h2c has a use for it
	if x.head.expectContinue {
		header.Del("Expect")
	}
	return header
}

// replayable names the methods of which net/http sends a request again when a
// connection that served before ends without an answer. The endpoint may have
// acted on it; Envoy does so only where a retry policy allows it. TRACE, the fourth,
// changes nothing.
func replayable(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	return false
}

// noReplay is an empty body, which net/http cannot rewind. That such a request has
// none it finds out by reading, and sends no framing for it.
type noReplay struct{}

func (noReplay) Read([]byte) (int, error) { return 0, io.EOF }
func (noReplay) Close() error             { return nil }

// outgoingURL carries the path byte for byte. url.URL.Opaque does, except that
// it takes a leading "//" for an authority; parseTarget has seen to it that
// such paths survive the ordinary fields.
func (x *exchange) outgoingURL(endpoint netip.AddrPort) *url.URL {
	u := &url.URL{Scheme: "http", Host: endpoint.String()}
	if !strings.HasPrefix(x.head.path, "//") {
		u.Opaque = x.head.path
		return u
	}
	path, query, found := strings.Cut(x.head.path, "?")
	u.RawPath, u.RawQuery, u.ForceQuery = path, query, found
	u.Path, _ = url.PathUnescape(path) // valid: see plainURI
	return u
}

// relay writes an endpoint's response to the client.
func (x *exchange) relay(resp *http.Response) (bool, error) {
	x.view.keepAlive = x.mayKeep()
	f, err := x.out.relay(resp, &x.view, x.watchdog.progress)
	_ = resp.Body.Close()
	if err != nil {
		return x.breakOff(resp.StatusCode, f, err)
	}
	x.finish(resp.StatusCode, FlagNone)
	x.done(Outcome{Status: resp.StatusCode})
	return x.closeOrKeep()
}

// mayKeep decides, before a response head is written, whether the connection
// can serve another request. One whose body is still to come cannot.
func (x *exchange) mayKeep() bool {
	return x.view.keepAlive && !x.proxy.draining.Load() && !x.proxy.closed.Load() && (x.body == nil || x.body.reached(x.buffered))
}

// closeOrKeep ends the reading of the request after its whole answer.
func (x *exchange) closeOrKeep() (bool, error) {
	_ = x.reclaim() // mayKeep has asked whether the body failed
	switch {
	// keepAlive implies that the body was reached: discard does not block.
	case x.view.keepAlive && (x.body == nil || x.body.discard()):
		return true, nil
	case !x.head.keepAlive && (x.body == nil || x.body.ended.Load()) && x.buffered() == 0:
		_ = x.conn.Close() // the client sends nothing more
	default:
		lingeringClose(x.conn)
	}
	return false, nil
}

// reclaim takes the connection back from the watchdog and the body's reader.
func (x *exchange) reclaim() (bodyErr error) {
	if x.body != nil {
		bodyErr = x.body.stop(func() { _ = x.conn.SetReadDeadline(time.Unix(1, 0)) })
		_ = x.conn.SetReadDeadline(time.Time{})
	}
	if x.watchdog != nil {
		x.watchdog.stop()
	}
	return bodyErr
}

// breakOff ends a response that cannot be completed: the client must see that.
func (x *exchange) breakOff(status int, f framing, err error) (bool, error) {
	failure := x.classify(nil)
	_ = x.reclaim() // what broke the response off is err
	cause := context.Cause(x.ctx)
	x.done(Outcome{Status: status, Err: cmp.Or(cause, err)})
	flag := failure.Flag()
	// A write that an interrupt made fail is not the client's doing.
	if _, ok := errors.AsType[*clientError](err); ok && cause == nil || failure == noReply {
		flag = FlagDownstreamTermination
	}
	if flag != FlagDownstreamTermination && x.out.discardBuffered() {
		return x.answer(failure)
	}
	x.finish(status, flag)
	x.abort(f)
	return false, err
}

// abort closes so that a body cannot be taken for complete. A length or chunks
// tell that by themselves, and leave the client what has arrived.
func (x *exchange) abort(f framing) {
	if f == framedLength || f == framedChunks {
		_ = x.conn.Close()
		return
	}
	abort(x.conn)
}

// fail answers a request that no endpoint answered.
func (x *exchange) fail(failure LocalReply) (bool, error) {
	bodyErr := x.reclaim()
	switch {
	// A client that closed behind a whole request may still wait (Session.Gone).
	case bodyErr != nil && x.in.failed, failure == noReply:
		x.finish(0, FlagDownstreamTermination)
		abort(x.conn)
		if cause := context.Cause(x.ctx); !errors.Is(cause, ErrClientGone) {
			return false, cause
		}
		return false, nil
	case bodyErr != nil && failure != ReplyRequestStalled:
		failure = ReplyBadRequest // malformed chunks
	}
	return x.answer(failure)
}

// answer writes a local reply and keeps the connection if it can.
func (x *exchange) answer(reply LocalReply) (bool, error) {
	x.view.keepAlive = x.mayKeep() && reply != ReplyBadRequest
	x.finish(reply.Status(), reply.Flag())
	if err := x.out.reply(reply, x.view); err != nil {
		_ = x.conn.Close()
		return false, nil // the client went away
	}
	return x.closeOrKeep()
}

// finish counts and reports the request.
func (x *exchange) finish(status int, flag Flag) {
	x.proxy.finish(Report{
		Listener: x.session.Listener, Cluster: x.cluster, Endpoint: x.address,
		Status: status, Flag: flag, Duration: time.Since(x.began),
	})
}
