// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// What XLB counts, by path, class, cluster and endpoint, is what clients and endpoints have counted: of requests that come whole and in
// pieces, of answers in every framing and with every class of status, of endpoints that nobody listens at, and of routes that there are not.
func TestCountsAddUp(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "it is of XLB's metrics")
	const clients, requests = 8, 150
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, from, to *harness.Place) {
		service := harness.Service()
		config := harness.OneCluster(service)
		config.Clusters = nil
		routes := &config.Listeners[0].Hosts[0].Routes
		*routes = nil
		servers, addresses := map[string]*harness.Process{}, map[string]netip.AddrPort{}
		targets := []string{"/none"}
		add := func(cluster string, endpoints ...netip.AddrPort) {
			targets = append(targets, "/"+cluster)
			*routes = append(*routes, harness.Route{Prefix: "/" + cluster, Clusters: harness.To(cluster)})
			config.Clusters = append(config.Clusters, harness.Cluster{Name: cluster, Endpoints: endpoints})
		}
		serve := func(cluster string, spec programs.PoisonerSpec) {
			var endpoints []netip.AddrPort
			for _, twin := range "ab" {
				spec.Name, spec.Address = fmt.Sprintf("%s-%c", cluster, twin), netip.AddrPortFrom(to.Address, 0).String()
				server := to.Program(t, programs.PoisonerProgram, spec)
				var ready programs.PoisonerReport
				server.Next(t, &ready)
				servers[spec.Name], addresses[spec.Name] = server, netip.MustParseAddrPort(ready.Address)
				endpoints = append(endpoints, addresses[spec.Name])
			}
			add(cluster, endpoints...)
		}
		for _, status := range []int{200, 302, 404, 500} {
			serve(fmt.Sprintf("c%d", status), programs.PoisonerSpec{Honest: true, Status: status})
		}
		serve("breaks", programs.PoisonerSpec{Honest: true, Breaks: true})
		add("dead", netip.AddrPortFrom(to.Address, to.FreePort(t)))
		balancer := harness.Start(t, mode, config, from)
		var seen programs.TasterReport
		from.Program(t, programs.TasterProgram, programs.TasterSpec{
			Address: service.String(), Clients: clients, Requests: requests, Targets: targets,
		}).Next(t, &seen)
		harness.Eventually(t, patience, "nothing is in flight", func() bool {
			return balancer.Metric(t, "xlb_leases_active") == 0 && balancer.Metric(t, "xlb_connections_active") == 0 &&
				balancer.Metric(t, "envoy_cluster_upstream_rq_active") == 0
		})
		want := func(what string, got float64, want int) {
			t.Helper()
			if got != float64(want) {
				t.Errorf("%s: got %g, want %d", what, got, want)
			}
		}
		asked := 0
		for _, n := range seen.Statuses {
			asked += n
		}
		fast, slow := balancer.Served(t)
		want("requests", fast+slow, asked)
		want("requests that were leased", balancer.Metric(t, "xlb_verdicts_total", `verdict="request_leased"`), int(fast))
		want("requests of all workloads", balancer.Metric(t, "xlb_workload_requests_total"), asked)
		for _, direction := range []string{"request", "response"} {
			want(direction+" bytes of all workloads", balancer.Metric(t, "xlb_workload_"+direction+"_bytes_total"), int(balancer.Metric(t, "xlb_bytes_total", fmt.Sprintf("direction=%q", direction))))
		}
		want("slow requests by flag", balancer.Metric(t, "xlb_slow_requests_total"), int(slow))
		byEndpoint := balancer.EndpointRequests(t)
		byCluster := map[string]int{}
		for name, server := range servers {
			var report programs.PoisonerReport
			server.Ask(t, "report", &report)
			n := 0
			for _, tokens := range report.Requests {
				n += len(tokens)
			}
			cluster, _, _ := strings.Cut(name, "-")
			byCluster[cluster] += n
			want("requests of "+name, float64(byEndpoint[addresses[name].String()]), n)
		}
		for _, target := range targets[1:] {
			cluster := target[1:]
			label := fmt.Sprintf(`envoy_cluster_name="%s"`, cluster)
			if cluster != "dead" {
				want("requests of "+cluster, balancer.Metric(t, "envoy_cluster_upstream_rq_total", label), byCluster[cluster])
			}
			for class := 2; class <= 5; class++ {
				if cluster == "breaks" {
					// Some clients have the status of an answer that broke, and some have not.
					break
				}
				answered := 0
				for key, n := range seen.Statuses {
					if strings.HasPrefix(key, fmt.Sprintf("%s %d", target, class)) {
						answered += n
					}
				}
				want(fmt.Sprintf("answers %dxx of %s", class, cluster),
					balancer.Metric(t, "envoy_cluster_upstream_rq_xx", label, fmt.Sprintf(`envoy_response_code_class="%d"`, class)), answered)
			}
		}
		t.Logf("%.0f fast, %.0f slow; answers %v", fast, slow, seen.Statuses)
	})
}
