// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"math/rand/v2"
	"net/netip"
)

// object is a JSON object.
type object = map[string]any

// random draws clusters.
type random struct{ *rand.Rand }

// cluster is an Envoy cluster over some of the addresses, without one twice.
func (r random) cluster(name string, addresses []netip.AddrPort) object {
	addresses = append([]netip.AddrPort(nil), addresses...)
	r.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	c := object{
		"name": name, "type": "STATIC", "connect_timeout": "5s",
		"lb_policy":       []string{"ROUND_ROBIN", "LEAST_REQUEST", "RANDOM"}[r.IntN(3)],
		"load_assignment": object{"cluster_name": name, "endpoints": r.localities(addresses), "policy": r.policy()},
	}
	if common := r.common(); len(common) > 0 {
		c["common_lb_config"] = common
	}
	return c
}

func (r random) common() object {
	common := object{}
	if r.IntN(2) == 0 {
		common["healthy_panic_threshold"] = object{"value": []float64{0, 20, 49.5, 70, 100}[r.IntN(5)]}
	}
	switch r.IntN(5) {
	case 0:
		common["zone_aware_lb_config"] = object{"fail_traffic_on_panic": true}
	case 1, 2:
		common["locality_weighted_lb_config"] = object{}
	}
	return common
}

func (r random) policy() object {
	policy := object{}
	if r.IntN(2) == 0 {
		policy["overprovisioning_factor"] = []int{100, 120, 200}[r.IntN(3)]
	}
	if r.IntN(4) == 0 {
		policy["weighted_priority_health"] = true
	}
	return policy
}

// localities spreads the addresses over up to three priorities and three zones.
func (r random) localities(addresses []netip.AddrPort) []object {
	var list []object
	priorities := 1 + r.IntN(3)
	sick := r.IntN(4)
	weighted := r.IntN(2) == 0
	for priority := range priorities {
		for _, zone := range []string{"a", "b", "c"}[:1+r.IntN(3)] {
			n := min(r.IntN(5), len(addresses))
			var hosts []object
			for _, a := range addresses[:n] {
				hosts = append(hosts, r.host(a, sick, weighted))
			}
			addresses = addresses[n:]
			list = append(list, object{
				"priority": priority, "locality": object{"zone": zone}, "load_balancing_weight": 1 + r.IntN(6), "lb_endpoints": hosts,
			})
		}
	}
	return list
}

var statuses = []string{"UNHEALTHY", "DRAINING", "TIMEOUT", "DEGRADED", "UNKNOWN", "HEALTHY"}

// host is unwell in so many of five cases.
func (r random) host(a netip.AddrPort, sick int, weighted bool) object {
	host := object{"endpoint": object{"address": socketAddress(a)}}
	if weighted {
		host["load_balancing_weight"] = 1 + r.IntN(4)
	}
	if r.IntN(5) < sick {
		host["health_status"] = statuses[r.IntN(len(statuses))]
	}
	return host
}

func socketAddress(a netip.AddrPort) object {
	return object{"socket_address": object{"address": a.Addr().String(), "port_value": a.Port()}}
}

const typeURL = "type.googleapis.com/envoy.extensions.filters."

// bootstrap is a configuration with one listener, where /NAME leads to the cluster of that name.
func bootstrap(listener netip.AddrPort, clusters []object) object {
	var routes []object
	for _, c := range clusters {
		routes = append(routes, object{"match": object{"path": "/" + c["name"].(string)}, "route": object{"cluster": c["name"]}})
	}
	manager := object{
		"@type": typeURL + "network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": "balance",
		"route_config": object{"virtual_hosts": []object{{"name": "all", "domains": []string{"*"}, "routes": routes}}},
		"http_filters": []object{{"name": "router", "typed_config": object{"@type": typeURL + "http.router.v3.Router"}}},
	}
	return object{"static_resources": object{"clusters": clusters, "listeners": []object{{
		"name": "balance", "address": socketAddress(listener),
		"filter_chains": []object{{"filters": []object{{"name": "hcm", "typed_config": manager}}}},
	}}}}
}
