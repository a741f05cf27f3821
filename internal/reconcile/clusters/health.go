// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// HealthChange is what has been learned of one endpoint.
type HealthChange struct {
	// Endpoint is an index into the shared endpoints.
	Endpoint uint32
	// Set and Clear are flags of health: EndpointUnhealthy, EndpointEjected, EndpointDegraded, EndpointExcluded. Others are
	// left alone.
	Set, Clear maps.EndpointFlags
}

const healthFlags = maps.EndpointUnhealthy | maps.EndpointEjected | maps.EndpointDegraded | maps.EndpointExcluded

// RegroupChanged groups the clusters anew of which NoteHealth says that endpoints have changed, and those whose balancing depends on them: each once,
// whatever the number of changes.
func (r *Reconciler) RegroupChanged(changed map[model.ClusterKey]bool) error {
	return r.regroupThose(func(c *cluster) bool { return changed[c.compiled.Key] || c.dependsOn(changed) })
}

// regroupThose groups clusters anew. One for which there is no room does not keep others from it.
func (r *Reconciler) regroupThose(which func(*cluster) bool) error {
	var errs []error
	for key, c := range r.clusters {
		if !which(c) {
			continue
		}
		if err := r.regroup(c); err != nil {
			c.late = true
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
		}
	}
	return errors.Join(errs...)
}

// NoteHealth notes changes in the endpoints' flags, and returns the clusters whose endpoints really change. An index without an endpoint is ignored: it
// has been released meanwhile.
func (r *Reconciler) NoteHealth(changes []HealthChange) map[model.ClusterKey]bool {
	changed := map[model.ClusterKey]bool{}
	for _, change := range changes {
		key, known := r.byIndex[change.Endpoint]
		if !known || !r.setFlags(change) {
			continue
		}
		if change.Clear&maps.EndpointUnhealthy != 0 {
			r.endpoints[key].since = r.now()
		}
		changed[key.cluster] = true
	}
	return changed
}

// setFlags reports whether that changes anything. Other flags of the word have other writers.
func (r *Reconciler) setFlags(change HealthChange) bool {
	flags := &r.sh.Endpoints[change.Endpoint].Flags
	set, gone := uint32(change.Set&healthFlags), uint32(change.Clear&healthFlags&^change.Set)
	was := atomic.OrUint32(flags, set)
	atomic.AndUint32(flags, ^gone)
	return was&set != set || was&gone != 0
}

// dependsOn reports whether one of some clusters is this node's own, and the balancing of this one zone-aware.
func (c *cluster) dependsOn(some map[model.ClusterKey]bool) bool {
	return c.compiled != nil && c.compiled.Zones != nil && some[c.compiled.Zones.Own]
}

// learned is what is known now of the endpoints that a cluster's balancing depends on.
func (r *Reconciler) learned(c *cluster) clusters.Learned {
	of := clusters.Learned{Own: func(endpoint uint32) clusters.EndpointState { return r.stateOf(c, endpoint) }}
	if z := c.compiled.Zones; z != nil {
		of.Local = func(endpoint uint32) clusters.EndpointState { return r.localState(z, endpoint) }
	}
	return of
}

// localState is that of an endpoint of this node's own cluster, which need not be in the maps yet.
func (r *Reconciler) localState(z *clusters.Zones, endpoint uint32) clusters.EndpointState {
	own := &z.Endpoints[endpoint]
	e := r.endpoints[endpointKey{z.Own, own.Address}]
	switch {
	case e != nil:
		return clusters.EndpointState{Flags: maps.EndpointFlags(atomic.LoadUint32(&r.sh.Endpoints[e.index].Flags))}
	case own.Checked:
		return clusters.EndpointState{Flags: maps.EndpointUnhealthy}
	}
	return clusters.EndpointState{}
}

// beginHealth is for an endpoint that is new to the configuration, or has come back: one that is checked is unhealthy until it has
// passed, all others are healthy.
func (r *Reconciler) beginHealth(endpoint uint32, checked bool) {
	flags := &r.sh.Endpoints[endpoint].Flags
	if checked {
		atomic.OrUint32(flags, uint32(maps.EndpointUnhealthy))
	} else {
		atomic.AndUint32(flags, ^uint32(maps.EndpointUnhealthy))
	}
	atomic.AndUint32(flags, ^uint32(healthFlags&^maps.EndpointUnhealthy))
}

// takeHealth has a new endpoint begin with the health of another one at its address, if there is one: it is the same server, in a cluster that some views
// have left.
func (r *Reconciler) takeHealth(e *endpoint, of *clusters.Cluster, as *clusters.Endpoint) {
	other := r.endpoints[endpointKey{cluster: of.From, address: as.Address}]
	if of.From == (model.ClusterKey{}) || other == nil || other.gone {
		return
	}
	taken := maps.EndpointExcluded
	if as.Checked {
		taken |= maps.EndpointUnhealthy | maps.EndpointDegraded
	}
	if of.Ejects {
		taken |= maps.EndpointEjected
	}
	before, now := &r.sh.Endpoints[other.index], &r.sh.Endpoints[e.index]
	if of.Ejects {
		atomic.StoreUint32(&now.Errors, atomic.LoadUint32(&before.Errors))
		atomic.StoreUint32(&now.GatewayErrors, atomic.LoadUint32(&before.GatewayErrors))
	}
	flags := maps.EndpointFlags(atomic.LoadUint32(&before.Flags))
	r.setFlags(HealthChange{Endpoint: e.index, Set: flags & taken, Clear: taken})
	e.since = other.since
}
