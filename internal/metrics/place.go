// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/maps"
)

// Place is where an endpoint stands in its cluster. One that stands in several places shows the first.
type Place struct {
	Priority uint32 `json:"priority"`
	Region   string `json:"region,omitempty"`
	Zone     string `json:"zone,omitempty"`
	SubZone  string `json:"sub_zone,omitempty"`
	// Health as configured, in Envoy's words: UNKNOWN, HEALTHY, UNHEALTHY, DRAINING, TIMEOUT, DEGRADED.
	Health string `json:"configured_health"`
	// Share is the part of the cluster's requests, 0 to 1, that is the endpoint's while none is down and none is busier than the others.
	Share float64 `json:"share"`
}

// Locality is region, zone and sub zone, as far as they are given.
func (p *Place) Locality() string {
	return strings.TrimRight(p.Region+"/"+p.Zone+"/"+p.SubZone, "/")
}

// States of an endpoint, the worst first: out of service, out by health, less good, good.
const (
	StateGone      = "gone"
	StateDown      = "down"
	StateEjected   = "ejected"
	StateUnhealthy = "unhealthy"
	StateDraining  = "draining"
	StateDegraded  = "degraded"
	StateHealthy   = "healthy"
)

// worstState is the worst that is known of the endpoint.
func (e *Endpoint) worstState() string {
	flags := maps.EndpointFlags(e.State.Flags)
	switch {
	case flags&maps.EndpointGone != 0:
		return StateGone
	case flags&maps.EndpointDown != 0:
		return StateDown
	case flags&maps.EndpointEjected != 0:
		return StateEjected
	case flags&(maps.EndpointUnhealthy|maps.EndpointExcluded) != 0, e.Place.Health == "UNHEALTHY", e.Place.Health == "TIMEOUT":
		return StateUnhealthy
	case e.Place.Health == "DRAINING":
		return StateDraining
	case flags&maps.EndpointDegraded != 0, e.Place.Health == "DEGRADED":
		return StateDegraded
	}
	return StateHealthy
}

// HealthFlags are Envoy's names of what is wrong with the endpoint, in Envoy's order (Host::HealthFlag), "healthy" when nothing is.
func (e *Endpoint) HealthFlags() string {
	flags := func(of maps.EndpointFlags) bool { return maps.EndpointFlags(e.State.Flags)&of != 0 }
	status := func(of ...string) bool { return slices.Contains(of, e.Place.Health) }
	var names string
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"/failed_active_hc", flags(maps.EndpointDown | maps.EndpointUnhealthy)},
		{"/failed_outlier_check", flags(maps.EndpointEjected)},
		{"/failed_eds_health", status("UNHEALTHY", "TIMEOUT")},
		{"/degraded_active_hc", flags(maps.EndpointDegraded)},
		{"/degraded_eds_health", status("DEGRADED")},
		{"/pending_dynamic_removal", flags(maps.EndpointGone)},
		{"/pending_active_hc", flags(maps.EndpointExcluded)},
		{"/active_hc_timeout", e.CheckTimedOut && flags(maps.EndpointUnhealthy)},
		{"/eds_status_draining", status("DRAINING")},
	} {
		if f.is {
			names += f.name
		}
	}
	return cmp.Or(names, "healthy")
}
