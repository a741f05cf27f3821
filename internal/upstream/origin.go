// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/workload"
)

// Origin says for whom a listener of this process is connected to, where an endpoint is one.
type Origin struct {
	// View is the name of that which has the listener; empty: the shared one has.
	View string
	// Tenant is the group of the client that began.
	Tenant shares.Path
	// Workload is the network namespace of the client that began: connections to endpoints are made from there, whatever listeners the request passes.
	Workload workload.ID
	// Account is that of the workload.
	Account workload.ID
	// Depth is how many listeners of this process the request, or connection, has passed; 0: it comes from its client.
	Depth uint8
	// Circle is set when one of them gives it up since there were too many: then none sends it again. All that it passes share it; nil: it has
	// passed none.
	Circle *atomic.Bool
	// Copies is how many copies may still be made of what follows, by all listeners of this process that it comes to. Only those look at it.
	Copies int
}
