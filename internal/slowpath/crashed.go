// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"context"
	"errors"

	"github.com/xlb-project/xlb/internal/crash"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
)

// serve answers the request. A panic ends its connection, and nothing else: the client is reset, whatever it has of a response, and what the request has
// taken is given back. An answer in its place would have to know how much of another one the client has.
func (x *exchange) serve(ctx context.Context) (err error) {
	defer x.end()
	defer x.proxy.config.Crashes.Recover("a request", func() {
		x.giveBack()
		err = crash.Err
	})
	_, err = x.run(ctx)
	return err
}

// end gives up what the request has of the cluster, of copies and of its body, and ends its context. No goroutine reads its body any more. It runs behind the recovery
// of the request, so that each step has one of its own; the client has its answer by then, or has been reset.
func (x *exchange) end() {
	x.proxy.config.Crashes.Each("the end of a request",
		x.leave,
		x.dropCopies,
		x.replay.Drop,
		func() {
			if x.cancel != nil {
				x.cancel(nil)
			}
		},
	)
}

// giveBack ends both connections of a request amid which its goroutine has panicked, waits for the others that work for it, which end since all that they
// wait for is closed, and gives back what it has taken. That says nothing of the endpoint.
func (x *exchange) giveBack() {
	x.crashed, x.next = true, nil
	x.proxy.config.Crashes.Each("the end of a request that has panicked",
		func() {
			if x.cancel != nil {
				x.cancel(crash.Err)
			}
		},
		func() { conns.Abort(x.conn) },
		func() { x.endUpstream(false) },
		func() { _ = x.stopBody() },
		x.senders.Wait,
		func() {
			if x.watchdog != nil {
				x.watchdog.Stop()
			}
		},
		x.claim.unused,
		func() {
			if e := x.endpoint; e != nil {
				x.endpoint = nil
				e.Done(Outcome{})
			}
		},
	)
}

// hasCrashed reports whether another goroutine that works for the request has panicked.
func (x *exchange) hasCrashed() bool {
	return x.ctx != nil && errors.Is(context.Cause(x.ctx), crash.Err)
}
