// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// stateOf is what is known of a cluster's endpoint now.
func (r *Reconciler) stateOf(c *cluster, endpoint uint32) clusters.EndpointState {
	s := clusters.EndpointState{Flags: maps.EndpointFlags(atomic.LoadUint32(&r.sh.Endpoints[c.endpoints[endpoint]].Flags))}
	slow := &c.compiled.SlowStart
	if slow.Window == 0 {
		return s
	}
	e := r.endpoints[endpointKey{c.compiled.Key, c.compiled.Endpoints[endpoint].Address}]
	if s.Factor = slow.Factor(r.now().Sub(e.since)); s.Factor < 1 {
		c.starting = true
	}
	return s
}

// isOut reports whether the configuration takes an endpoint out: when it no longer does, the endpoint starts slowly.
func isOut(h model.HealthStatus) bool {
	return h == model.Unhealthy || h == model.Draining || h == model.HealthTimeout
}

// RegroupPace is how often Regroup is to be called: so often the weights of a short window grow.
const RegroupPace = 250 * time.Millisecond

// latePace is between two attempts at a cluster for which there was no room.
const latePace = time.Second

// pace is how long the weights of a slow start stay as they are: a sixteenth of the window, and a second at most.
func pace(window time.Duration) time.Duration { return min(window/16, time.Second) }

// MustRegroup reports whether RegroupDue may have something to do.
func (r *Reconciler) MustRegroup() bool {
	for _, c := range r.clusters {
		if c.starting || c.late {
			return true
		}
	}
	return false
}

// RegroupDue groups the clusters anew in which some endpoint was in its slow start when they were grouped last, and those that could not be grouped,
// if that was long enough ago. Without any it costs a look at each cluster.
func (r *Reconciler) RegroupDue() error { return r.regroupThose(r.isDue) }

func (r *Reconciler) isDue(c *cluster) bool {
	// A call may come a moment early.
	since := r.now().Sub(c.grouped) + RegroupPace/2
	return c.late && since >= latePace || c.starting && since >= pace(c.compiled.SlowStart.Window)
}
