// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
)

// Routes inside a client's prefix are asked for apart, each at an address of its own.
func TestPartsOfPrefixes(t *testing.T) {
	prefix := netip.MustParsePrefix
	var routes []netlink.Route
	for _, p := range []string{"10.0.0.0/24", "10.0.1.0/24", "10.0.0.0/32", "10.0.128.0/17", "192.0.2.0/24", "10.0.0.0/8"} {
		_, dst, err := net.ParseCIDR(p)
		if err != nil {
			t.Fatal(err)
		}
		routes = append(routes, netlink.Route{Dst: dst})
	}
	want := map[string]string{"10.0.0.0/16": "10.0.2.0", "10.0.0.0/24": "10.0.0.1", "10.0.0.0/32": "10.0.0.0", "10.0.1.0/24": "10.0.1.0", "10.0.128.0/17": "10.0.128.0", "10.1.0.0/16": "10.1.0.0"}
	parts, ok := partsOf([]netip.Prefix{prefix("10.1.0.0/16"), prefix("10.0.0.0/16")}, append(routes, netlink.Route{}))
	if !ok || len(parts) != len(want) {
		t.Fatalf("parts %v (%v), want %d", parts, ok, len(want))
	}
	for i, p := range parts {
		if a, alone := ownAddress(parts[i:]); !alone || a.String() != want[p.String()] {
			t.Errorf("%s is asked for at %s (%v), want %s", p, a, alone, want[p.String()])
		}
	}
	if a, alone := ownAddress([]netip.Prefix{prefix("10.0.0.0/31"), prefix("10.0.0.0/32"), prefix("10.0.0.1/32")}); alone {
		t.Errorf("%s is taken for an address of a prefix that has none of its own", a)
	}
	if a, alone := ownAddress([]netip.Prefix{prefix("255.255.255.254/31"), prefix("255.255.255.254/31"), prefix("255.255.255.255/32")}); alone {
		t.Errorf("%s is taken for an address of a prefix that has none of its own", a)
	}
	for i := range maxRoutes + 1 {
		routes = append(routes, netlink.Route{Dst: &net.IPNet{IP: net.IPv4(10, 0, byte(i>>8), byte(i)), Mask: net.CIDRMask(32, 32)}})
	}
	if parts, ok := partsOf([]netip.Prefix{prefix("10.0.0.0/16")}, routes); ok || len(parts) != 1 {
		t.Errorf("%d parts (%v), want the prefix alone", len(parts), ok)
	}
}
