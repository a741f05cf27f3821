// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/internal/model"
)

// leavesInbound is why a listener for connections from outside is left alone.
const leavesInbound = "traffic_direction INBOUND: it takes connections that come to this node, which XLB leaves alone; they reach their server unchanged"

// istioListeners are those of istiod's that need nothing but what listeners need.
func istioListeners(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/resources/istiod-1.29-plain.Listener.json")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, name := range []string{"virtualOutbound", "virtualInbound", "10.96.0.12_3306"} {
		out[name] = string(all[name])
	}
	out["0.0.0.0_9080"] = strings.NewReplacer("NAME", "0.0.0.0_9080", "PORT", "9080").Replace(sniffed)
	return out
}

// sniffed is a listener as istiod has them for ports with HTTP.
const sniffed = `{name: NAME, address: {socket_address: {address: 0.0.0.0, port_value: PORT}}, bind_to_port: false, traffic_direction: OUTBOUND,
	listener_filters_timeout: 0s, continue_on_listener_filters_timeout: true,
	listener_filters: [{name: h, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.listener.http_inspector.v3.HttpInspector}}],
	filter_chains: [{filter_chain_match: {transport_protocol: raw_buffer, application_protocols: [http/1.1, h2c]}, filters: [{name: h, ` + emptyManager + `}]}],
	default_filter_chain: {filter_chain_match: {}, filters: [{name: t, typed_config: {'@type': type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, stat_prefix: t, cluster: PassthroughCluster}}]}}`

// istioClusters are those that listeners name.
var istioClusters = map[string]string{
	"PassthroughCluster": "{name: PassthroughCluster, type: ORIGINAL_DST, lb_policy: CLUSTER_PROVIDED}",
	"BlackHoleCluster":   "{name: BlackHoleCluster, type: STATIC}",
}

// describeListeners describes listeners.
func describeListeners(cfg *model.Config) []string {
	var out []string
	for _, l := range cfg.Listeners {
		what := "HTTP"
		if l.TCP != nil {
			what = l.TCP.Clusters[0].Name
		}
		if l.Inspection != nil {
			what += " inspected"
		}
		if l.PassesBy(cfg.In(l.View).Cluster) {
			what += " passes by"
		}
		out = append(out, fmt.Sprintf("%s: %s: %s", l.Name, l.Destinations(), what))
	}
	for _, p := range cfg.Passed {
		out = append(out, fmt.Sprintf("%s: left alone: %s", p.Listener, p.Why))
	}
	slices.Sort(out)
	return out
}

func requirePlaces(t *testing.T, cfg *model.Config, want ...string) {
	t.Helper()
	if got := describeListeners(cfg); !slices.Equal(got, want) {
		t.Errorf("listeners:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestSidecarsListenersAreFoundByDestination(t *testing.T) {
	b := dynamicBootstrap(t)
	r := Resources{Listeners: bodiesOf(t, Listeners, istioListeners(t)), Clusters: bodiesOf(t, Clusters, istioClusters)}
	for range 2 { // the second time everything is known
		cfg, err := b.Assemble(r)
		if err != nil {
			t.Fatal(err)
		}
		requirePlaces(t, cfg,
			"0.0.0.0_9080: 0.0.0.0/0, port 9080: HTTP inspected",
			"10.96.0.12_3306: 10.96.0.12:3306: outbound|3306||details.default.svc.cluster.local",
			"virtualInbound: left alone: "+leavesInbound,
			"virtualOutbound (0.0.0.0/0, port 15001): 0.0.0.0/0, port 15001: BlackHoleCluster",
			"virtualOutbound: 0.0.0.0/0, any port: PassthroughCluster passes by",
		)
		if !cfg.Cluster(model.SharedCluster("PassthroughCluster")).FollowsClient() {
			t.Error("PassthroughCluster has an endpoint")
		}
	}
	// A listener for the port that the one for the rest has a chain for.
	r.Listeners["0.0.0.0_15001"] = resource(t, Listeners, []byte(strings.NewReplacer("NAME", "0.0.0.0_15001", "PORT", "15001").Replace(sniffed)))
	cfg, err := b.Assemble(r)
	if err != nil || slices.ContainsFunc(describeListeners(cfg), func(s string) bool { return strings.HasPrefix(s, "virtualOutbound (") }) {
		t.Errorf("%v, %q", err, describeListeners(cfg))
	}
}

func TestUnboundListenersNeedOneThatLeadsToThem(t *testing.T) {
	b := dynamicBootstrap(t)
	listeners := istioListeners(t)
	delete(listeners, "virtualOutbound")
	delete(listeners, "virtualInbound")
	cfg, err := b.Assemble(Resources{Listeners: bodiesOf(t, Listeners, listeners), Clusters: bodiesOf(t, Clusters, istioClusters)})
	if err != nil {
		t.Fatal(err)
	}
	const why = ": left alone: bind_to_port is false, and no listener with use_original_dst leads to it"
	requirePlaces(t, cfg, "0.0.0.0_9080"+why, "10.96.0.12_3306"+why)
}

func TestSecondListenerForTheRestIsLeftOut(t *testing.T) {
	b := dynamicBootstrap(t)
	listeners := istioListeners(t)
	listeners["zweiter"] = strings.Replace(listeners["virtualOutbound"], `"virtualOutbound"`, `"zweiter"`, 1)
	cfg, err := b.Assemble(Resources{Listeners: bodiesOf(t, Listeners, listeners), Clusters: bodiesOf(t, Clusters, istioClusters)})
	if err == nil || !strings.Contains(err.Error(), `listeners["zweiter"].address: 0.0.0.0/0, any port is the address of listeners["virtualOutbound"]`) {
		t.Errorf("%v, %q", err, describeListeners(cfg))
	}
}

func TestListenersHaveMoreAddresses(t *testing.T) {
	b := dynamicBootstrap(t)
	listeners := istioListeners(t)
	for _, name := range []string{"virtualOutbound", "virtualInbound"} {
		listeners[name] = strings.Replace(listeners[name], "{", `{"additional_addresses": [{"address": {"socket_address": {"address": "::", "port_value": 15001}}}],`, 1)
	}
	listeners["0.0.0.0_9080"] = strings.Replace(listeners["0.0.0.0_9080"], "address: 0.0.0.0,", "address: '::', ipv4_compat: true,", 1)
	cfg, err := b.Assemble(Resources{Listeners: bodiesOf(t, Listeners, listeners), Clusters: bodiesOf(t, Clusters, istioClusters)})
	if err != nil {
		t.Fatal(err)
	}
	requirePlaces(t, cfg,
		"0.0.0.0_9080 (0.0.0.0/0, port 9080): 0.0.0.0/0, port 9080: HTTP inspected",
		"0.0.0.0_9080: ::/0, port 9080: HTTP inspected",
		"10.96.0.12_3306: 10.96.0.12:3306: outbound|3306||details.default.svc.cluster.local",
		"virtualInbound: left alone: "+leavesInbound,
		"virtualInbound: left alone: "+leavesInbound,
		"virtualOutbound (0.0.0.0/0, port 15001): 0.0.0.0/0, port 15001: BlackHoleCluster",
		"virtualOutbound (::/0, any port): ::/0, any port: PassthroughCluster passes by",
		"virtualOutbound (::/0, port 15001): ::/0, port 15001: BlackHoleCluster",
		"virtualOutbound: 0.0.0.0/0, any port: PassthroughCluster passes by",
	)
}
