// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"sync/atomic"

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
