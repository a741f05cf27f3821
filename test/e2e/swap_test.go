// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
)

// Two listeners exchange their addresses in one change. Whoever connects meanwhile is served by one of the two, and when the change is in force by the one that has the address.
func TestListenersSwapTheirAddressesUnderLoad(t *testing.T) {
	harness.OnlyXLB(t, "Envoy refuses an address that another listener has")
	kinds := []struct {
		name  string
		plain bool
	}{{"with HTTP", false}, {"one without HTTP", true}}
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Run("intercepted", func(t *testing.T) {
				harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
					place := harness.SameHost(t)
					services := [2]netip.AddrPort{harness.Service(), harness.Service()}
					playSwap(t, mode, place, place, services, services, kind.plain)
				})
			})
			t.Run("bound", func(t *testing.T) {
				harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
					place, other := harness.TwoHosts(t)
					var at, to [2]netip.AddrPort
					for i := range at {
						at[i] = netip.AddrPortFrom(netip.IPv4Unspecified(), boundPort+uint16(i))
						to[i] = netip.AddrPortFrom(place.Address, at[i].Port())
					}
					playSwap(t, mode, place, other, at, to, kind.plain)
				})
			})
		})
	}
}

// playSwap swaps the listeners at two addresses, which clients reach at others.
func playSwap(t *testing.T, mode harness.Mode, place, clients *harness.Place, at, to [2]netip.AddrPort, plain bool) {
	t.Helper()
	names := []string{"a", "b"}
	_, servers := origins(t, place, names...)
	config := func(swapped int) harness.Config {
		c := harness.OneCluster(at[swapped], servers[0])
		c.Add(harness.OneCluster(at[1-swapped], servers[1]))
		if plain {
			c.Listeners[1].TCP, c.Listeners[1].Hosts = map[string]any{"cluster": "origins-1"}, nil
		}
		return c
	}
	b := harness.Start(t, mode, config(0), place)
	var loads []*harness.Process
	for _, address := range to {
		for _, spec := range []programs.LoadSpec{{Connections: 4}, {Connections: 4, OneShot: true}} {
			spec.Address = address.String()
			loads = append(loads, clients.Program(t, programs.LoadProgram, spec))
		}
	}
	for turn := 1; turn <= 3; turn++ {
		for _, load := range loads {
			awaitRequests(t, load, 20)
		}
		b.Reload(t, config(turn%2))
		awaitListener(t, b, "service_0", at[turn%2])
		for i, address := range to {
			want := names[(i+turn)%2]
			r := runLoad(t, clients, programs.LoadSpec{Address: address.String(), Requests: 10, OneShot: true})
			requireClean(t, r)
			if r.Served[0][want] != 10 {
				t.Errorf("requests that begin after the change to %s: got %v, want all of %q", address, r.Served, want)
			}
		}
	}
	for _, load := range loads {
		var final programs.LoadReport
		load.Finish(t, &final)
		requireClean(t, final)
	}
}

// awaitListener waits until a listener is in force at an address.
func awaitListener(t *testing.T, b *harness.Balancer, name string, at netip.AddrPort) {
	t.Helper()
	harness.Eventually(t, patience, "the change is in force", func() bool {
		var rows []struct{ Name, Address string }
		if err := json.Unmarshal([]byte(b.Get(t, "/xlb/listeners")), &rows); err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if row.Name == name && row.Address == at.String() {
				return true
			}
		}
		return false
	})
}

// A listener loses its HTTP while it serves a request. That is answered, by the routes that there were, and so is one more where the kernel answers, which tells nobody to close.
func TestListenerLosesItsHTTPDuringARequest(t *testing.T) {
	harness.OnlyXLB(t, "Envoy closes such connections when its drain time is over")
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place, service := harness.SameHost(t), harness.Service()
		servers, addresses := origins(t, place, "before", "after")
		config := harness.OneCluster(service, addresses[0])
		config.Clusters = append(config.Clusters, harness.Cluster{Name: "others", Endpoints: addresses[1:]})
		b := harness.Start(t, mode, config, place)
		steps := []programs.Step{{Receive: true}}
		want := []int{200}
		if mode.Fast {
			steps, want = append(steps, getAndReceive("/")...), append(want, 200)
		}
		client := holdAt(t, place, service, servers[0], append(steps, programs.Step{End: true})...)

		config.Listeners[0].TCP, config.Listeners[0].Hosts = map[string]any{"cluster": "others"}, nil
		b.Reload(t, config)
		harness.Eventually(t, patience, "connections are of the listener without HTTP", func() bool {
			return runLoad(t, place, programs.LoadSpec{Address: service.String(), Requests: 1}).Served[0]["after"] == 1
		})
		servers[0].Release(t)
		var r programs.ExchangeReport
		client.Next(t, &r)
		requireStatus(t, r, want...)
		for _, reply := range r.Replies {
			if reply.Identity != "before" {
				t.Errorf("answered by %q, want the cluster that there was", reply.Identity)
			}
		}
		requireClean(t, runLoad(t, place, programs.LoadSpec{Address: service.String(), Requests: 1}))
	})
}
