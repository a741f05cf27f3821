// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/kernel"
	"github.com/xlb-project/xlb/internal/heels/settings"
)

// maxRoutes is how many routes inside the prefixes of one VIP's clients are told apart: each is asked for once a second.
const maxRoutes = 1024

// ClientDevices are the numbers of the interfaces by which clients in confirm mode are reached, by their prefixes; 0 where there is no route, or there are too
// many to tell them apart.
func ClientDevices(c *settings.Config) (map[kernel.Prefix]uint32, error) {
	found := map[kernel.Prefix]uint32{}
	if !c.Confirms() {
		return found, nil
	}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("read routes: %w", err)
	}
	for _, vip := range c.Server.VIPs {
		if !vip.Confirm {
			continue
		}
		parts, ok := partsOf(vip.Clients, routes)
		for i, p := range parts {
			device := uint32(0)
			if a, alone := ownAddress(parts[i:]); ok && alone {
				device = uint32(deviceNumber(a))
			} else if ok {
				continue
			}
			found[kernel.PrefixOf(kernel.SetRouted, 0, p)] = device
		}
	}
	if len(found) > kernel.MaxRoutes {
		return nil, fmt.Errorf("clients of VIPs in confirm mode have %d routes, %d is the most: name fewer or narrower clients", len(found), kernel.MaxRoutes)
	}
	return found, nil
}

// partsOf are prefixes and the routes inside them, each behind what holds it. False when there are too many routes: then
// they are the prefixes alone.
func partsOf(prefixes []netip.Prefix, routes []netlink.Route) ([]netip.Prefix, bool) {
	parts := slices.Clone(prefixes)
	for _, r := range routes {
		if r.Dst == nil {
			continue
		}
		a, isAddr := netip.AddrFromSlice(r.Dst.IP)
		bits, _ := r.Dst.Mask.Size()
		p := netip.PrefixFrom(a.Unmap(), bits)
		if isAddr && slices.ContainsFunc(prefixes, func(in netip.Prefix) bool { return in.Bits() < bits && in.Contains(p.Addr()) }) {
			parts = append(parts, p)
		}
		if len(parts) > len(prefixes)+maxRoutes {
			return prefixes, false
		}
	}
	slices.SortFunc(parts, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	return slices.Compact(parts), true
}

// ownAddress is the first address of a part that is in no part inside it. What it holds follows it. False when there is
// none.
func ownAddress(parts []netip.Prefix) (netip.Addr, bool) {
	whole := parts[0]
	a := whole.Addr()
	for _, p := range parts[1:] {
		if !whole.Contains(p.Addr()) || a.Less(p.Addr()) {
			break
		}
		if p.Contains(a) {
			a = lastOf(p).Next()
		}
	}
	return a, whole.Contains(a)
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
