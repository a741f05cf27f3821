// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"
	"sync/atomic"

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

// GrowWeights groups the clusters anew in which some endpoint was in its slow start when they were grouped last. Without any it costs a look at
// each cluster.
func (r *Reconciler) GrowWeights() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, c := range r.clusters {
		if !c.starting {
			continue
		}
		if err := r.regroup(c); err != nil {
			// regroup has cleared it; the next second tries again.
			c.starting = true
			return fmt.Errorf("cluster %q: %w", name, err)
		}
	}
	return r.sweep()
}
