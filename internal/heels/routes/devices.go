// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// DeviceTo is the interface that packets to an address leave by.
func DeviceTo(a netip.Addr) (string, bool) {
	routes, err := netlink.RouteGet(a.AsSlice())
	if err != nil || len(routes) == 0 {
		return "", false
	}
	device, err := net.InterfaceByIndex(routes[0].LinkIndex)
	if err != nil {
		return "", false
	}
	return device.Name, true
}

// deviceNumber is that of the interface that packets to an address leave by, 0 when there is no route.
func deviceNumber(a netip.Addr) int {
	routes, err := netlink.RouteGet(a.AsSlice())
	if err != nil || len(routes) == 0 {
		return 0
	}
	return routes[0].LinkIndex
}
