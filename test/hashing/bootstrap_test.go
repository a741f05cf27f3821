// SPDX-License-Identifier: Apache-2.0

package hashing

import (
	"fmt"
	"net/netip"
)

const extensions = "type.googleapis.com/envoy.extensions.filters."

// listenerAt is a listener that serves these routes.
func listenerAt(address netip.AddrPort, routes ...any) object {
	return object{
		"name": "l", "address": socketAddress(address),
		"filter_chains": []any{object{"filters": []any{object{"name": "hcm", "typed_config": object{
			"@type":       extensions + "network.http_connection_manager.v3.HttpConnectionManager",
			"stat_prefix": "s",
			"route_config": object{"name": "r", "virtual_hosts": []any{object{
				"name": "vh", "domains": []any{"*"}, "routes": routes,
			}}},
			"http_filters": []any{object{"name": "router", "typed_config": object{"@type": extensions + "http.router.v3.Router"}}},
		}}}}},
	}
}

func socketAddress(a netip.AddrPort) object {
	return object{"socket_address": object{"address": a.Addr().String(), "port_value": a.Port()}}
}

// routeTo sends paths that begin with a cluster's name there.
func routeTo(cluster string, policies ...any) object {
	action := object{"cluster": cluster}
	if len(policies) > 0 {
		action["hash_policy"] = policies
	}
	return object{"match": object{"prefix": "/" + cluster + "/"}, "route": action}
}

func byHeader(name string) object { return object{"header": object{"header_name": name}} }

// host is an endpoint of a cluster.
type host struct {
	address netip.AddrPort
	weight  int
}

// cluster is a STATIC cluster; with is what else it says.
func cluster(name string, hosts []host, with object) object {
	var endpoints []any
	for _, h := range hosts {
		endpoints = append(endpoints, object{"endpoint": object{"address": socketAddress(h.address)}, "load_balancing_weight": h.weight})
	}
	out := object{"name": name, "load_assignment": object{"cluster_name": name, "endpoints": []any{object{"lb_endpoints": endpoints}}}}
	for k, v := range with {
		out[k] = v
	}
	return out
}

func bootstrapOf(listeners, clusters []any) object {
	return object{"static_resources": object{"listeners": listeners, "clusters": clusters}}
}

// number names the nth of several.
func number(prefix string, n int) string { return fmt.Sprintf("%s%d", prefix, n) }
