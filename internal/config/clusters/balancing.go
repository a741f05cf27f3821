// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// balancing translates what a cluster says of priorities and localities.
func balancing(c *clusterv3.Cluster, a *endpointv3.ClusterLoadAssignment) model.Balancing {
	common, policy := c.GetCommonLbConfig(), a.GetPolicy()
	return model.Balancing{
		Overprovisioning: policy.GetOverprovisioningFactor().GetValue(),
		WeightedHealth:   policy.GetWeightedPriorityHealth(),
		LocalityWeighted: common.GetLocalityWeightedLbConfig() != nil,
		FailOnPanic:      common.GetZoneAwareLbConfig().GetFailTrafficOnPanic(),
		PanicThreshold:   percent(common.GetHealthyPanicThreshold()),
		Zones:            zones(common.GetZoneAwareLbConfig()),
	}
}

// placementOf is that of a locality's endpoints.
func placementOf(l *endpointv3.LocalityLbEndpoints) model.Placement {
	return model.Placement{
		Priority:       l.GetPriority(),
		Locality:       values.Locality(l.GetLocality()),
		LocalityWeight: l.GetLoadBalancingWeight().GetValue(),
	}
}

// localityWeights refuses a second weight for a locality of one priority: Envoy takes whichever it reads last.
func (t *translator) localityWeights(a *endpointv3.ClusterLoadAssignment, path string) {
	type key struct {
		priority uint32
		locality model.Locality
	}
	first := map[key]int{}
	for i, l := range a.GetEndpoints() {
		placement := placementOf(l)
		k := key{placement.Priority, placement.Locality}
		before, twice := first[k]
		if !twice {
			first[k] = i
			continue
		}
		if placementOf(a.GetEndpoints()[before]) != placement {
			t.p.Add(problem.At(path+".endpoints", i)+".load_balancing_weight",
				"differs from that of endpoints[%d], which is the same locality and priority; merge the two", before)
		}
	}
}

var healthStatuses = map[corev3.HealthStatus]model.HealthStatus{
	corev3.HealthStatus_UNKNOWN:   model.HealthUnknown,
	corev3.HealthStatus_HEALTHY:   model.Healthy,
	corev3.HealthStatus_UNHEALTHY: model.Unhealthy,
	corev3.HealthStatus_DRAINING:  model.Draining,
	corev3.HealthStatus_TIMEOUT:   model.HealthTimeout,
	corev3.HealthStatus_DEGRADED:  model.Degraded,
}

// defaultMinWeight is Envoy's SlowStartConfig.min_weight_percent, as a part of 1.
const defaultMinWeight = 0.1

// slowStartConfig is what clusters and policies by type say of it, in types of their own.
type slowStartConfig interface {
	GetSlowStartWindow() *durationpb.Duration
	GetAggression() *corev3.RuntimeDouble
	GetMinWeightPercent() *typev3.Percent
}

func (t *translator) slowStart(s slowStartConfig, path string) model.SlowStart {
	out := model.SlowStart{
		Window:     t.Duration(s.GetSlowStartWindow(), 0, path+".slow_start_window"),
		Aggression: 1, MinWeight: defaultMinWeight,
	}
	if a := s.GetAggression(); a != nil {
		out.Aggression = a.GetDefaultValue()
		if out.Aggression <= 0 {
			t.p.Add(path+".aggression.default_value", "%v, in place of which Envoy takes 1; write a number above 0", out.Aggression)
		}
	}
	if p := s.GetMinWeightPercent(); p != nil {
		out.MinWeight = p.GetValue() / 100
	}
	if out.Window == 0 {
		return model.SlowStart{}
	}
	return out
}

// overrideStatus is nil where the cluster says nothing.
func overrideStatus(c *clusterv3.Cluster) []model.HealthStatus {
	set := c.GetCommonLbConfig().GetOverrideHostStatus()
	if set == nil {
		return nil
	}
	out := []model.HealthStatus{}
	for _, s := range set.GetStatuses() {
		out = append(out, healthStatuses[s])
	}
	return out
}
