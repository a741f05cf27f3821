// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/xlb-project/xlb/internal/slowpath/reply"
	"github.com/xlb-project/xlb/internal/slowpath/watchdog"
)

// injectFault delays and aborts the requests that the configuration says. As in Envoy each of the two is left to
// chance of its own, and the route's timeout counts from behind the delay.
func (x *exchange) injectFault(ctx context.Context) (done, keep bool, err error) {
	fault := x.filters().Fault
	if fault == nil {
		return false, false, nil
	}
	if asked := x.Asked(); !fault.Concerns(&asked, x.Target) {
		return false, false, nil
	}
	aborts := fault.Status != 0 && fault.AbortShare.Holds(rand.Uint64())
	if fault.Delay > 0 && fault.DelayShare.Holds(rand.Uint64()) {
		if !x.hold(ctx, fault.Delay) {
			keep, err = x.fail(x.classify(context.Cause(x.ctx)))
			return true, keep, err
		}
	}
	if !aborts {
		return false, false, nil
	}
	keep, err = x.respond(reply.Answer{Status: fault.Status, Body: fault.Body, AsIs: x.isLocal()}, FlagFaultInjected)
	return true, keep, err
}

// hold waits, and reports whether there still is somebody to answer then. The bytes of a client that has a body to send are not read before they are
// wanted.
func (x *exchange) hold(ctx context.Context, d time.Duration) bool {
	x.turn.Rest()
	defer x.turn.Work()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x.ctx = ctx
	x.watchdog = watchdog.Start(x.conn, x.reader, x.idleLimit(), x.session.Stays, cancel, x.proxy.config.Crashes)
	if x.body == nil {
		x.watchdog.RequestRead(0)
	} else {
		x.watchdog.RequestUnread()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		x.watchdog.Stop()
		x.watchdog = nil
		return true
	case <-ctx.Done():
		return false
	}
}
