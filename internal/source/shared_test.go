// SPDX-License-Identifier: Apache-2.0

package source

import (
	"log/slog"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
)

// richCluster has what clusters may have, but for TLS and names.
const richCluster = `
static_resources:
  listeners:
  - name: tcp
    address: {socket_address: {address: 10.96.0.1, port_value: 80}}
    filter_chains: [{filters: [{name: tcp, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: t, cluster: a}}]}]
  clusters:
  - name: a
    lb_policy: LEAST_REQUEST
    least_request_lb_config: {choice_count: 3}
    connect_timeout: 2s
    circuit_breakers: {thresholds: [{max_requests: 7, retry_budget: {budget_percent: {value: 30}}}, {priority: HIGH, max_retries: 2}]}
    outlier_detection: {consecutive_5xx: 3, split_external_local_origin_errors: true}
    health_checks:
    - timeout: 1s
      interval: 5s
      unhealthy_threshold: 2
      healthy_threshold: 2
      http_health_check: {path: /health, host: h, request_headers_to_add: [{header: {key: x-check, value: "yes"}}], request_headers_to_remove: [x-not], expected_statuses: [{start: 200, end: 299}]}
    lb_subset_config: {fallback_policy: ANY_ENDPOINT, subset_selectors: [{keys: [version]}]}
    common_lb_config: {healthy_panic_threshold: {value: 20}, locality_weighted_lb_config: {}}
    load_assignment:
      cluster_name: a
      policy: {overprovisioning_factor: 150}
      endpoints:
      - locality: {zone: z}
        load_balancing_weight: 3
        lb_endpoints:
        - endpoint: {address: {socket_address: {address: 10.0.0.1, port_value: 80}}, health_check_config: {port_value: 81}}
          metadata: {filter_metadata: {envoy.lb: {version: "1"}}}
          load_balancing_weight: 2
`

// What two files say alike is one cluster, whatever it has: translation gives two views nothing that differs but the view.
func TestAClusterOfManyPartsIsSharedToo(t *testing.T) {
	var last *model.Config
	load := func(v model.View) *Bootstrap {
		b, err := Load(t.Context(), File{View: v, Path: v.Name + ".yaml", Text: []byte(richCluster)})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	shared, blue := load(model.View{}), load(model.View{Number: 1, Name: "blue"})
	s := NewSources(Config{
		Logger: slog.New(slog.DiscardHandler), Cluster: func(model.View, string) *model.Cluster { return nil },
		Activate: func(cfg *model.Config) error {
			last = cfg
			return nil
		},
	}, shared, blue)
	t.Cleanup(s.Close)
	if err := s.Activate(); err != nil {
		t.Fatal(err)
	}
	if n := len(last.Clusters); n != 1 {
		t.Errorf("%d clusters, want 1: %+v", n, last.Clusters)
	}
}
