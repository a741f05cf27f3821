// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/upstream"
)

// unseen reports whether it is certain that no server has seen anything of a lease's request. The i-sock has ended. A server may close an idle
// connection at the moment when a request is on its way there: then the request can be sent to another, even one that must not be executed
// twice. Of a server on this host the release program knows; of another TCP tells.
func (p *Pool) unseen(s *isock, l maps.Lease) bool {
	if !s.remote {
		return p.cfg.Shared.ClosedUnread(l)
	}
	return upstream.Unseen(s.fd, atomic.LoadUint64(&p.cfg.Shared.Slots[s.slot].Owed))
}

// sendPatience is how long a client may take to close a connection on which it could not send.
const sendPatience = 20 * time.Millisecond

// unsent reports whether the client has given up a request that no server has seen. The kernel fails a send if the server, on this host, closes
// between the program and the redirect; and clients send what could not be written again, on another connection, whatever its method. It waits
// for such a client, unless the request is known to have arrived.
func (p *Pool) unsent(s *isock, l Lost) bool {
	if s.remote || p.cfg.Shared.ClosedHolding(l.Lease) {
		return false
	}
	time.Sleep(sendPatience)
	return !p.cfg.Sockets.ClientOpen(l.Cookie)
}
