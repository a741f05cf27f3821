// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
)

// zones of random clusters; the last is a node's only.
var zones = []string{"a", "b", "c", "d"}

// nodes is a cluster of nodes at some of the addresses, up to four in each zone, some of them sick.
func (r random) nodes(addresses []netip.AddrPort) object {
	var list []object
	sick, weighted := r.IntN(3), r.IntN(2) == 0
	for _, zone := range zones {
		n := r.IntN(5)
		var hosts []object
		for _, a := range addresses[:n] {
			hosts = append(hosts, r.host(a, sick, weighted))
		}
		addresses = addresses[n:]
		list = append(list, object{"locality": object{"zone": zone}, "lb_endpoints": hosts})
	}
	return r.zoneAware(object{
		"name": "nodes", "type": "STATIC", "lb_policy": "RANDOM", "load_assignment": object{"cluster_name": "nodes", "endpoints": list},
	})
}

// zoneAware changes how a random cluster uses localities.
func (r random) zoneAware(c object) object {
	common, _ := c["common_lb_config"].(object)
	delete(common, "zone_aware_lb_config")
	if r.IntN(6) > 0 {
		delete(common, "locality_weighted_lb_config")
	}
	if common["locality_weighted_lb_config"] != nil || r.IntN(8) == 0 {
		return c // Envoy's defaults
	}
	config := object{}
	if r.IntN(8) > 0 {
		config["min_cluster_size"] = r.IntN(4)
	}
	if r.IntN(3) == 0 {
		config["routing_enabled"] = object{"value": []float64{0, 30.4, 75, 100}[r.IntN(4)]}
	}
	if r.IntN(4) == 0 {
		config["fail_traffic_on_panic"] = true
	}
	if r.IntN(2) == 0 || c["lb_subset_config"] != nil {
		if common == nil {
			common = object{}
			c["common_lb_config"] = common
		}
		common["zone_aware_lb_config"] = config
		return c
	}
	switch r.IntN(4) {
	case 0:
		config["force_local_zone"] = object{"min_size": r.IntN(4)}
	case 1:
		config["force_local_zone"] = object{}
	case 2:
		config["force_locality_direct_routing"] = true
	}
	if r.IntN(2) == 0 {
		config["locality_basis"] = "HEALTHY_HOSTS_WEIGHT"
	}
	policies := map[any]string{"ROUND_ROBIN": "round_robin.v3.RoundRobin", "LEAST_REQUEST": "least_request.v3.LeastRequest", "RANDOM": "random.v3.Random"}
	policy := object{
		"@type":              "type.googleapis.com/envoy.extensions.load_balancing_policies." + policies[c["lb_policy"]],
		"locality_lb_config": object{"zone_aware_lb_config": config},
	}
	c["load_balancing_policy"] = object{"policies": []object{{"typed_extension_config": object{"name": "x", "typed_config": policy}}}}
	return c
}

// Zoned draws a node's locality and its own cluster, and clusters whose requests may keep to it, every fourth with subsets; routes are as
// Subsetted's, and one more leads to the nodes.
func Zoned(seed uint64, n int, addresses []netip.AddrPort) (locality map[string]any, clusters, routes []map[string]any) {
	r := random{rand.New(rand.NewPCG(seed, 3))}
	for i := range n {
		name := fmt.Sprintf("c%d", i)
		c := r.cluster(name, addresses, false)
		if i%4 == 3 {
			c = r.subsetted(name, addresses)
		}
		c = r.zoneAware(c)
		if s, ok := c["lb_subset_config"].(object); ok {
			common, _ := c["common_lb_config"].(object)
			zones, _ := common["zone_aware_lb_config"].(object)
			s["panic_mode_any"] = s["panic_mode_any"] == true && zones["fail_traffic_on_panic"] == nil
			s["locality_weight_aware"] = s["locality_weight_aware"] == true && common["locality_weighted_lb_config"] != nil
		}
		clusters = append(clusters, c)
		action := object{"cluster": name}
		if c["lb_subset_config"] != nil {
			action = r.action(c)
		}
		routes = append(routes, object{"match": object{"path": "/" + name}, "route": action})
	}
	// The order of the configuration does not matter.
	at := r.IntN(n + 1)
	clusters = append(clusters[:at:at], append([]object{r.nodes(addresses)}, clusters[at:]...)...)
	routes = append(routes, object{"match": object{"path": "/nodes"}, "route": object{"cluster": "nodes"}})
	return object{"zone": zones[r.IntN(len(zones))]}, clusters, routes
}
