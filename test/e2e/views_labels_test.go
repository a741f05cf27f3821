// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"net/netip"
	"testing"

	"github.com/containerd/nri/pkg/api"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/nritest"
)

// Pods of one namespace see the views that their labels select, from their first connection on: those that begin, and those that are there when the daemon starts.
func TestPodsOfOneNamespaceSeeTheViewsOfTheirLabels(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	const requests = 20
	type labels = map[string]string
	pods := []struct {
		name   string
		labels labels
		want   string
	}{
		{"web-0", labels{"app": "web", "tier": "front-1"}, "front"},
		{"web-1", labels{"app": "web", "tier": "back"}, "back"},
		{"web-2", labels{"app": "web", "tier": "front-2"}, "front"},
		{"api-0", labels{"app": "api", "tier": "front-1"}, "shared"},
		{"api-1", nil, "shared"},
	}
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		for _, isThere := range []bool{false, true} {
			t.Run(map[bool]string{false: "pods that begin", true: "pods that are there"}[isThere], func(t *testing.T) {
				node := harness.NewNode(t)
				server := node.OtherHost(t)
				to := func(identity string, port uint16) harness.Config {
					return harness.OneCluster(podService, server.OriginAt(t, identity, netip.AddrPortFrom(server.Address, port)).Address)
				}
				config := to("shared", 8000)
				config.Views = []harness.View{
					{Name: "front", Select: []map[string]any{{"namespace": "shop", "labels": labels{"app": "web", "tier": "front*"}}}, Config: to("front", 8001)},
					{Name: "back", Select: []map[string]any{{"labels": labels{"tier": "back"}}}, Config: to("back", 8002)},
				}
				var places []*harness.Pod
				var sandboxes, there []*api.PodSandbox
				for _, p := range pods {
					place := node.Pod(t)
					places, sandboxes = append(places, place), append(sandboxes, sandboxOf(t, place, p.name, p.labels))
					if isThere {
						place.Greeter(t, "resident")
					}
				}
				if isThere {
					there = sandboxes
				}
				balancer, connection := reportedWith(t, mode, node, nritest.New(t), config, there)
				for i, p := range pods {
					if !isThere {
						connection.MustBegin(sandboxes[i])
					}
					requireShownAs(t, balancer, sandboxes[i], "served")
					load := runLoad(t, places[i].Place, programs.LoadSpec{Address: podService.String(), Requests: requests, Asks: []programs.Ask{{Path: "/from"}}})
					requireEach(t, &load, places[i].Address, requests, p.want)
				}
				if n := balancer.Metric(t, "xlb_verdicts_total", `verdict="connect_no_anchor"`); n != 0 {
					t.Errorf("connections of namespaces that the daemon does not know: got %v, want none", n)
				}
			})
		}
	})
}
