// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"time"
)

// headTimeout is how long a head may take, and the answer to one that takes longer.
func (d *downstream) headTimeout() (within time.Duration, reply LocalReply) {
	within, reply = d.proxy.config.Limits.HeadTimeout, ReplyHeaderTimeout
	table, ok := d.proxy.config.Table(d.session.Listener)
	if !ok {
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

// isLast reports whether the listener lets the connection serve no request after this one.
func (x *exchange) isLast() bool {
	if x.session.Closing != nil && x.session.Closing() {
		return true
	}
	table, ok := x.proxy.config.Table(x.session.Listener)
	return ok && table.Connections.Requests > 0 && x.session.Requests+x.requests >= table.Connections.Requests
}
