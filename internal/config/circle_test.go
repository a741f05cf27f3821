// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"
)

// circleBootstrap is a listener with a route of that action, beside one that answers by itself.
const circleBootstrap = `
static_resources:
  listeners:
  - name: first
    address: {socket_address: {address: 10.0.0.1, port_value: 80}}
    %[1]s
    filter_chains: [{filters: [{name: hcm, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager, stat_prefix: a,
      http_filters: [{name: r, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}],
      route_config: {virtual_hosts: [{name: v, domains: ["*"], routes: [{match: {prefix: "/"}, route: {cluster: c}}]}]}}}]}]
  - name: second
    address: {socket_address: {address: 10.0.0.2, port_value: 80}}
    filter_chains: [{filters: [{name: hcm, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager, stat_prefix: b,
      http_filters: [{name: r, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}],
      route_config: {virtual_hosts: [{name: v, domains: ["*"], routes: [{match: {prefix: "/"}, direct_response: {status: 200}}]}]}}}]}]
  clusters:
  - {name: other, load_assignment: {cluster_name: other, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 10.0.0.9, port_value: 80}}}}]}]}}
  - {name: c, %[2]s}
`

func TestStaticEndpointsInACircleAreRefusedByTheirPath(t *testing.T) {
	t.Parallel()
	to := func(addresses ...string) string {
		var list []string
		for _, a := range addresses {
			list = append(list, fmt.Sprintf("{endpoint: {address: {socket_address: {address: %q, port_value: 80}}}}", a))
		}
		return "load_assignment: {cluster_name: c, endpoints: [{lb_endpoints: [" + strings.Join(list, ", ") + "]}]}"
	}
	const path = "static_resources.clusters[1].load_assignment.endpoints[0].lb_endpoints[%d].endpoint.address: %s:80 is the address of listeners[0]"
	for _, test := range []struct{ name, listener, cluster, want string }{
		{"itself", "", to("10.0.0.1"), fmt.Sprintf(path, 0, "10.0.0.1")},
		{"another listener", "", to("10.0.0.2"), ""},
		{"itself and another", "", to("10.0.0.1", "10.0.0.2"), ""},
		{"at all addresses, which the host decides", "additional_addresses: [{address: {socket_address: {address: 0.0.0.0, port_value: 81}}}]", strings.Replace(to("127.0.0.1"), "80", "81", 1), ""},
		{"a server", "", to("10.0.0.7"), ""},
		{"an address more", "additional_addresses: [{address: {socket_address: {address: 10.0.0.3, port_value: 80}}}]", to("10.0.0.3", "10.0.0.1"),
			fmt.Sprintf(path, 0, "10.0.0.3")},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseBootstrap("test.yaml", []byte(fmt.Sprintf(circleBootstrap, test.listener, test.cluster)))
			switch {
			case test.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
