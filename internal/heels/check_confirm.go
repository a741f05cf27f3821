// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// checkConfirmRoutes looks at the ways to balancers and to clients of a VIP in confirm mode. What the server sends is routed to the balancer, and goes to the client
// by the same interface: clients behind another one are never reached.
func checkConfirmRoutes(c *Config, vip *ServerVIP) Finding {
	name := fmt.Sprintf("confirm %s", vip.VIP)
	balancers := map[string]netip.Prefix{}
	for _, p := range vip.Balancers {
		for _, device := range devicesTo(p, c.Interfaces) {
			balancers[device] = p
		}
	}
	if len(balancers) == 0 {
		return fine(name, "not known: there is no route to its balancers yet")
	}
	for _, p := range vip.Clients {
		for _, device := range devicesTo(p, c.Interfaces) {
			if _, ok := balancers[device]; ok {
				continue
			}
			return Finding{
				name, Missing, fmt.Sprintf("clients in %s are reached through %s, and packets of the balancers come in by %s: in confirm mode both must be one interface, or each connection stalls for seconds before it returns to the balancer", p, device, deviceNames(balancers)),
				fmt.Sprintf("route balancers and clients through one interface, leave clients behind %s out of clients, or take confirm away from this VIP", device),
			}
		}
	}
	return fine(name, "balancers and clients are reached through one interface")
}

func deviceNames(devices map[string]netip.Prefix) string {
	var list []string
	for device := range devices {
		list = append(list, device)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
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
	if device, ok := deviceTo(first); ok {
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
