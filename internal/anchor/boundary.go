// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"context"
	"net"

	"github.com/xlb-project/xlb/internal/maps"
)

// Boundary is the proof that a client's connection stands between two messages: nothing of a request that has begun is outstanding, so that
// the next bytes are a request's head. Handler.Serve, which reads them as one, can't be called without it, and it is made in this file alone
// (a test says so). docs/internals/handover.md lists every way in which bytes come to the daemon, and what they are.
type Boundary struct{ of *Conn }

// read has heads read from the connection that the proof is of, and of no other. It is open; the caller holds readMu and writeMu.
func (b Boundary) read(s Session, serve func(context.Context, net.Conn, Boundary, Session) Result) Result {
	return serve(b.of.set.ctx, b.of.conn, b, s)
}

// boundaryOfOwn is that of a connection of which no program moves anything: a handler has read all of it, from its beginning, and has kept
// it behind a request that was read to its end.
func (c *Conn) boundaryOfOwn() Boundary { return Boundary{c} }

// boundaryBehind is that behind a request which the kernel has kept a copy of: it was whole when it was moved.
func (c *Conn) boundaryBehind(maps.Whole) Boundary { return Boundary{c} }

// boundaryAt is that of the bytes which a program has declined, as its entry says. Each lease before them must have ended, and their client
// been told how, if it did so without a whole response: then either the lease's request was whole, or the connection has been closed.
func (c *Conn) boundaryAt(slow maps.SlowConn, found bool) (b Boundary, ok bool) {
	switch {
	case c.isOver():
		return Boundary{}, false
	case !found:
		// Amid a message a program passes bytes without an entry only to a lease that runs, which leaseOf finds; one that breaks amid its
		// request takes the connection with it.
		return Boundary{c}, true
	case !isAmid(maps.Verdict(slow.Reason)):
		return Boundary{c}, true
	case slow.HasLease != 0 && c.uploaded == (maps.Lease{Slot: slow.Slot, Number: slow.Lease}):
		// They were the rest of a request, all of which the daemon has sent on.
		return Boundary{c}, true
	}
	return Boundary{}, false
}

// isAmid reports a reason for which a program declines bytes amid a message (is_amid of bpf/request.bpf.c).
func isAmid(reason maps.Verdict) bool {
	return reason == maps.HandoverLeaseBroken || reason == maps.HandoverBodyMalformed || reason == maps.HandoverBodySpilled
}
