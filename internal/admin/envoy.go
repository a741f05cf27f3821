// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
)

// object is a JSON object in one of Envoy's shapes.
type object = map[string]any

// hostStat is a statistic of an endpoint under Envoy's name.
type hostStat struct {
	name  string
	value uint64
	gauge bool
}

func hostStats(e *metrics.EndpointSnapshot) []hostStat {
	return []hostStat{
		{name: "cx_active", value: e.Connections, gauge: true},
		{name: "rq_active", value: uint64(e.Outstanding), gauge: true},
		{name: "rq_error", value: e.Errors},
		{name: "rq_success", value: e.Successes},
		{name: "rq_total", value: e.Requests},
	}
}

// clusterText is Envoy's text of /clusters: name::address::statistic::value.
func clusterText(clusters []*metrics.ClusterSnapshot) string {
	var b strings.Builder
	for _, c := range clusters {
		fmt.Fprintf(&b, "%s::observability_name::%s\n%s::added_via_api::false\n", c.Name, c.ObservedAs(), c.Name)
		for j := range c.Endpoints {
			e := &c.Endpoints[j]
			prefix := c.Name + "::" + e.Address.String() + "::"
			for _, stat := range hostStats(e) {
				fmt.Fprintf(&b, "%s%s::%d\n", prefix, stat.name, stat.value)
			}
			fmt.Fprintf(&b, "%shealth_flags::%s\n%sweight::%d\n", prefix, e.HealthFlags, prefix, e.Weight)
			fmt.Fprintf(&b, "%sregion::%s\n%szone::%s\n%ssub_zone::%s\n%spriority::%d\n",
				prefix, e.Region, prefix, e.Zone, prefix, e.SubZone, prefix, e.Priority)
		}
	}
	return b.String()
}

// clusterStatuses is envoy.admin.v3.Clusters.
func clusterStatuses(clusters []*metrics.ClusterSnapshot) object {
	statuses := make([]object, 0, len(clusters))
	for _, c := range clusters {
		hosts := make([]object, 0, len(c.Endpoints))
		for j := range c.Endpoints {
			hosts = append(hosts, hostStatus(&c.Endpoints[j]))
		}
		statuses = append(statuses, object{"name": c.Name, "observability_name": c.ObservedAs(), "added_via_api": false, "host_statuses": hosts})
	}
	return object{"cluster_statuses": statuses}
}

// hostStatus is envoy.admin.v3.HostStatus.
func hostStatus(e *metrics.EndpointSnapshot) object {
	stats := make([]object, 0, len(hostStats(e)))
	for _, s := range hostStats(e) {
		// Protobuf's JSON writes numbers of 64 bits as strings.
		stat := object{"name": s.name, "value": strconv.FormatUint(s.value, 10)}
		if s.gauge {
			stat["type"] = "GAUGE"
		}
		stats = append(stats, stat)
	}
	return object{
		"address": socketAddress(e.Address), "stats": stats, "health_status": healthStatus(e), "weight": e.Weight, "priority": e.Priority,
		"locality": object{"region": e.Region, "zone": e.Zone, "sub_zone": e.SubZone},
	}
}

// healthFlagFields are the fields of envoy.admin.v3.HostHealthStatus by the flags of the text.
var healthFlagFields = map[string]string{
	"/failed_active_hc": "failed_active_health_check", "/failed_outlier_check": "failed_outlier_check",
	"/degraded_active_hc": "failed_active_degraded_check", "/pending_dynamic_removal": "pending_dynamic_removal",
	"/pending_active_hc": "pending_active_hc", "/active_hc_timeout": "active_hc_timeout",
}

// edsStatuses are what Envoy shows of statuses that it does not tell from others.
var edsStatuses = map[string]string{"": "HEALTHY", "UNKNOWN": "HEALTHY", "TIMEOUT": "UNHEALTHY"}

// healthStatus is envoy.admin.v3.HostHealthStatus.
func healthStatus(e *metrics.EndpointSnapshot) object {
	health := object{"eds_health_status": cmp.Or(edsStatuses[e.Health], e.Health)}
	for flag, name := range healthFlagFields {
		if strings.Contains(e.HealthFlags, flag) {
			health[name] = true
		}
	}
	return health
}

// listenerStatuses is envoy.admin.v3.Listeners.
func listenerStatuses(listeners []*model.Listener) object {
	statuses := make([]object, 0, len(listeners))
	for _, l := range listeners {
		statuses = append(statuses, object{"name": l.Name, "local_address": socketAddress(l.Address)})
	}
	return object{"listener_statuses": statuses}
}

// socketAddress is envoy.config.core.v3.Address.
func socketAddress(a netip.AddrPort) object { return hostAddress(a.Addr().String(), a.Port()) }

func hostAddress(host string, port uint16) object {
	return object{"socket_address": object{"address": host, "port_value": port}}
}
