// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"testing"

	"github.com/xlb-project/xlb/test/await"
	"github.com/xlb-project/xlb/test/e2e/harness"
	"github.com/xlb-project/xlb/test/e2e/programs"
	"github.com/xlb-project/xlb/test/suite"
)

func requireIPv6(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		t.Skip("needs a kernel with IPv6")
	}
}

// connected says of each address whether a request there is served.
func connected(t *testing.T, place *harness.Place, addresses ...string) map[string]string {
	t.Helper()
	var sends []programs.RawSend
	for _, to := range addresses {
		sends = append(sends, programs.RawSend{Address: to, Bytes: []byte("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")})
	}
	out := map[string]string{}
	for i, a := range runAnswered(t, place, sends...) {
		out[addresses[i]] = whoServed(nil, a)
	}
	return out
}

// TestListenersAtBothFamilies asks XLB and Envoy at addresses of both.
func TestListenersAtBothFamilies(t *testing.T) {
	suite.Long(t, suite.Slow)
	harness.Beside(t)
	requireIPv6(t)
	type m = map[string]any
	address := func(a string, more m) m {
		socket := m{"address": a, "port_value": boundPort}
		maps.Copy(socket, more)
		return m{"socket_address": socket}
	}
	compat := m{"ipv4_compat": true}
	for name, test := range map[string]struct {
		fields m
		want   map[string]string
	}{
		"IPv6 alone":         {m{"address": address("::", nil)}, map[string]string{"127.0.0.1:8080": "refused", "[::1]:8080": "one", "[fd00::7]:8080": "one", "192.0.2.7:8080": "refused"}},
		"IPv4 alone":         {m{"address": address("0.0.0.0", nil)}, map[string]string{"127.0.0.1:8080": "one", "[::1]:8080": "refused", "[fd00::7]:8080": "refused", "192.0.2.7:8080": "one"}},
		"IPv6 and its IPv4":  {m{"address": address("::", compat)}, map[string]string{"127.0.0.1:8080": "one", "[::1]:8080": "one", "[fd00::7]:8080": "one", "192.0.2.7:8080": "one"}},
		"an address more":    {m{"address": address("0.0.0.0", nil), "additional_addresses": []any{m{"address": address("::", nil)}}}, map[string]string{"127.0.0.1:8080": "one", "[::1]:8080": "one", "[fd00::7]:8080": "one", "192.0.2.7:8080": "one"}},
		"two of one address": {m{"address": address("192.0.2.7", nil), "additional_addresses": []any{m{"address": address("fd00::7", nil)}}}, map[string]string{"127.0.0.1:8080": "refused", "[::1]:8080": "refused", "[fd00::7]:8080": "one", "192.0.2.7:8080": "one"}},
	} {
		t.Run(name, func(t *testing.T) {
			start := func(t *testing.T) (*harness.Place, harness.Config) {
				place := harness.Isolated(t)
				place.AddAddress(t, "192.0.2.7/32")
				place.AddAddress(t, "fd00::7/128")
				config := harness.OneCluster(everyAddress, place.Origin(t, "one").Address)
				config.Listeners[0].Fields = test.fields
				return place, config
			}
			require := func(t *testing.T, who string, got map[string]string) {
				for to, by := range got {
					if by != test.want[to] {
						t.Errorf("%s: %s: served by %s, want %s", who, to, by, test.want[to])
					}
				}
			}
			addresses := []string{"127.0.0.1:8080", "[::1]:8080", "[fd00::7]:8080", "192.0.2.7:8080"}
			place, config := start(t)
			harness.StartEnvoy(t, config, place)
			require(t, "Envoy", connected(t, place, addresses...))
			harness.OnlyXLB(t, "that is what is compared with")
			harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
				place, config := start(t)
				b := harness.Start(t, mode, config, place)
				require(t, "XLB", connected(t, place, addresses...))
				for _, to := range addresses {
					if test.want[to] == "one" {
						requireClean(t, runLoad(t, place, programs.LoadSpec{Address: to, Connections: 2, Requests: 50}))
					}
				}
				b.RequireFast(t, mode, 0.8)
			})
		})
	}
}

// TestSidecarOfIPv6 has a sidecar's listeners at ::, which take destinations of IPv6 by prefix, port and what is left.
func TestSidecarOfIPv6(t *testing.T) {
	harness.Beside(t)
	requireIPv6(t)
	harness.OnlyXLB(t, "a firewall would have to send it connections; see TestSidecarsTakeConnectionsAsXLBDoes for IPv4")
	type m = map[string]any
	harness.ForModes(t, func(t *testing.T, mode harness.Mode) {
		place := harness.Isolated(t)
		for i := range 6 {
			place.AddAddress(t, fmt.Sprintf("fd00:%d::1/128", i))
		}
		_, greeting := greeters(t, place, "one", "two", "three")
		for identity, address := range map[string]string{"passed": "[fd00:3::1]:9080", "five": "[fd00:5::1]:7000", "local": "[::1]:9080", "four": "127.0.0.5:9080"} {
			place.GreeterAt(t, identity, netip.MustParseAddrPort(address))
		}
		config := sidecar("pass", place.Origin(t, "http").Address, greeting)
		for i := range config.Listeners {
			l := &config.Listeners[i]
			l.Address = netip.AddrPortFrom(map[bool]netip.Addr{true: netip.IPv6Unspecified(), false: netip.MustParseAddr("fd00:4::1")}[l.Address.Addr().IsUnspecified()], l.Address.Port())
			chains := l.Fields["filter_chains"].([]any)
			for j, length := range []int{32, 64} {
				if match, ok := chains[min(j, len(chains)-1)].(m)["filter_chain_match"].(m); ok && match["prefix_ranges"] != nil {
					match["prefix_ranges"] = []any{m{"address_prefix": "fd00:2::", "prefix_len": length}}
				}
			}
		}
		b := harness.Start(t, mode, config, place)
		shop, text := "GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n", "hello\n"
		tests := []struct{ to, sends, want string }{
			{"[fd00:1::1]:9080", shop, "http"}, {"[fd00:3::1]:9080", text, "passed"}, {"[fd00:1::1]:9080", text, "closed"},
			{"[fd00:4::1]:9080", text, "two"}, {"[fd00:4::1]:3306", text, "one"}, {"[fd00:5::1]:7000", text, "five"}, {"[fd00:5::1]:7001", text, "refused"},
			{"[fd00:2::1]:9090", text, "one"}, {"[fd00:2:0:1::1]:9090", text, "two"}, {"[fd00:1::1]:9090", text, "three"},
			{"[::1]:9080", text, "local"}, {"127.0.0.5:9080", text, "four"},
		}
		var sends []programs.RawSend
		for _, d := range tests {
			sends = append(sends, programs.RawSend{Address: d.to, Bytes: []byte(d.sends)})
		}
		for i, a := range runAnswered(t, place, sends...) {
			if got := whoServed(sends[i].Bytes, a); got != tests[i].want {
				t.Errorf("%s: served by %s, want %s", tests[i].to, got, tests[i].want)
			}
		}
		service := netip.MustParseAddrPort("[fd00:1::77]:9080")
		var steps []programs.Step
		for range 20 {
			steps = append(steps, programs.Step{Send: shop}, programs.Step{Receive: true})
		}
		if report := runExchange(t, place, service, await.Patience, steps...); report.Peer != service.String() || len(report.Replies) != 20 {
			t.Errorf("%d replies of %s, want 20 of %s", len(report.Replies), report.Peer, service)
		}
		if fast, _ := b.Served(t); mode.Fast && fast < 20 {
			t.Errorf("%g requests in the kernel, want 20", fast)
		}
	})
}
