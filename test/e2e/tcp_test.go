// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

// greeters starts one per identity.
func greeters(t *testing.T, place *harness.Place, identities ...string) (servers []*harness.Process, addresses []netip.AddrPort) {
	t.Helper()
	for _, identity := range identities {
		server, address := place.Greeter(t, identity)
		servers, addresses = append(servers, server), append(addresses, address)
	}
	return servers, addresses
}

// withoutHTTP sends connections to the service address to the endpoints in turn.
func withoutHTTP(service netip.AddrPort, endpoints ...netip.AddrPort) harness.Config {
	return harness.Config{
		Listeners: []harness.Listener{{Address: service, TCP: map[string]any{"cluster": "origins"}}},
		Clusters:  []harness.Cluster{{Name: "origins", Endpoints: endpoints}},
	}
}

func call(t *testing.T, place *harness.Place, service netip.AddrPort, connections int) programs.CallerReport {
	t.Helper()
	var report programs.CallerReport
	place.Program(t, programs.CallerProgram, programs.CallerSpec{
		Address: service.String(), Clients: 8, Connections: connections, Bytes: 64 << 10, Timeout: patience,
	}).Next(t, &report)
	return report
}

// forPlacesAndModes runs a test on one host and on two, with and without the fast path.
func forPlacesAndModes(t *testing.T, test func(t *testing.T, mode harness.Mode, clients, servers *harness.Place)) {
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				clients, servers := topology.places(t)
				test(t, mode, clients, servers)
			})
		})
	}
}

func TestConnectionsWithoutHTTPTakeTurns(t *testing.T) {
	harness.Beside(t)
	const connections = 90
	harness.OnlyXLB(t, "each of Envoy's workers takes turns of its own")
	forPlacesAndModes(t, func(t *testing.T, mode harness.Mode, clients, servers *harness.Place) {
		service := harness.Service()
		_, addresses := greeters(t, servers, "one", "two", "three")
		balancer := harness.Start(t, mode, withoutHTTP(service, addresses...), clients)
		report := call(t, clients, service, connections)
		if diff := cmp.Diff(map[string]int{"one": 30, "two": 30, "three": 30}, report.ServedBy); diff != "" {
			t.Errorf("served by (-want +got):\n%s%q", diff, report.Failures)
		}
		if diff := cmp.Diff(map[string]int{service.String(): connections}, report.Peers); diff != "" {
			t.Errorf("peers (-want +got):\n%s", diff)
		}
		want := 0.0
		if mode.Fast {
			want = connections
		}
		if got := balancer.Metric(t, "xlb_verdicts_total", `verdict="connect_plain"`); got != want {
			t.Errorf("connections straight to an endpoint: got %g, want %g", got, want)
		}
		requireNothingOutstanding(t, balancer)
	})
}

func requireNothingOutstanding(t *testing.T, balancer *harness.Balancer) {
	t.Helper()
	harness.Eventually(t, patience, "no connection is counted any more", func() bool {
		return balancer.Metric(t, "envoy_cluster_upstream_rq_active") == 0
	})
}

func TestConnectionsWithoutHTTPGoByWeight(t *testing.T) {
	harness.Beside(t)
	const connections = 2000
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		_, addresses := greeters(t, place, "nine", "one")
		config := withoutHTTP(service)
		config.Listeners[0].TCP = map[string]any{"weighted_clusters": map[string]any{"clusters": []any{
			map[string]any{"name": "nine", "weight": 9}, map[string]any{"name": "one", "weight": 1},
		}}}
		config.Clusters = []harness.Cluster{{Name: "nine", Endpoints: addresses[:1]}, {Name: "one", Endpoints: addresses[1:]}}
		harness.Start(t, mode, config, place)
		report := call(t, place, service, connections)
		// Five standard deviations.
		if got := report.ServedBy["one"]; got < 133 || got > 267 || report.Failed > 0 {
			t.Errorf("of %d connections %d went to the cluster of weight 1 in 10, %d failed: %q", connections, got, report.Failed, report.Failures)
		}
	})
}

// A listener whose connections a proxy has to see is served in user space, with the fast path on.
func TestIdleTimeoutEndsAConnectionWithoutHTTP(t *testing.T) {
	suite.Long(t, suite.Clock)
	harness.Beside(t)
	const timeout = time.Second
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		_, addresses := greeters(t, place, "one")
		config := withoutHTTP(service, addresses...)
		config.Listeners[0].TCP["idle_timeout"] = "1s"
		harness.Start(t, mode, config, place)
		client := place.Puppet(t)
		began := time.Now()
		conn := client.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: service.String()}).Conn
		requireEnd(t, client, conn)
		if after := time.Since(began); after < timeout {
			t.Errorf("the connection ended after %v, want %v without a byte", after, timeout)
		}
		if report := call(t, place, service, 20); report.ServedBy["one"] != 20 {
			t.Errorf("connections that are not idle: %+v", report)
		}
	})
}

// requireEnd waits for the end of a puppet's connection.
func requireEnd(t *testing.T, puppet *harness.Puppet, conn int) {
	t.Helper()
	harness.Eventually(t, patience, "the connection ends", func() bool {
		for _, news := range puppet.Pull(t, programs.Pull{Do: programs.PuppetLook, Patience: time.Second}).News {
			if news.Conn == conn && news.Ended != "" {
				return true
			}
		}
		return false
	})
}

func TestFurtherConnectAttemptsFindAnotherEndpoint(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy may try one endpoint twice")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		_, addresses := greeters(t, place, "one")
		config := withoutHTTP(service, addresses[0], netip.AddrPortFrom(place.Address, place.FreePort(t)))
		config.Listeners[0].TCP["max_connect_attempts"] = 2
		harness.Start(t, mode, config, place)
		if report := call(t, place, service, 20); report.ServedBy["one"] != 20 {
			t.Errorf("connections: %+v", report)
		}
	})
}

// The endpoint's refusal, or Envoy's close, reaches the client.
func TestConnectionToARefusingEndpointFails(t *testing.T) {
	harness.Beside(t)
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		balancer := harness.Start(t, mode, withoutHTTP(service, netip.AddrPortFrom(place.Address, place.FreePort(t))), place)
		report := call(t, place, service, 20)
		if report.Failed != 20 {
			t.Errorf("connections: %+v, want 20 that fail", report)
		}
		t.Logf("%q", report.Failures[0])
		if !harness.Envoy() {
			requireNothingOutstanding(t, balancer)
		}
	})
}

// Connections outlive the configuration that made them; new ones follow the new one.
func TestReloadMovesNewConnectionsWithoutHTTP(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy drains connections of listeners that change")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		_, addresses := greeters(t, place, "old", "new")
		balancer := harness.Start(t, mode, withoutHTTP(service, addresses[0]), place)
		client := place.Puppet(t)
		conn := client.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: service.String()}).Conn
		requireHeard(t, client, conn, "old\n")
		balancer.Reload(t, withoutHTTP(service, addresses[1]))
		harness.Eventually(t, patience, "new connections go to the new endpoint", func() bool {
			return call(t, place, service, 20).ServedBy["new"] == 20
		})
		client.Pull(t, programs.Pull{Do: programs.PuppetSend, Conn: conn, Bytes: []byte("still here")})
		requireHeard(t, client, conn, "still here")
		client.Pull(t, programs.Pull{Do: programs.PuppetClose, Conn: conn})
		requireNothingOutstanding(t, balancer)
	})
}

// A socket of one address family cannot go to an address of the other: the daemon goes, and to the others, too, so that all take their turns.
func TestConnectionsWithoutHTTPToEndpointsOfBothFamilies(t *testing.T) {
	harness.Beside(t)
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		t.Skip("needs a kernel with IPv6")
	}
	const connections = 60
	service := netip.MustParseAddrPort("[fd00::80]:80")
	harness.OnlyXLB(t, "each of Envoy's workers takes turns of its own")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.Isolated(t)
		_, six := place.GreeterAt(t, "six", netip.MustParseAddrPort("[::1]:0"))
		_, four := place.Greeter(t, "four")
		balancer := harness.Start(t, mode, withoutHTTP(service, six, four), place)
		report := call(t, place, service, connections)
		if diff := cmp.Diff(map[string]int{"six": connections / 2, "four": connections / 2}, report.ServedBy); diff != "" {
			t.Errorf("served by (-want +got):\n%s%q", diff, report.Failures)
		}
		if got := report.Peers[service.String()]; got != connections {
			t.Errorf("getpeername: %v, want %d of %s", report.Peers, connections, service)
		}
		requireNothingOutstanding(t, balancer)
	})
}

// Nothing of ours stands between the two ends.
func TestConnectionWithoutHTTPOutlivesTheDaemon(t *testing.T) {
	harness.Beside(t)
	harness.OnlyXLB(t, "Envoy's connections end with it")
	place, service := harness.SameHost(t), harness.Service()
	_, addresses := greeters(t, place, "one")
	balancer := harness.Start(t, harness.Mode{Fast: true}, withoutHTTP(service, addresses...), place)
	client := place.Puppet(t)
	conn := client.Pull(t, programs.Pull{Do: programs.PuppetDial, Address: service.String()}).Conn
	requireHeard(t, client, conn, "one\n")
	balancer.Terminate(t)
	if code := balancer.Wait(t, patience); code != 0 {
		t.Errorf("exit code: got %d, want 0", code)
	}
	client.Pull(t, programs.Pull{Do: programs.PuppetSend, Conn: conn, Bytes: []byte("still here")})
	requireHeard(t, client, conn, "still here")
}

// requireHeard waits until a puppet's connection has received that and nothing else since the last command.
func requireHeard(t *testing.T, puppet *harness.Puppet, conn int, want string) {
	t.Helper()
	var got []byte
	harness.Eventually(t, patience, fmt.Sprintf("%q arrives", want), func() bool {
		for _, news := range puppet.Pull(t, programs.Pull{Do: programs.PuppetLook, Patience: time.Second}).News {
			if news.Conn == conn {
				got = append(got, news.Bytes...)
			}
		}
		return string(got) == want
	})
}
