// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math/rand/v2"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
	"github.com/xlb-project/xlb/internal/slowpath/reply"
)

// Fault is by how long the request is to be delayed, 0: not at all, and whether it is to be aborted, with that answer. As in Envoy each of the two is left
// to chance of its own.
func Fault(r *headers.Request) (delay time.Duration, aborts bool, answer reply.Answer) {
	fault := Filters(r).Fault
	if fault == nil {
		return 0, false, answer
	}
	if asked := r.Asked(); !fault.Concerns(&asked, r.Target) {
		return 0, false, answer
	}
	aborts = fault.Status != 0 && fault.AbortShare.Holds(rand.Uint64())
	if fault.Delay > 0 && fault.DelayShare.Holds(rand.Uint64()) {
		delay = fault.Delay
	}
	return delay, aborts, reply.Answer{Status: fault.Status, Body: fault.Body}
}

// Filters are those of the request's cluster, or of its route, or for requests that have none.
func Filters(r *headers.Request) model.RouteFilters {
	switch {
	case r.Route == nil:
		return model.RouteFilters{Fault: r.Table.Fault}
	case r.Share != nil && r.Share.Filters != nil:
		return *r.Share.Filters
	}
	return r.Route.Filters
}
