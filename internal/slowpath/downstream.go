// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/xlb-project/xlb/internal/head"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath/buffers"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/h1"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
	"github.com/xlb-project/xlb/internal/usage"
)

// readers are over sources.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4<<10) }}

// downstream is one Serve call: a client's connection and what is buffered of it.
type downstream struct {
	proxy   *Proxy
	session Session
	// active is the configuration that the current head, and its request, go by.
	active Configuration
	// sees is the listener's view, in which names of clusters have their meaning.
	sees   model.View
	conn   net.Conn
	ticket *shares.Ticket
	in     *conns.Source
	reader *bufio.Reader // over in, for bodies
	out    *h1.Writer
	head   *[]byte // pooled; the bytes of the current head
	// headMemory is what it takes of the memory that workloads share.
	headMemory headMemory
	// requests that have been read.
	requests uint32
	// headBegan is when the first byte of the current head was read.
	headBegan time.Time
	// entry is that of the request in progress among those of its workload.
	entry quotaEntry
	// carried are the bytes that the ledger has counted, for serves: whose the request is that was read last, and its cluster, once it has one that is there.
	carried usage.Traffic
	serves  usage.Destination
	// meter is the ledger's of metered, which the ticket's time counts in; nil: none yet.
	meter   *usage.Meter
	metered usage.Destination
	// crashed: what has served the connection has panicked.
	crashed bool
}

func newDownstream(p *Proxy, conn net.Conn, s Session) *downstream {
	d := &downstream{
		proxy: p, session: s, conn: conn, ticket: ticketOf(s.Ticket),
		in:     &conns.Source{Conn: conn},
		reader: readers.Get().(*bufio.Reader),
		out:    h1.NewWriter(conn, p.config.Crashes, conns.Abort),
		head:   buffers.Head(),
	}
	d.goByLatest()
	*d.head = append((*d.head)[:0], s.Resumed.request()...)
	d.reader.Reset(d.in)
	d.headMemory.memory = d.memory()
	return d
}

// goByLatest has what follows go by the configuration that is in force by now, or is about to be: the kernel leads clients to a new listener a moment before. The
// view is that of the connection's listener; it stays when the listener has gone.
func (d *downstream) goByLatest() {
	d.active = d.proxy.config.Active()
	if await := d.proxy.config.AwaitSwitch; await != nil && !d.active.HasListener(d.session.Listener) {
		await()
		d.active = d.proxy.config.Active()
	}
	if v := d.active.View(d.session.Listener); v != (model.View{}) {
		d.sees = v
	}
}

// clusterNamed is the one that the listener's view calls so, in the configuration that the request goes by at this moment; nil: there is no such cluster.
func (d *downstream) clusterNamed(name string) *model.Cluster {
	return d.active.Cluster(d.active.Key(d.sees, name))
}

func (d *downstream) release() {
	d.ticket.Yield()
	d.session.Claim.unused()
	d.session.Resumed.drop()
	d.headMemory.GiveBack()
	if d.crashed {
		// Another goroutine may use the buffers still.
		d.out.Abandon()
		return
	}
	d.out.Release()
	d.reader.Reset(nil)
	readers.Put(d.reader)
	buffers.PutHead(d.head)
}

// headState is what readHead found.
type headState uint8

const (
	headComplete headState = iota
	headNone               // nothing buffered, nothing begun: quiet
	headEnded              // the client is gone
	headRejected           // the bytes are not a head; see the reply
)

// boundary is the proof that what is read next begins a request: of the one before nothing is left. readHead can't be called without it.
type boundary struct{}

// run serves requests until the connection is quiet or closed. That it begins between two requests is its caller's proof (Proxy.Serve).
func (d *downstream) run(ctx context.Context) (quiet bool, err error) {
	d.serves.Workload = d.session.workload()
	d.measure()
	defer d.countBytes()
	for at := new(boundary); ; {
		d.goByLatest()
		end, state, reply := d.readHead(at)
		d.serves.Workload = d.session.workload()
		switch state {
		case headNone:
			return true, nil
		case headEnded:
			_ = d.conn.Close()
			return false, ctx.Err()
		case headRejected:
			d.reject(reply, h1.ClientView{})
			return false, nil
		case headComplete:
		}
		at, err = d.serveOne(ctx, end)
		d.countBytes()
		if at == nil {
			return false, err
		}
		d.collect()
	}
}

// countBytes counts what was read and written since it was called last, as of the request that was served. What was read of the next one counts here, too. A
// connection of this process may be another workload's by now, whose client has had its whole answer.
func (d *downstream) countBytes() {
	now := usage.Traffic{RequestBytes: d.in.Consumed, ResponseBytes: d.out.Sent()}
	d.count(now.Since(d.carried))
	d.carried, d.serves.Cluster = now, ""
}

// count has the ledger count what was carried for the request that was read last. Where nothing was, the ticket may still run for the request before.
func (d *downstream) count(t usage.Traffic) {
	if t == (usage.Traffic{}) {
		return
	}
	d.measure()
	d.meter.Add(t)
}

// measure has the ledger count the time that is worked for the request that was read last.
func (d *downstream) measure() {
	if d.meter != nil && d.metered == d.serves && d.meter.Counts() {
		return
	}
	d.meter, d.metered = d.proxy.config.Ledger.Meter(d.serves), d.serves
	d.ticket.Measure(d.meter)
}

// readHead reads until the head buffer holds a whole head and returns its end.
func (d *downstream) readHead(*boundary) (end int, state headState, reply LocalReply) {
	limit := d.proxy.config.Limits.HeadBytes
	scanned, timed := 0, false
	d.headBegan = time.Now()
	reply = ReplyHeaderTimeout
	for first := true; ; first = false {
		if d.skipEmptyLines() {
			scanned = 0
		}
		end, ok := head.Scan(*d.head, scanned)
		scanned = len(*d.head)
		switch {
		case !ok:
			return 0, headRejected, ReplyBadRequest
		case end == 0 && head.IsTooOld(*d.head):
			// No field follows, and nobody sends an empty line.
			return 0, headRejected, ReplyTooOld
		case end > limit, end == 0 && scanned > limit:
			return 0, headRejected, ReplyHeadTooLarge
		case end > 0:
			return end, headComplete, noReply
		case scanned == 0 && (!first || d.in.Consumed > 0 || d.session.Resumed != nil):
			return 0, headNone, noReply
		}
		if !timed {
			timed = true
			var within time.Duration
			within, reply = d.headTimeout()
			if d.conn.SetReadDeadline(d.headBegan.Add(within)) != nil {
				return 0, headEnded, noReply
			}
			defer func() { _ = d.conn.SetReadDeadline(time.Time{}) }()
		}
		switch err := d.fill(); {
		case errors.Is(err, errNoMemory):
			return 0, headRejected, ReplyOverloaded
		case err != nil:
			return 0, d.endOfHead(err), reply
		}
	}
}

// endOfHead tells what a failed read means in the midst of a head.
func (d *downstream) endOfHead(err error) headState {
	switch {
	case !errors.Is(err, os.ErrDeadlineExceeded):
		if len(*d.head) > 0 {
			d.proxy.finish(Report{Listener: d.session.Listener, Flag: FlagDownstreamTermination})
			d.serves.Workload = d.session.workload()
			d.count(usage.Traffic{Requests: 1})
		}
		return headEnded
	case len(*d.head) == 0:
		return headNone
	default:
		return headRejected
	}
}

// fill reads once from the connection into the head buffer. The error is errNoMemory for a head that gets no further block.
func (d *downstream) fill() error {
	b, ok := d.headMemory.extend(*d.head, d.session.account())
	if !ok {
		return errNoMemory
	}
	// A client that has sent a part of a head holds no ticket for it.
	d.ticket.Yield()
	n, err := d.in.ReadConn(b[len(b):d.headMemory.limit()])
	*d.head = b[:len(b)+n]
	if n > 0 {
		return nil
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// skipEmptyLines drops the empty lines that may precede a request. It reports whether it did.
func (d *downstream) skipEmptyLines() bool {
	n := h1.EmptyLines(*d.head)
	if n > 0 {
		*d.head = (*d.head)[:copy(*d.head, (*d.head)[n:])]
	}
	return n > 0
}

// collect moves what has been read beyond the last request to the head buffer.
func (d *downstream) collect() {
	n := d.reader.Buffered()
	if n == 0 && len(d.in.Pending) == 0 {
		*d.head = d.headMemory.shrink((*d.head)[:0])
		return
	}
	ahead, _ := d.reader.Peek(n)
	rest := append(append([]byte(nil), ahead...), d.in.Pending...)
	d.in.Pending = nil
	d.reader.Reset(d.in)
	*d.head = d.headMemory.shrink(append((*d.head)[:0], rest...))
}

// buffered counts the bytes that are read but not consumed.
func (d *downstream) buffered() int { return d.reader.Buffered() + len(d.in.Pending) }

// reject answers a request that must not pass, and closes.
func (d *downstream) reject(reply LocalReply, view h1.ClientView) {
	view.KeepAlive = false
	d.proxy.finish(Report{Listener: d.session.Listener, Status: reply.Status(), Flag: reply.Flag(), Resumed: d.continues()})
	if !d.continues() {
		d.count(usage.Traffic{Requests: 1})
	}
	a := reply.answer()
	if table := d.table(); table != nil && table.EnvoyHeaders != nil {
		a.Fields = headers.FinishOwn(table.EnvoyHeaders, a.Fields)
	}
	if a.Write(d.out, view) != nil {
		_ = d.conn.Close()
		return
	}
	d.linger()
}

// bodyOf returns the body of the request whose head ends at that offset, or nil if it has none. The reader goes on there.
func (d *downstream) bodyOf(h *head.Head, end int) *h1.RequestBody {
	d.in.Pending = (*d.head)[end:]
	d.reader.Reset(d.in)
	return h1.NewRequestBody(h, d.reader, d.ticket)
}

// table is the listener's, or nil.
func (d *downstream) table() *model.RouteTable {
	if table, ok := d.active.Routes(d.session.Listener); ok {
		return table
	}
	return nil
}

// headTimeout is how long a head may take, and the answer to one that takes longer.
func (d *downstream) headTimeout() (within time.Duration, reply LocalReply) {
	within, reply = d.proxy.config.Limits.HeadTimeout, ReplyHeaderTimeout
	table := d.table()
	if table == nil {
		return within, reply
	}
	for _, limit := range []struct {
		within time.Duration
		reply  LocalReply
	}{{table.HeadTimeout, ReplyHeaderTimeout}, {table.RequestTimeout, ReplyRequestTimeout}, {table.MaxDuration, ReplyRequestTooLong}} {
		if limit.within > 0 && limit.within < within {
			within, reply = limit.within, limit.reply
		}
	}
	return within, reply
}

// ticketOf is the ticket that was given, or one that never waits.
func ticketOf(t *shares.Ticket) *shares.Ticket {
	if t == nil {
		return &shares.Ticket{}
	}
	return t
}

// charge makes the ticket that of the tenant whose request has come, where the connection carries those of several clients: the one before may have been another's.
func (d *downstream) charge() {
	if d.session.From == nil {
		return
	}
	if tenant := d.session.From().Tenant; tenant != d.ticket.Path() {
		d.ticket.Yield()
		d.ticket, d.meter = d.ticket.For(tenant), nil
	}
}

// continues reports that the request which has come is the one that the fast path has begun to serve.
func (d *downstream) continues() bool { return d.requests == 0 && d.session.Resumed != nil }

// takeEntry takes an entry for the request that has come, until its exchange has ended. It reports false for one that is not to be served, since its client's
// workload has as many in progress as it may. One that the fast path has sent has the entry of its i-sock, and takes one here when it is sent anew.
func (d *downstream) takeEntry() (ok bool) {
	if d.continues() && d.session.Resumed.Attempt != nil {
		return true
	}
	d.entry, ok = d.proxy.quotas.enter(&d.session)
	return ok
}

// leaveEntry gives back what the request has taken.
func (d *downstream) leaveEntry() {
	d.entry.giveBack()
	d.entry = quotaEntry{}
}

// begin waits until the ticket runs for a request. It reports false for one that is not to be served, since too
// many of its client's group wait: one that the fast path has begun to serve is never that.
func (d *downstream) begin() bool {
	if d.continues() {
		d.ticket.Work()
		return true
	}
	return d.ticket.Begin()
}

// linger closes the connection as conns.LingeringClose does.
func (d *downstream) linger() {
	d.ticket.Yield()
	conns.LingeringClose(d.conn)
}

// field is one header field.
type field = head.Field

// refusals are the local replies to heads that must not pass.
var refusals = map[head.Kind]LocalReply{head.Malformed: ReplyBadRequest, head.TooLarge: ReplyHeadTooLarge, head.NotImplemented: ReplyNotImplemented}

// parseHead validates a complete head, empty line included. It returns the local reply for one that must not pass.
func parseHead(raw []byte, maxFields int) (head.Head, LocalReply) {
	h, refusal := head.Parse(raw, maxFields)
	if refusal == nil {
		return h, noReply
	}
	return h, refusals[refusal.Kind]
}
