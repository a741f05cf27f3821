// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"maps"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/xlb-project/xlb/test/e2e/harness"
)

// TestOriginalDestinationIsTheServiceItself has a server listen at the very address that clients connect to. XLB stands between them all the
// same: of two routes one leads there, one elsewhere, and the daemon's own connections are not intercepted.
func TestOriginalDestinationIsTheServiceItself(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy cannot listen where the server does")
	place := harness.SameHost(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		service := harness.Service()
		place.OriginAt(t, "itself", service)
		place.OriginAt(t, "other port", netip.AddrPortFrom(service.Addr(), service.Port()+1))
		other := place.Origin(t, "other")
		config := harness.Config{
			Listeners: []harness.Listener{{
				Address: service, Fields: originalFilter(),
				Hosts: []harness.VirtualHost{{Routes: []harness.Route{
					{Prefix: "/other", Clusters: harness.To("other")}, {Prefix: "/port", Clusters: harness.To("port")}, {Clusters: harness.To("itself")},
				}}},
			}},
			Clusters: []harness.Cluster{
				{Name: "other", Endpoints: []netip.AddrPort{other.Address}},
				{Name: "itself", Policy: "CLUSTER_PROVIDED", Fields: original(nil)},
				{Name: "port", Policy: "CLUSTER_PROVIDED", Fields: original(map[string]any{
					"original_dst_lb_config": map[string]any{"upstream_port_override": service.Port() + 1},
				})},
			},
		}
		b := harness.Start(t, mode, config, place)
		for path, want := range map[string]string{"/": "itself", "/other": "other", "/port": "other port"} {
			for range 5 {
				report := runExchange(t, place, service, 10*time.Second, getAndReceive(path)...)
				requireStatus(t, report, http.StatusOK)
				if got := report.Replies[0].Identity; got != want {
					t.Errorf("%s: answered by %q, want %q", path, got, want)
				}
			}
		}
		b.RequireFast(t, mode, 0.9)
		if n := b.Metric(t, "envoy_cluster_upstream_rq_total", `envoy_cluster_name="itself"`); n != 5 {
			t.Errorf("%v requests of the cluster, want 5: they were to be balanced, not to pass by", n)
		}
	})
}

// TestOriginalDestinationOfAListenerWithoutHTTP does the same by the connection.
func TestOriginalDestinationOfAListenerWithoutHTTP(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy cannot listen where the server does")
	place := harness.SameHost(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		service := harness.Service()
		place.OriginAt(t, "itself", service)
		harness.Start(t, mode, harness.Config{
			Listeners: []harness.Listener{{Address: service, Fields: originalFilter(), TCP: map[string]any{"cluster": "itself"}}},
			Clusters:  []harness.Cluster{{Name: "itself", Policy: "CLUSTER_PROVIDED", Fields: original(nil)}},
		}, place)
		report := runExchange(t, place, service, 10*time.Second, getAndReceive("/")...)
		requireStatus(t, report, http.StatusOK)
		if got := report.Replies[0].Identity; got != "itself" {
			t.Errorf("answered by %q", got)
		}
	})
}

func original(more map[string]any) map[string]any {
	fields := map[string]any{"type": "ORIGINAL_DST", "load_assignment": nil}
	maps.Copy(fields, more)
	return fields
}

func originalFilter() map[string]any {
	return map[string]any{"listener_filters": []any{map[string]any{
		"name":         "envoy.filters.listener.original_dst",
		"typed_config": map[string]any{"@type": "type.googleapis.com/envoy.extensions.filters.listener.original_dst.v3.OriginalDst"},
	}}}
}
