// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
)

func TestWorstIsShownAndAllIsFlagged(t *testing.T) {
	tests := []struct {
		flags  maps.EndpointFlags
		health string
		state  string
		all    string
	}{
		{0, "UNKNOWN", StateHealthy, "healthy"},
		{0, "DRAINING", StateDraining, "/eds_status_draining"},
		{0, "TIMEOUT", StateUnhealthy, "/failed_eds_health"},
		{0, "DEGRADED", StateDegraded, "/degraded_eds_health"},
		{maps.EndpointDegraded, "UNHEALTHY", StateUnhealthy, "/failed_eds_health/degraded_active_hc"},
		{maps.EndpointUnhealthy | maps.EndpointEjected, "HEALTHY", StateEjected, "/failed_active_hc/failed_outlier_check"},
		{maps.EndpointExcluded, "HEALTHY", StateUnhealthy, "/pending_active_hc"},
		{maps.EndpointDown, "DEGRADED", StateDown, "/failed_active_hc/degraded_eds_health"},
		{maps.EndpointDown | maps.EndpointGone, "", StateGone, "/failed_active_hc/pending_dynamic_removal"},
	}
	for _, tt := range tests {
		e := Endpoint{Place: Place{Health: tt.health}, State: maps.Endpoint{Flags: uint32(tt.flags)}}
		if state, all := e.worstState(), e.HealthFlags(); state != tt.state || all != tt.all {
			t.Errorf("flags %d, configured %s: got %s and %s, want %s and %s", tt.flags, tt.health, state, all, tt.state, tt.all)
		}
	}
}

func TestLocalityLeavesOutWhatIsMissing(t *testing.T) {
	for want, p := range map[string]Place{"": {}, "eu": {Region: "eu"}, "eu/a/1": {Region: "eu", Zone: "a", SubZone: "1"}, "/a": {Zone: "a"}} {
		if got := p.Locality(); got != want {
			t.Errorf("%+v: got %q, want %q", p, got, want)
		}
	}
}
