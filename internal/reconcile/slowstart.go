// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// stateOf is what is known of a cluster's endpoint now.
func (r *Reconciler) stateOf(c *cluster, endpoint uint32) compile.EndpointState {
	s := compile.EndpointState{Flags: maps.EndpointFlags(atomic.LoadUint32(&r.sh.Endpoints[c.endpoints[endpoint]].Flags))}
	slow := &c.compiled.SlowStart
	if slow.Window == 0 {
		return s
	}
	e := r.endpoints[endpointKey{c.compiled.Name, c.compiled.Endpoints[endpoint].Address}]
	if s.Factor = slow.Factor(r.now().Sub(e.since)); s.Factor < 1 {
		c.starting = true
	}
	return s
}

// isOut reports whether the configuration takes an endpoint out: when it no longer does, the endpoint starts slowly.
func isOut(h model.HealthStatus) bool {
	return h == model.Unhealthy || h == model.Draining || h == model.HealthTimeout
}

// GrowthPace is how often GrowWeights is to be called: so often the weights of a short window grow.
const GrowthPace = 250 * time.Millisecond

// pace is how long the weights of a slow start stay as they are: a sixteenth of the window, and a second at most.
func pace(window time.Duration) time.Duration { return min(window/16, time.Second) }

// MustGrow reports whether GrowWeights may have something to do. It does not wait.
func (r *Reconciler) MustGrow() bool {
	if !r.mu.TryLock() {
		return true
	}
	defer r.mu.Unlock()
	for _, c := range r.clusters {
		if c.starting {
			return true
		}
	}
	return false
}

// GrowWeights groups the clusters anew in which some endpoint was in its slow start when they were grouped last, if that was long enough ago.
// Without any it costs a look at each cluster.
func (r *Reconciler) GrowWeights() error {
	return r.withRoom(func() error {
		for name, c := range r.clusters {
			// A call may come a moment early.
			if !c.starting || r.now().Sub(c.grouped) < pace(c.compiled.SlowStart.Window)-GrowthPace/2 {
				continue
			}
			before := c.grouped
			if err := r.regroup(c); err != nil {
				// regroup has changed both; the next call tries again.
				c.starting, c.grouped = true, before
				return fmt.Errorf("cluster %q: %w", name, err)
			}
		}
		return nil
	})
}
