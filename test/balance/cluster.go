// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
)

// object is a JSON object.
type object = map[string]any

// random draws clusters.
type random struct{ *rand.Rand }

// cluster is an Envoy cluster over some of the addresses, without one twice unless it is there twice. Its policy has a name, or may be given by type.
func (r random) cluster(name string, addresses []netip.AddrPort, byType bool) object {
	addresses = append([]netip.AddrPort(nil), addresses...)
	r.Shuffle(len(addresses), func(i, j int) { addresses[i], addresses[j] = addresses[j], addresses[i] })
	c := object{
		"name": name, "type": "STATIC", "connect_timeout": "5s",
		"load_assignment": object{"cluster_name": name, "endpoints": r.localities(addresses), "policy": r.policy()},
	}
	common := r.common()
	r.balance(c, common, byType && r.IntN(2) == 0)
	if len(common) > 0 {
		c["common_lb_config"] = common
	}
	return c
}

const policyType = "type.googleapis.com/envoy.extensions.load_balancing_policies."

// balance gives a cluster a policy. One that is given by type has what it says of localities in its own configuration.
func (r random) balance(c, common object, byType bool) {
	which := r.IntN(3)
	own := object{}
	if which == 1 {
		own = r.leastRequest()
	}
	if !byType {
		c["lb_policy"] = []string{"ROUND_ROBIN", "LEAST_REQUEST", "RANDOM"}[which]
		if len(own) > 0 {
			c["least_request_lb_config"] = own
		}
		return
	}
	own["@type"] = policyType + []string{"round_robin.v3.RoundRobin", "least_request.v3.LeastRequest", "random.v3.Random"}[which]
	localities := object{}
	for _, field := range []string{"zone_aware_lb_config", "locality_weighted_lb_config"} {
		if value, ok := common[field]; ok {
			localities[field] = value
			delete(common, field)
		}
	}
	if len(localities) > 0 {
		own["locality_lb_config"] = localities
	}
	c["load_balancing_policy"] = object{"policies": []object{{"typed_extension_config": object{"name": "p", "typed_config": own}}}}
}

func (r random) leastRequest() object {
	own := object{}
	if r.IntN(2) == 0 {
		own["choice_count"] = 2 + r.IntN(4)
	}
	if r.IntN(3) == 0 {
		own["active_request_bias"] = object{"default_value": 0, "runtime_key": "bias"}
	}
	return own
}

// Clusters draws clusters at some of the addresses, and routes there by paths that are their names.
func Clusters(seed uint64, n int, addresses []netip.AddrPort) (clusters, routes []map[string]any) {
	r := random{rand.New(rand.NewPCG(seed, 1))}
	for i := range n {
		name := fmt.Sprintf("c%d", i)
		clusters = append(clusters, r.cluster(name, addresses, true))
		routes = append(routes, object{"match": object{"path": "/" + name}, "route": object{"cluster": name}})
	}
	return clusters, routes
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
