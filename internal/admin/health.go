// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"net/netip"

	"github.com/xlb-project/xlb/internal/metrics"
)

// knownHealth is the health of endpoints by cluster and address, as Envoy shows it (envoy.config.core.v3.HealthStatus).
type knownHealth map[string]map[netip.AddrPort]string

func healthOf(clusters []*metrics.ClusterSnapshot) knownHealth {
	all := knownHealth{}
	for _, c := range clusters {
		all[c.Name] = make(map[netip.AddrPort]string, len(c.Endpoints))
		for j := range c.Endpoints {
			all[c.Name][c.Endpoints[j].Address] = coarse(&c.Endpoints[j])
		}
	}
	return all
}

// coarse is what an endpoint's configuration, health checks and ejections come to.
func coarse(e *metrics.EndpointSnapshot) string {
	if e.Health != "" && e.Health != "UNKNOWN" && e.Health != "HEALTHY" {
		return e.Health
	}
	switch e.State {
	case metrics.StateUnhealthy, metrics.StateEjected:
		return "UNHEALTHY"
	case metrics.StateDegraded:
		return "DEGRADED"
	}
	return "HEALTHY"
}

// addHealth says it of the endpoints of a ClusterLoadAssignment. Of endpoints that get no requests it is not known.
func (h knownHealth) addHealth(body json.RawMessage) json.RawMessage {
	var assignment struct {
		Name string `json:"cluster_name"`
	}
	whole := object{}
	if json.Unmarshal(body, &assignment) != nil || h[assignment.Name] == nil || json.Unmarshal(body, &whole) != nil {
		return body
	}
	localities, _ := whole["endpoints"].([]any)
	for _, l := range localities {
		locality, _ := l.(object)
		endpoints, _ := locality["lb_endpoints"].([]any)
		for _, e := range endpoints {
			endpoint, _ := e.(object)
			if health, ok := h[assignment.Name][addressOf(endpoint)]; ok {
				endpoint["health_status"] = health
			}
		}
	}
	changed, err := json.Marshal(whole)
	if err != nil {
		return body
	}
	return changed
}

// addressOf is that of an LbEndpoint.
func addressOf(endpoint object) netip.AddrPort {
	at := endpoint
	for _, name := range []string{"endpoint", "address", "socket_address"} {
		at, _ = at[name].(object)
	}
	host, _ := at["address"].(string)
	port, _ := at["port_value"].(float64)
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(port))
}
