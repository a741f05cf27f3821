// SPDX-License-Identifier: Apache-2.0

package admin

import "github.com/xlb-project/xlb/internal/model"

// assignmentObject is envoy.config.endpoint.v3.ClusterLoadAssignment.
func assignmentObject(c *model.Cluster) object {
	o := object{"cluster_name": c.Name, "endpoints": localityObjects(c.Targets)}
	policy := object{}
	if factor := c.Balancing.Overprovisioning; factor != 0 {
		policy["overprovisioning_factor"] = factor
	}
	if c.Balancing.WeightedHealth {
		policy["weighted_priority_health"] = true
	}
	if len(policy) > 0 {
		o["policy"] = policy
	}
	return o
}

// localityObjects are envoy.config.endpoint.v3.LocalityLbEndpoints, one for each placement, in the order of their first targets.
func localityObjects(targets []model.Target) []object {
	at := map[model.Placement]int{}
	list := []object{}
	for i := range targets {
		placement := targets[i].Placement
		n, known := at[placement]
		if !known {
			n = len(list)
			at[placement] = n
			list = append(list, placementObject(placement))
		}
		endpoints, _ := list[n]["lb_endpoints"].([]object)
		list[n]["lb_endpoints"] = append(endpoints, targetObject(&targets[i]))
	}
	return list
}

func placementObject(p model.Placement) object {
	o := object{"lb_endpoints": []object{}}
	if p.Priority != 0 {
		o["priority"] = p.Priority
	}
	if p.Locality != (model.Locality{}) {
		o["locality"] = localityObject(p.Locality)
	}
	if p.LocalityWeight != 0 {
		o["load_balancing_weight"] = p.LocalityWeight
	}
	return o
}

// localityObject is envoy.config.core.v3.Locality.
func localityObject(l model.Locality) object {
	return object{"region": l.Region, "zone": l.Zone, "sub_zone": l.SubZone}
}

// targetObject is envoy.config.endpoint.v3.LbEndpoint.
func targetObject(t *model.Target) object {
	o := object{"endpoint": object{"address": hostAddress(t.Host, t.Port)}, "load_balancing_weight": t.Weight}
	if t.Health != model.HealthUnknown {
		o["health_status"] = t.Health.String()
	}
	if t.Metadata != "" {
		o["metadata"] = metadataObject(t.Metadata)
	}
	return o
}

// commonObject is envoy.config.cluster.v3.Cluster.CommonLbConfig.
func commonObject(b *model.Balancing) object {
	o := object{}
	if b.PanicThreshold != nil {
		o["healthy_panic_threshold"] = object{"value": *b.PanicThreshold}
	}
	if b.LocalityWeighted {
		o["locality_weighted_lb_config"] = object{}
	}
	if zones := zonesObject(b); len(zones) > 0 {
		o["zone_aware_lb_config"] = zones
	}
	return o
}

// zonesObject is envoy.config.cluster.v3.Cluster.CommonLbConfig.ZoneAwareLbConfig. The form by type has more fields, which are
// not shown.
func zonesObject(b *model.Balancing) object {
	o := object{}
	if b.FailOnPanic {
		o["fail_traffic_on_panic"] = true
	}
	if n := b.Zones.Enabled; n != nil {
		o["routing_enabled"] = object{"value": *n}
	}
	if n := b.Zones.MinHosts; n != nil {
		o["min_cluster_size"] = *n
	}
	return o
}

// policyObject is envoy.config.cluster.v3.Cluster.LeastRequestLbConfig or RoundRobinLbConfig.
func policyObject(c *model.Cluster) object {
	o := object{}
	if c.Policy == model.LeastRequest {
		o["choice_count"] = c.ChoiceCount
	}
	if c.Unbiased {
		o["active_request_bias"] = object{"default_value": 0, "runtime_key": "upstream.active_request_bias"}
	}
	if s := c.SlowStart; s.Window > 0 {
		o["slow_start_config"] = object{
			"slow_start_window": seconds(s.Window), "min_weight_percent": object{"value": 100 * s.MinWeight},
			"aggression": object{"default_value": s.Aggression, "runtime_key": "upstream.slow_start.aggression"},
		}
	}
	return o
}
