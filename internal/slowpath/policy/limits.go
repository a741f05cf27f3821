// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"time"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath/headers"
)

// Times are until when the request has to be read, and until when its response has to be written; zero for no limit. A CONNECT is
// read when its head is, which began to arrive at headBegan.
func Times(r *headers.Request, headBegan time.Time) (readBy, endBy time.Time) {
	if d := r.Table.RequestTimeout; d > 0 && !r.Head.Connect() {
		readBy = headBegan.Add(d)
	}
	if d := r.Route.MaxDuration; d > 0 {
		endBy = headBegan.Add(d)
	}
	return readBy, endBy
}

// Idle is the longest time without progress, where usual is that of routes that say nothing.
func Idle(route *model.Route, usual time.Duration) time.Duration {
	switch {
	case route == nil || route.Idle == 0:
		return usual
	case route.Idle < 0:
		return math.MaxInt64
	}
	return route.Idle
}
