// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xlb-project/xlb/internal/heels/routes"
	"github.com/xlb-project/xlb/internal/heels/settings"
)

// checkConfirmRoutes looks at the ways to clients of a VIP in confirm mode. What the server sends goes to a client by the interface that the routes name for
// it. What the client sends mostly comes in there, too: without programs on that interface its connections stall.
func checkConfirmRoutes(c *settings.Config, vip *settings.ServerVIP) Finding {
	name := fmt.Sprintf("confirm %s", vip.VIP)
	var reached, unreached []string
	for _, p := range vip.Clients {
		devices := devicesTo(p, c.Interfaces)
		if len(devices) == 0 {
			unreached = append(unreached, p.String())
		}
		for _, device := range devices {
			if !slices.Contains(c.Interfaces, device) {
				return Finding{
					name, Attention, fmt.Sprintf("clients in %s are reached through %s, which is not in interfaces: connections whose packets come in there stall for seconds before they return to the balancer", p, device),
					fmt.Sprintf("add %s to interfaces, unless what these clients send comes in by another one", device),
				}
			}
			reached = append(reached, device)
		}
	}
	if len(unreached) > 0 {
		return fine(name, "there is no route to clients in %s: their connections stay with the balancer", strings.Join(unreached, ", "))
	}
	slices.Sort(reached)
	return fine(name, "clients are reached through %s", strings.Join(slices.Compact(reached), ", "))
}

// devicesTo are the interfaces that packets to a prefix leave by: that of its first address, and those of routes to parts of it. Of a prefix that is everything only
// parts behind configured interfaces count. Rules of policy routing are not looked at but for the first address.
func devicesTo(p netip.Prefix, configured []string) []string {
	var list []string
	first := p.Masked().Addr()
	// The prefix's own address is nobody's in most networks.
	if !p.IsSingleIP() {
		first = first.Next()
	}
	if device, ok := routes.DeviceTo(first); ok {
		list = append(list, device)
	}
	family := netlink.FAMILY_V4
	if first.Is6() {
		family = netlink.FAMILY_V6
	}
	routes, err := netlink.RouteList(nil, family)
	if err != nil {
		return list
	}
	for _, r := range routes {
		to, ok := prefixOfRoute(&r)
		if !ok || !p.Contains(to.Addr()) || to.Bits() <= p.Bits() {
			continue
		}
		for _, index := range linksOf(&r) {
			device, err := net.InterfaceByIndex(index)
			if err != nil || slices.Contains(list, device.Name) || p.Bits() == 0 && !slices.Contains(configured, device.Name) {
				continue
			}
			list = append(list, device.Name)
		}
	}
	return list
}

// prefixOfRoute is where a route leads; false for the default route, and for what goes nowhere.
func prefixOfRoute(r *netlink.Route) (netip.Prefix, bool) {
	if r.Dst == nil || r.Type != 0 && r.Type != unix.RTN_UNICAST {
		return netip.Prefix{}, false
	}
	addr, ok := netip.AddrFromSlice(r.Dst.IP)
	bits, _ := r.Dst.Mask.Size()
	// Link-local addresses are on every interface.
	if !ok || addr.IsLinkLocalUnicast() || addr.IsMulticast() {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(addr.Unmap(), bits), true
}

func linksOf(r *netlink.Route) []int {
	if len(r.MultiPath) == 0 {
		return []int{r.LinkIndex}
	}
	var list []int
	for _, hop := range r.MultiPath {
		list = append(list, hop.LinkIndex)
	}
	return list
}
