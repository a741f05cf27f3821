// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xlb-project/xlb/bench/cases"
)

func TestEachClientHasItsSidecar(t *testing.T) {
	p := sidecars()
	s := Site{Endpoints: EndpointAddresses(netip.MustParseAddr("127.0.0.1"), cases.Stations)}
	seen := map[netip.AddrPort]bool{}
	for i, process := range p.Processes {
		set := process.settings(s)
		if set.Listeners[0].Address != p.Serves[i] {
			t.Errorf("sidecar %d listens on %s, its client asks %s", i, set.Listeners[0].Address, p.Serves[i])
		}
		seen[set.Admin], seen[p.Serves[i]] = true, true
	}
	if len(seen) != 2*cases.LeastClients || !slices.Contains(p.Serves, ServiceAddress) {
		t.Errorf("addresses %v, want two for each of %d clients and the service's", seen, cases.LeastClients)
	}
}

func TestEveryConfigurationNamesItsAddresses(t *testing.T) {
	s := Site{Dir: "/lab", Workload: "/cg/workload", Endpoints: EndpointAddresses(netip.MustParseAddr("198.18.80.2"), cases.Workers)}
	var processes []Process
	for _, p := range All() {
		processes = append(processes, p.Processes...)
	}
	for i := range s.Endpoints {
		processes = append(processes, EndpointProcess(i))
	}
	for _, p := range processes {
		t.Run(p.Name, func(t *testing.T) {
			text, err := p.Configuration(s)
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
		s := Site{Endpoints: EndpointAddresses(netip.MustParseAddr("127.0.0.1"), cases.Workers), WebSocket: on}
		for _, p := range All() {
			if p.Name == Spread {
				continue // It reads nothing, and takes no part.
			}
			for _, process := range p.Processes {
				text, err := process.Configuration(s)
				if err != nil {
					t.Fatal(err)
				}
				want := on && !silent[process.Name]
				if got := strings.Contains(strings.ToLower(string(text)), "upgrade"); got != want {
					t.Errorf("websocket %v: %s mentions upgrades: %v, want %v", on, process.Name, got, want)
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
	s := Site{Endpoints: EndpointAddresses(netip.MustParseAddr("127.0.0.1"), cases.Workers)}
	server := serverSidecar(s).Listeners
	for i, chosen := range clientSidecar(s).Listeners[0].Endpoints {
		if server[i].Address != chosen || len(server[i].Endpoints) != 1 || server[i].Endpoints[0] != s.Endpoints[i] {
			t.Errorf("sidecar %d takes %s to %v, want what the client's sends to %s, to there alone", i, server[i].Address, server[i].Endpoints, chosen)
		}
	}
}

func TestChainsLeadFromServiceToService(t *testing.T) {
	for _, p := range All() {
		next := p.NextOf(3)
		if len(next) != 3 || next[2].IsValid() {
			t.Errorf("%s: services ask %v, want nobody behind the last", p.Name, next)
		}
	}
	direct := Peer{Name: Direct}.NextOf(2)[0].String()
	single := Peer{Name: Envoy}.NextOf(2)[0].String()
	mesh := Peer{Name: Envoy2}.NextOf(2)[0].String()
	if diff := cmp.Diff([]string{"127.81.0.2:9000", "127.80.0.2:8080", "127.80.0.2:8080"}, []string{direct, single, mesh}); diff != "" {
		t.Errorf("whom the first service asks (-want +got):\n%s", diff)
	}
	if n := len(Peer{Name: Envoy2}.Meshed(3).Processes); n != 4 {
		t.Errorf("%d sidecars, want one at the client and at each of three services", n)
	}
	out := meshSidecar(1, 3).settings(Site{})
	want := []Listener{
		{"inbound", netip.MustParseAddrPort("127.81.0.2:9000"), []netip.AddrPort{netip.MustParseAddrPort("127.81.0.2:9000")}, markInbound},
		{"outbound", netip.MustParseAddrPort("127.80.0.3:8080"), []netip.AddrPort{netip.MustParseAddrPort("127.81.0.3:9000")}, markOutbound},
	}
	if diff := cmp.Diff(want, out.Listeners, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("listeners of a sidecar (-want +got):\n%s", diff)
	}
}
