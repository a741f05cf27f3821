// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// A service address that no network namespace has.
var (
	podService  = netip.MustParseAddrPort("10.96.0.80:80")
	podService6 = netip.MustParseAddrPort("[fd00:96::80]:80")
)

// podFast is the share of requests that the kernel is to serve once a workload's pools are open.
const podFast = 0.98

// origin starts a server at a pod's address.
func originOf(t *testing.T, pod *harness.Pod, identity string, six bool) netip.AddrPort {
	t.Helper()
	at := pod.Address
	if six {
		at = pod.Address6
	}
	return pod.OriginAt(t, identity, netip.AddrPortFrom(at, 8080)).Address
}

// requireEach fails unless each server has served so many of the load's requests, and has seen that address.
func requireEach(t *testing.T, load *programs.LoadReport, from netip.Addr, each int, identities ...string) {
	t.Helper()
	requireClean(t, *load)
	for _, identity := range identities {
		if got := load.Served[0][fmt.Sprintf("%s from %s", identity, from)]; got != each {
			t.Errorf("requests to %s that came from %s: got %d, want %d: %v", identity, from, got, each, load.Served)
		}
	}
}

// requireFast fails unless so many requests are counted, and the kernel has served its share of those that did not meet a pool that was opening.
func requireFast(t *testing.T, b *harness.Balancer, mode harness.Mode, requests int) {
	t.Helper()
	requireFastSince(t, b, mode, harness.ServedSoFar{}, requests)
}

// requireFastSince is requireFast, whose share is of the requests since a moment.
func requireFastSince(t *testing.T, b *harness.Balancer, mode harness.Mode, before harness.ServedSoFar, requests int) {
	t.Helper()
	if fast, slow := b.Served(t); fast+slow != float64(requests) {
		t.Errorf("requests: %.0f in the kernel and %.0f in the daemon, want %d together", fast, slow, requests)
	}
	b.RequireFastSince(t, mode, before, podFast)
}

func TestOneDaemonServesThePodsOfAHost(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		for _, tt := range []struct {
			name    string
			service netip.AddrPort
			// six: IPv6. away: the servers are on another host. tcp: --same-host=tcp.
			six, away, tcp bool
		}{
			{"servers in pods", podService, false, false, false},
			{"servers in pods, IPv6", podService6, true, false, false},
			{"servers in pods, over TCP", podService, false, false, true},
			{"servers on another host", podService, false, true, false},
			{"servers on another host, IPv6", podService6, true, true, false},
		} {
			t.Run(tt.name, func(t *testing.T) {
				node := harness.NewNode(t)
				client := node.Pod(t)
				servers := []*harness.Pod{client, nil}
				if tt.away {
					servers = []*harness.Pod{node.OtherHost(t), node.OtherHost(t)}
				} else {
					servers[1] = node.Pod(t)
				}
				var endpoints []netip.AddrPort
				for i, identity := range []string{"a", "b"} {
					endpoints = append(endpoints, originOf(t, servers[i], identity, tt.six))
				}
				// A process of the pod runs when the daemon starts: the first connection is balanced.
				client.Greeter(t, "resident")
				config := harness.OneCluster(tt.service, endpoints...)
				if tt.tcp {
					config.Arguments = []string{"--same-host=tcp"}
				}
				balancer := harness.Start(t, mode, config, node.Place)
				requireWorkloads(t, balancer, map[bool]float64{false: 2, true: 1}[tt.away])

				const requests = 1000
				load := runLoad(t, client.Place, programs.LoadSpec{Address: tt.service.String(), Requests: requests, Asks: []programs.Ask{{Path: "/from"}}})
				from := client.Address
				if tt.six {
					from = client.Address6
				}
				requireEach(t, &load, from, requests/2, "a", "b")
				requireFast(t, balancer, mode, requests)
				if got := load.Peers[tt.service.String()]; got != 1 {
					t.Errorf("getpeername: got %v, want one of %s", load.Peers, tt.service)
				}
				if n := balancer.Metric(t, "xlb_verdicts_total", `verdict="connect_no_anchor"`); n != 0 {
					t.Errorf("connections that went unbalanced: got %v, want none", n)
				}
				if joined := balancer.Metric(t, "xlb_verdicts_total", `verdict="ssock_joined"`); mode.Fast && (joined > 0) == (tt.away || tt.tcp) {
					t.Errorf("servers' sockets that requests go straight to: got %v", joined)
				}
			})
		}
	})
}

// requireWorkloads waits until the daemon serves so many network namespaces beside its own.
func requireWorkloads(t *testing.T, b *harness.Balancer, want float64) {
	t.Helper()
	harness.Eventually(t, patience, fmt.Sprintf("%v workloads", want), func() bool { return b.Metric(t, "xlb_workloads_active") == want })
}

// Sockets of one workload never carry a request of another, though all have the same endpoints: each server sees each client at its own address.
func TestEachPodsRequestsComeFromItsOwnAddress(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		away := []*harness.Pod{node.OtherHost(t), node.Pod(t)}
		endpoints := []netip.AddrPort{originOf(t, away[0], "away", false), originOf(t, away[1], "here", false)}
		config := harness.OneCluster(podService, endpoints...)
		balancer := harness.Start(t, mode, config, node.Place)

		const connections, requests = 8, 200
		clients := []*harness.Place{node.Place, node.Pod(t).Place, node.Pod(t).Place, node.Pod(t).Place}
		var running []*harness.Process
		for _, c := range clients {
			c.Greeter(t, "resident")
		}
		for _, c := range clients[1:] {
			// The first connection of a network namespace that is new to the daemon goes unbalanced, to an address that nothing has.
			c.Program(t, programs.LoadProgram, programs.LoadSpec{Address: podService.String(), Requests: 1, Timeout: patience})
		}
		requireWorkloads(t, balancer, float64(len(clients)))
		for _, c := range clients {
			running = append(running, c.Program(t, programs.LoadProgram, programs.LoadSpec{
				Address: podService.String(), Connections: connections, Requests: requests, Asks: []programs.Ask{{Path: "/from"}},
			}))
		}
		for i, p := range running {
			var load programs.LoadReport
			p.Next(t, &load)
			requireClean(t, load)
			sum := 0
			for _, identity := range []string{"away", "here"} {
				sum += load.Served[0][fmt.Sprintf("%s from %s", identity, clients[i].Address)]
			}
			if sum != connections*requests {
				t.Errorf("client at %s: %d of %d requests came from there: %v", clients[i].Address, sum, connections*requests, load.Served)
			}
		}
	})
}

// A network namespace that is new costs its first connection at most, which is counted; one without processes is left.
func TestANetworkNamespaceIsJoinedAtItsFirstConnectionAndLeftBehindItsLastProcess(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		server := node.OtherHost(t)
		balancer := harness.Start(t, mode, harness.OneCluster(podService, originOf(t, server, "a", false)), node.Place)
		requireWorkloads(t, balancer, 0)
		followed := []string{"anchors", "pool_indices", "peers", "isocks"}
		before := map[string]int{}
		for _, name := range followed {
			before[name] = balancer.MapEntries(t, name)
		}

		pod := node.Pod(t)
		// Where the address leads without a balancer.
		pod.AddAddress(t, podService.Addr().String()+"/32")
		unbalanced := pod.OriginAt(t, "unbalanced", podService)
		ask := func() programs.LoadReport {
			return runLoad(t, pod.Place, programs.LoadSpec{Address: podService.String(), Requests: 1, Asks: []programs.Ask{{Path: "/from"}}})
		}
		first := ask()
		requireEach(t, &first, podService.Addr(), 1, "unbalanced")
		requireWorkloads(t, balancer, 1)
		second := ask()
		requireEach(t, &second, pod.Address, 1, "a")
		if n := balancer.Metric(t, "xlb_verdicts_total", `verdict="connect_no_anchor"`); n != 1 {
			t.Errorf("connections that went unbalanced: got %v, want 1", n)
		}
		unbalanced.Kill(t)
		requireWorkloads(t, balancer, 0)
		for _, name := range followed {
			harness.Eventually(t, patience, name+" has as many entries as before", func() bool { return balancer.MapEntries(t, name) == before[name] })
		}
		// It comes back as another workload.
		pod.Greeter(t, "resident")
		ask()
		requireWorkloads(t, balancer, 1)
		third := ask()
		requireEach(t, &third, pod.Address, 1, "a")
	})
}

// A loopback address is another server in each network namespace, and none in the host's: that an endpoint refuses the host says nothing of it.
func TestALoopbackEndpointIsTheServerOfEachPod(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		endpoint := netip.MustParseAddrPort("127.0.0.1:8080")
		pods := []*harness.Pod{node.Pod(t), node.Pod(t)}
		for i, pod := range pods {
			pod.OriginAt(t, fmt.Sprintf("pod %d", i), endpoint)
		}
		without := node.Pod(t)
		without.Greeter(t, "resident")
		config := harness.OneCluster(podService, endpoint)
		config.Clusters[0].Fields = map[string]any{"outlier_detection": map[string]any{"consecutive_5xx": 3, "max_ejection_percent": 100, "base_ejection_time": "300s"}}
		balancer := harness.Start(t, mode, config, node.Place)
		requireWorkloads(t, balancer, 3)
		// A pod whose server does not run takes the endpoint away from no other.
		const failing, requests = 20, 200
		for _, from := range []*harness.Place{without.Place, node.Place} {
			if load := runLoad(t, from, programs.LoadSpec{Address: podService.String(), Requests: failing}); load.Status[503] != failing {
				t.Errorf("requests of a namespace without a server: got %v, want %d of 503", load.Status, failing)
			}
		}
		before := balancer.ServedSoFar(t)
		for i, pod := range pods {
			load := runLoad(t, pod.Place, programs.LoadSpec{Address: podService.String(), Requests: requests, Asks: []programs.Ask{{Path: "/from"}}})
			requireEach(t, &load, endpoint.Addr(), requests, fmt.Sprintf("pod %d", i))
		}
		requireFastSince(t, balancer, mode, before, len(pods)*requests+2*failing)
	})
}

// With --namespaces=others the host's own connections go where they go without a balancer, and those of its pods are balanced.
func TestTheHostCanBeLeftAlone(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		pod := node.Pod(t)
		config := harness.OneCluster(podService, originOf(t, pod, "balanced", false))
		config.Arguments = []string{"--namespaces=others"}
		balancer := harness.Start(t, mode, config, node.Place)
		node.AddAddress(t, podService.Addr().String()+"/32")
		node.OriginAt(t, "own", podService)
		const requests = 100
		for _, tt := range []struct {
			from   *harness.Place
			serves string
			seen   netip.Addr
		}{{node.Place, "own", podService.Addr()}, {pod.Place, "balanced", pod.Address}} {
			load := runLoad(t, tt.from, programs.LoadSpec{Address: podService.String(), Requests: requests, Asks: []programs.Ask{{Path: "/from"}}})
			requireEach(t, &load, tt.seen, requests, tt.serves)
		}
		if n := balancer.Metric(t, "xlb_verdicts_total", `verdict="connect_left_alone"`); n != 1 {
			t.Errorf("connections of the host that were left alone: got %v, want 1", n)
		}
		if n := balancer.Metric(t, "xlb_workloads_total", `event="failed"`); n != 0 {
			t.Errorf("namespaces that could not be joined: got %v, want none: the host's is known", n)
		}
	})
}

// A listener without HTTP leads each connection of a pod straight to an endpoint, from the pod's address.
func TestTCPConnectionsOfAPodComeFromItsAddress(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		pod, server := node.Pod(t), node.OtherHost(t)
		endpoint := originOf(t, server, "a", false)
		pod.Greeter(t, "resident")
		balancer := harness.Start(t, mode, withoutHTTP(podService, endpoint), node.Place)
		requireWorkloads(t, balancer, 1)
		load := runLoad(t, pod.Place, programs.LoadSpec{Address: podService.String(), Connections: 4, Requests: 10, Asks: []programs.Ask{{Path: "/from"}}})
		requireEach(t, &load, pod.Address, 40, "a")
	})
}

// A rule for one pod, as NetworkPolicy makes it, takes an endpoint from no other: neither the pool's failed connects nor those of the slow path count.
func TestAPodThatIsRefusedTakesAnEndpointFromNoOther(t *testing.T) {
	harness.OnlyXLB(t, "Envoy serves one network namespace")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		node := harness.NewNode(t)
		refused, allowed, server := node.Pod(t), node.Pod(t), node.OtherHost(t)
		config := harness.OneCluster(podService, originOf(t, server, "a", false))
		config.Clusters[0].Fields = map[string]any{"outlier_detection": map[string]any{"consecutive_5xx": 3, "max_ejection_percent": 100, "base_ejection_time": "300s"}}
		refused.Firewall(t, "table ip refused { chain out { type filter hook output priority 0; ip daddr "+server.Address.String()+" meta l4proto tcp reject with tcp reset; }; }")
		for _, pod := range []*harness.Pod{refused, allowed} {
			pod.Greeter(t, "resident")
		}
		balancer := harness.Start(t, mode, config, node.Place)
		requireWorkloads(t, balancer, 2)
		const failing, requests = 40, 200
		if load := runLoad(t, refused.Place, programs.LoadSpec{Address: podService.String(), Requests: failing}); load.Status[503] != failing {
			t.Errorf("requests of the pod that is refused: got %v, want %d of 503", load.Status, failing)
		}
		before := balancer.ServedSoFar(t)
		load := runLoad(t, allowed.Place, programs.LoadSpec{Address: podService.String(), Requests: requests, Asks: []programs.Ask{{Path: "/from"}}})
		requireEach(t, &load, allowed.Address, requests, "a")
		requireFastSince(t, balancer, mode, before, requests+failing)
	})
}
