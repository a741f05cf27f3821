// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
)

// turnOf is the turn that was given, or one that nobody waits for.
func turnOf(t *shares.Turn) *shares.Turn {
	if t == nil {
		return &shares.Turn{}
	}
	return t
}

// charge makes the turn that of whose request has come, where the connection carries those of several clients: the one before may have been another's.
func (d *downstream) charge() {
	if d.session.From == nil {
		return
	}
	if tenant := d.session.From().Tenant; tenant != d.turn.Path() {
		d.turn.Rest()
		d.turn = d.turn.For(tenant)
	}
}

// begin waits for the turn of a request. It reports false for one that is not to be served, since too
// many of its client's group wait: one that the fast path has begun to serve is never that.
func (d *downstream) begin() bool {
	if d.requests == 0 && d.session.Begun != nil {
		d.turn.Work()
		return true
	}
	return d.turn.Begin()
}

// linger closes the connection as conns.LingeringClose does.
func (d *downstream) linger() {
	d.turn.Rest()
	conns.LingeringClose(d.conn)
}
