// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func validOptions() options {
	return options{
		Topology: all, Case: all, Connections: []int{1, 32}, ShortConnections: []int{8}, Rounds: 1,
		WebSocketConnections: []int{1, 100}, Messages: []int{16, 1024},
		Routes: []int{1, 10}, RouteKinds: []string{routesByPath, routesByRegex}, RouteConnections: 8, LeastRate: leastRate, AppUsers: []int{2},
		Peers: []string{all}, Duration: time.Second, Output: outputText, Generators: []string{generatorWrk}, Scale: defaultScale(),
	}
}

func TestOptionsNameEveryBadFlag(t *testing.T) {
	if err := validOptions().validate(); err != nil {
		t.Fatalf("valid options: %v", err)
	}
	bad := options{
		Topology: "near", Case: "long", Output: "xml", Peers: []string{"squid"}, Connections: []int{0},
		Messages: []int{1 << 20}, Routes: []int{0}, RouteKinds: []string{"colour"}, Rounds: -1, Duration: 1500 * time.Millisecond, Warmup: -time.Second, Body: -1,
	}
	err := bad.validate()
	if err == nil {
		t.Fatal("validate() accepts everything")
	}
	for _, flag := range []string{
		"topology", "case", "output", "peers", "connections", "short-connections", "websocket-connections", "messages", "routes", "route-kinds", "route-connections", "least-rate", "rounds", "duration", "warmup", "body",
	} {
		if !strings.Contains(err.Error(), "--"+flag+" ") {
			t.Errorf("validate() does not mention --%s: %v", flag, err)
		}
	}
}

func TestLoadsFollowTheCase(t *testing.T) {
	kept := []load{keepalive(1), keepalive(32)}
	once := []load{short(8)}
	setup := []load{{Case: caseSetup, Connections: 8}}
	routes := []load{
		throughRoutes(8, routesByPath, 1), throughRoutes(8, routesByPath, 10), throughRoutes(8, routesByRegex, 1), throughRoutes(8, routesByRegex, 10),
	}
	messages := []load{webSocket(1, 16), webSocket(100, 16), webSocket(1, 1024), webSocket(100, 1024)}
	least := []load{leastLoaded(choiceOfTwo, leastRate), leastLoaded(choiceOfAll, leastRate)}
	for name, want := range map[string][]load{
		caseLeast: least, caseKeepalive: kept, caseShort: once, caseSetup: setup, caseRoutes: routes, caseWebSocket: messages, all: slices.Concat(kept, once, setup, routes, messages, least, validOptions().scaleLoads()),
	} {
		o := validOptions()
		o.Case = name
		if diff := cmp.Diff(want, o.loads()); diff != "" {
			t.Errorf("case %s (-want +got):\n%s", name, diff)
		}
	}
}

func TestEveryConfigurationNamesItsAddresses(t *testing.T) {
	s := site{dir: "/lab", workload: "/cg/workload", endpoints: endpointAddresses(netip.MustParseAddr("198.18.80.2"), workers)}
	var processes []process
	for _, p := range peers() {
		processes = append(processes, p.processes...)
	}
	for i := range s.endpoints {
		processes = append(processes, endpointProcess(i))
	}
	for _, p := range processes {
		t.Run(p.name, func(t *testing.T) {
			text, err := p.configuration(s)
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range p.settings(s).Listeners {
				for _, address := range append(l.Endpoints, l.Address) {
					if !mentions(string(text), address) {
						t.Errorf("%s is missing in:\n%s", address, text)
					}
				}
			}
		})
	}
}

func TestOnlyWebSocketConfigurationsLetClientsSwitch(t *testing.T) {
	// Without a word, HAProxy does.
	silent := map[string]bool{"haproxy": true}
	for _, on := range []bool{false, true} {
		s := site{endpoints: endpointAddresses(netip.MustParseAddr("127.0.0.1"), workers), webSocket: on}
		for _, p := range peers() {
			if p.name == peerSpread {
				continue // It reads nothing, and takes no part.
			}
			for _, process := range p.processes {
				text, err := process.configuration(s)
				if err != nil {
					t.Fatal(err)
				}
				want := on && !silent[process.name]
				if got := strings.Contains(strings.ToLower(string(text)), "upgrade"); got != want {
					t.Errorf("websocket %v: %s mentions upgrades: %v, want %v", on, process.name, got, want)
				}
			}
		}
	}
}

// mentions knows nginx's, HAProxy's and Envoy's ways to write an address.
func mentions(text string, a netip.AddrPort) bool {
	_, port, _ := strings.Cut(a.String(), ":")
	envoy := "address: " + a.Addr().String() + ", port_value: " + port + " "
	return strings.Contains(text, a.String()) || strings.Contains(text, envoy)
}

func TestSidecarsKeepTheChoiceAtTheClient(t *testing.T) {
	s := site{endpoints: endpointAddresses(netip.MustParseAddr("127.0.0.1"), workers)}
	server := serverSidecar(s).Listeners
	for i, chosen := range clientSidecar(s).Listeners[0].Endpoints {
		if server[i].Address != chosen || len(server[i].Endpoints) != 1 || server[i].Endpoints[0] != s.endpoints[i] {
			t.Errorf("sidecar %d takes %s to %v, want what the client's sends to %s, to there alone", i, server[i].Address, server[i].Endpoints, chosen)
		}
	}
}

func TestMissingToolsAreFatalOnlyWhenNamed(t *testing.T) {
	missing := tools{xlb: "/nonexistent/xlb"}
	chosen, skipped, err := missing.choosePeers([]string{all})
	if err != nil {
		t.Fatal(err)
	}
	if skipped[peerXLB] == "" || chosen[0].name != peerDirect {
		t.Errorf("chosen %v, skipped %v, want xlb skipped and direct first", chosen, skipped)
	}
	if _, _, err := missing.choosePeers([]string{peerDirect, peerXLB}); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("xlb by name: %v, want the remedy", err)
	}
}
