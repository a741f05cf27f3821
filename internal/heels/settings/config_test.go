// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/xlb-project/xlb/internal/heels/kernel"
)

const whole = `kind: heels
cgroup: /sys/fs/cgroup/shop
interfaces: [eth0, eth1]
option: { kind: 253, exid: 0x1234, key: { file: /etc/xlb/heels.key } }
client:
  vips:
  - { vip: 10.0.0.100:80, backends: [10.0.2.0/24, 10.0.4.0/24] }
server:
  address: 10.0.2.1
  vips:
  - { vip: 10.0.0.100:80, port: 8080, mode: rewritten, balancers: [10.0.1.0/24], clients: [10.0.3.0/24] }
  - { vip: 10.0.0.101:80, mode: preserved, clients: [0.0.0.0/0] }
  - { vip: 10.0.0.102:80, mode: rewritten, confirm: true, balancers: [10.0.1.0/24], clients: [10.0.3.0/24] }
`

func TestConfigurationIsRead(t *testing.T) {
	got, err := Parse("heels.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	prefix, address := netip.MustParsePrefix, netip.MustParseAddrPort
	want := &Config{
		Cgroup: "/sys/fs/cgroup/shop", Interfaces: []string{"eth0", "eth1"},
		Option: Option{Kind: 253, ExID: 0x1234, KeyFile: "/etc/xlb/heels.key"},
		Client: &Client{VIPs: []ClientVIP{{
			VIP: address("10.0.0.100:80"), Backends: []netip.Prefix{prefix("10.0.2.0/24"), prefix("10.0.4.0/24")},
		}}},
		Server: &Server{Address: netip.MustParseAddr("10.0.2.1"), VIPs: []ServerVIP{
			{
				VIP: address("10.0.0.100:80"), Port: 8080, Mode: Rewritten,
				Balancers: []netip.Prefix{prefix("10.0.1.0/24")}, Clients: []netip.Prefix{prefix("10.0.3.0/24")},
			},
			{VIP: address("10.0.0.101:80"), Port: 80, Mode: Preserved, Clients: []netip.Prefix{prefix("0.0.0.0/0")}},
			{
				VIP: address("10.0.0.102:80"), Port: 80, Mode: Rewritten, Confirm: true,
				Balancers: []netip.Prefix{prefix("10.0.1.0/24")}, Clients: []netip.Prefix{prefix("10.0.3.0/24")},
			},
		}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}, netip.Prefix{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestRefusedConfigurations(t *testing.T) {
	change := func(old, by string) string {
		if !strings.Contains(whole, old) {
			t.Fatalf("no %q to change", old)
		}
		return strings.Replace(whole, old, by, 1)
	}
	many := strings.Repeat("10.0.2.0/24, ", kernel.MaxPrefixes)
	for _, tt := range []struct{ name, text, want string }{
		{"too many backends", change("[10.0.2.0/24,", "["+many), "heels.yaml: client.vips: 4097 prefixes are named, 4096 is the most: name shorter ones that hold several"},
		{"a balancer that is everybody", change("mode: rewritten, balancers: [10.0.1.0/24]", "mode: encapsulated, balancers: [10.0.1.0/24, 0.0.0.0/0]"), "heels.yaml: server.vips[0].balancers: 0.0.0.0/0 makes every host a balancer, whose packets are unwrapped and whose clients are believed: name the sources of the balancers, for an encapsulating one those of the outer header"},
		{"too many clients", change("[0.0.0.0/0]", "["+many+"0.0.0.0/0]"), "heels.yaml: server.vips: 4101 prefixes are named, 4096 is the most: name shorter ones that hold several"},
		{"not YAML", "kind: [", "heels.yaml: not valid YAML: line 1: did not find expected node content"},
		{"a field twice", whole + "kind: heels\n", "heels.yaml: not valid YAML: line 14: key \"kind\" already set in map"},
		{"no mapping", "[]", "heels.yaml: want a mapping with kind, cgroup, interfaces, option, client, server"},
		{"another kind", change("kind: heels", "kind: Service"), "heels.yaml: kind: want heels"},
		{"unknown field", change("cgroup:", "group:"), "heels.yaml: group: unknown field; known are kind, cgroup, interfaces, option, client, server"},
		{"no interface", change("[eth0, eth1]", "[]"), "heels.yaml: interfaces: name one at least"},
		{"interface twice", change("[eth0, eth1]", "[eth0, eth0]"), "heels.yaml: interfaces[1]: eth0 is named twice"},
		{"no role", "kind: heels\ninterfaces: [eth0]\n", "heels.yaml: name a role: client, server or both"},
		{"option's kind", change("kind: 253", "kind: 30"), "heels.yaml: option.kind: want a whole number from 253 to 254"},
		{"Fast Open's number", change("0x1234", "0xf989"), "heels.yaml: option.exid: 0xf989 is that of TCP Fast Open: choose another"},
		{"key without file", change("key: { file: /etc/xlb/heels.key }", "key: {}"), "heels.yaml: option.key.file: required: the file with the keys"},
		{"VIP without port", change("vip: 10.0.0.100:80,", "vip: 10.0.0.100,"), "heels.yaml: client.vips[0].vip: want an address with a port, as 10.0.0.100:80 or [fd00::100]:80"},
		{"IPv4 inside IPv6", change("vip: 10.0.0.100:80,", "vip: \"[::ffff:10.0.0.100]:80\","), "heels.yaml: client.vips[0].vip: ::ffff:10.0.0.100 is IPv4 in a form of IPv6: write it as IPv4"},
		{"backends", change("10.0.4.0/24]", "10.0.4.1/24]"), "heels.yaml: client.vips[0].backends[1]: 10.0.4.1/24 has bits behind its length: did you mean 10.0.4.0/24?"},
		{"no backends", change(", backends: [10.0.2.0/24, 10.0.4.0/24]", ""), "heels.yaml: client.vips[0].backends: required: the prefixes that servers are in"},
		{"VIP twice", change("10.0.0.101:80", "10.0.0.100:80"), "heels.yaml: server.vips[1].vip: 10.0.0.100:80 is named twice"},
		{"no mode", change(", mode: preserved", ""), "heels.yaml: server.vips[1].mode: required: encapsulated, rewritten or preserved: how the balancer delivers SYNs"},
		{"unknown mode", change("mode: preserved", "mode: confirm"), "heels.yaml: server.vips[1].mode: want encapsulated, rewritten or preserved"},
		{"balancers of preserved", change("mode: preserved", "mode: preserved, balancers: [10.0.1.0/24]"), "heels.yaml: server.vips[1].balancers: a balancer that keeps the client's address cannot be seen: remove the field"},
		{"no balancers", change(", balancers: [10.0.1.0/24]", ""), "heels.yaml: server.vips[0].balancers: required: the prefixes that its SYNs come from, for an encapsulating balancer those of the outer header"},
		{"no clients", change(", clients: [10.0.3.0/24]", ""), "heels.yaml: server.vips[0].clients: required: the prefixes that clients are in"},
		{"confirm, encapsulated", change("mode: rewritten", "mode: encapsulated, confirm: true"), "heels.yaml: server.vips[0].confirm: a balancer that encapsulates sees no answers anyway, and needs none: remove the field"},
		{"confirm, preserved", change("mode: preserved", "mode: preserved, confirm: true"), "heels.yaml: server.vips[1].confirm: not supported where the client's address is kept: its direct packets look like the balancer's; remove the field, or let the balancer masquerade and use rewritten"},
		{"confirm of another type", change("mode: rewritten", "mode: rewritten, confirm: 1"), "heels.yaml: server.vips[0].confirm: want true or false"},
		{"port", change("port: 8080", "port: 0"), "heels.yaml: server.vips[0].port: want a whole number from 1 to 65535"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("heels.yaml", []byte(tt.text))
			var field *FieldError
			if !errors.As(err, &field) || err.Error() != tt.want {
				t.Errorf("error is\n%v, want\n%s", err, tt.want)
			}
		})
	}
}

const whole6 = `kind: heels
interfaces: [eth0]
client:
  vips:
  - { vip: "[fd00::100]:80", backends: ["fd00:2::/64"] }
server:
  address: [10.0.2.1, "fd00:2::1"]
  vips:
  - { vip: "[fd00::100]:80", mode: rewritten, balancers: ["fd00:1::/64"], clients: ["fd00:3::/64"] }
  - { vip: "[fd00::101]:80", mode: encapsulated, balancers: ["100::/64", 172.16.0.0/16], clients: ["::/0"] }
  - { vip: "[fd00::102]:81", mode: preserved, clients: ["fd00:3::/64"] }
  - { vip: 10.0.0.100:80, mode: encapsulated, balancers: ["100::/64"], clients: [10.0.3.0/24] }
`

func TestConfigurationOfBothFamiliesIsRead(t *testing.T) {
	got, err := Parse("heels.yaml", []byte(whole6))
	if err != nil {
		t.Fatal(err)
	}
	prefix, address := netip.MustParsePrefix, netip.MustParseAddrPort
	list := func(p ...netip.Prefix) []netip.Prefix { return p }
	want := &Config{
		Interfaces: []string{"eth0"}, Option: Option{Kind: 254, ExID: defaultExID},
		Client: &Client{VIPs: []ClientVIP{{VIP: address("[fd00::100]:80"), Backends: list(prefix("fd00:2::/64"))}}},
		Server: &Server{Address: netip.MustParseAddr("10.0.2.1"), Address6: netip.MustParseAddr("fd00:2::1"), VIPs: []ServerVIP{
			{VIP: address("[fd00::100]:80"), Port: 80, Mode: Rewritten, Balancers: list(prefix("fd00:1::/64")), Clients: list(prefix("fd00:3::/64"))},
			{VIP: address("[fd00::101]:80"), Port: 80, Mode: Encapsulated, Balancers: list(prefix("100::/64"), prefix("172.16.0.0/16")), Clients: list(prefix("::/0"))},
			{VIP: address("[fd00::102]:81"), Port: 81, Mode: Preserved, Clients: list(prefix("fd00:3::/64"))},
			{VIP: address("10.0.0.100:80"), Port: 80, Mode: Encapsulated, Balancers: list(prefix("100::/64")), Clients: list(prefix("10.0.3.0/24"))},
		}},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}, netip.Prefix{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// What does not fit into the option over IPv6, and what mixes families, is refused by field and reason.
func TestRefusedConfigurationsOfIPv6(t *testing.T) {
	change := func(old, by string) string {
		if !strings.Contains(whole6, old) {
			t.Fatalf("no %q to change", old)
		}
		return strings.Replace(whole6, old, by, 1)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"another port", change(`100]:80", mode`, `100]:80", port: 8080, mode`), "server.vips[0].port: over IPv6 the option has no room for a port: VIP and server must have the same"},
		{"key", whole6 + "option: { key: { file: /etc/xlb/heels.key } }\n", "server.vips[0].mode: over IPv6 the option has no room for client and tag: remove option.key, or use another mode"},
		{"two VIPs at a port", change("102]:81", "102]:80"), "server.vips[2].vip: over IPv6 a SYN does not say whether it is for this VIP or [fd00::100]:80: one of them at a port, unless the balancer encapsulates"},
		{"backends of the other family", change("fd00:2::/64", "10.0.2.0/24"), "client.vips[0].backends[0]: 10.0.2.0/24 is IPv4 and the VIP IPv6: name prefixes of the VIP's family"},
		{"clients of the other family", change("clients: [10.0.3.0/24]", `clients: ["fd00:3::/64"]`), "server.vips[3].clients[0]: fd00:3::/64 is IPv6 and the VIP IPv4: name prefixes of the VIP's family"},
		{"rewriting balancers of the other family", change("fd00:1::/64", "10.0.1.0/24"), "server.vips[0].balancers[0]: 10.0.1.0/24 is IPv4 and the VIP IPv6: name prefixes of the VIP's family"},
		{"two addresses of a family", change("10.0.2.1,", `"fd00:2::9",`), "server.address[1]: fd00:2::9 and fd00:2::1 are of one family: name one"},
		{"link-local address", change("fd00:2::1", "fe80::1"), "server.address[1]: fe80::1 has a meaning on one link only: use one that other networks reach"},
		{"zone", change("[fd00::101]", "[fd00::101%eth0]"), "server.vips[1].vip: fd00::101%eth0 has a meaning on one link only: use one that other networks reach"},
		{"IPv4 inside IPv6", change(`"fd00:2::/64"`, `"::ffff:10.0.2.0/120"`), "client.vips[0].backends[0]: ::ffff:10.0.2.0/120 is IPv4 in a form of IPv6: write it as IPv4"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("heels.yaml", []byte(tt.text))
			var field *FieldError
			if !errors.As(err, &field) || err.Error() != "heels.yaml: "+tt.want {
				t.Errorf("error is\n%v, want\n%s", err, tt.want)
			}
		})
	}
}

func TestKeyFiles(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"two keys", "# new\n0001020304050607\n\n08090a0b0c0d0e0f\n", ""},
		{"no key", "#\n", "has 0 keys"},
		{"three keys", strings.Repeat("0001020304050607\n", 3), "has 3 keys"},
		{"short key", "00010203040506\n", "line 1: want 16 hexadecimal digits"},
		{"not hexadecimal", "0001020304050607\n000102030405060x\n", "line 2: want 16 hexadecimal digits"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := ReadKeys(file)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "00010203") {
				t.Errorf("the error tells the key: %v", err)
			}
		})
	}
}
