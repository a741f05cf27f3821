// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/xlb-project/xlb/internal/heels/settings"
)

// checkRoutes refuses servers that are reached through another interface than their VIP: the kernel has chosen that for the VIP before the
// programs see a packet. Where there is no route yet nothing can be said.
func checkRoutes(c *settings.Client) error {
	for i, vip := range c.VIPs {
		towards, ok := deviceTo(vip.VIP.Addr())
		if !ok {
			continue
		}
		for j, p := range vip.Backends {
			// The prefix's own address is nobody's in most networks; the one behind it is routed alike.
			device, ok := deviceTo(p.Addr().Next())
			if ok && device != towards {
				return &settings.FieldError{
					Path:   fmt.Sprintf("client.vips[%d].backends[%d]", i, j),
					Reason: fmt.Sprintf("%s is reached through %s, the VIP %s through %s: not supported; route them alike", p, device, vip.VIP.Addr(), towards),
				}
			}
		}
	}
	return nil
}

// deviceTo is the interface that packets to an address leave by.
func deviceTo(a netip.Addr) (string, bool) {
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
