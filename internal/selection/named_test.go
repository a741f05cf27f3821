// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"testing"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

func TestHealthOfANamedEndpointIsEnvoys(t *testing.T) {
	tests := []struct {
		name       string
		flags      maps.EndpointFlags
		configured model.HealthStatus
		want       model.HealthStatus
	}{
		{"nothing known", 0, model.HealthUnknown, model.HealthUnknown},
		{"configured", 0, model.Healthy, model.Healthy},
		{"draining", 0, model.Draining, model.Draining},
		{"draining and degraded", maps.EndpointDegraded, model.Draining, model.Draining},
		{"degraded by its checks", maps.EndpointDegraded, model.Healthy, model.Degraded},
		{"unhealthy before draining", maps.EndpointUnhealthy, model.Draining, model.Unhealthy},
		{"ejected", maps.EndpointEjected, model.Healthy, model.Unhealthy},
		{"not checked yet", maps.EndpointExcluded, model.HealthUnknown, model.Unhealthy},
		{"connections are refused", maps.EndpointDown, model.HealthUnknown, model.HealthUnknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := namedHealth(tt.flags, tt.configured); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
