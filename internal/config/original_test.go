// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
)

// originalFile has two listeners; the first leads to the cluster "to" of type ORIGINAL_DST.
const originalFile = `
static_resources:
  listeners:
  - name: first
    address: {socket_address: {address: 127.80.0.1, port_value: 80}}
    listener_filters: [{name: x, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.listener.original_dst.v3.OriginalDst}}]
    filter_chains: [{filters: [{name: x, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: x, cluster: to}}]}]
  - name: second
    address: {socket_address: {address: 127.80.0.2, port_value: 80}}
    listener_filters: [{name: x, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.listener.original_dst.v3.OriginalDst}}]
    filter_chains: [{filters: [{name: x, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: x, cluster: SECOND}}]}]
  clusters:
  - {name: to, type: ORIGINAL_DST, lb_policy: CLUSTER_PROVIDED, cleanup_interval: 5s OVERRIDE}
  - {name: else, load_assignment: {cluster_name: else}}
`

func originalConfig(t *testing.T, second, override string) (*model.Config, error) {
	t.Helper()
	return Parse("f.yaml", []byte(strings.NewReplacer("SECOND", second, "OVERRIDE", override).Replace(originalFile)))
}

func TestOriginalDestinationIsTheAddressOfTheListener(t *testing.T) {
	for override, want := range map[string]string{"": "127.80.0.1:80", ", original_dst_lb_config: {upstream_port_override: 8080}": "127.80.0.1:8080"} {
		cfg, err := originalConfig(t, "else", override)
		if err != nil {
			t.Fatal(err)
		}
		c := cfg.Cluster(model.SharedCluster("to"))
		if len(c.Endpoints) != 1 || c.Endpoints[0].Address != netip.MustParseAddrPort(want) || c.Discovery != model.OriginalDst {
			t.Errorf("%q: %+v", override, c)
		}
	}
}

func TestOriginalDestinationOfTwoListenersIsThatOfEachConnection(t *testing.T) {
	cfg, err := originalConfig(t, "to", ", original_dst_lb_config: {upstream_port_override: 8080}")
	if err != nil {
		t.Fatal(err)
	}
	c := cfg.Cluster(model.SharedCluster("to"))
	if !c.FollowsClient() {
		t.Fatalf("%+v", c)
	}
	if got := c.EndpointFor(netip.MustParseAddrPort("127.80.0.9:99")).String(); got != "127.80.0.9:8080" {
		t.Errorf("got %s", got)
	}
}

func TestOriginalDestinationOfTwoListenersHasNoOutlierDetection(t *testing.T) {
	_, err := originalConfig(t, "to", ", outlier_detection: {}")
	if err == nil || !strings.Contains(err.Error(), "static_resources.clusters[0].outlier_detection: not supported for ORIGINAL_DST where clients connect to several addresses") {
		t.Errorf("got %v", err)
	}
}
