// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"fmt"

	"github.com/xlb-project/xlb/internal/heels/settings"
)

// CheckBackends refuses servers that are reached through another interface than their VIP: the kernel has chosen that for the VIP before the
// programs see a packet. Where there is no route yet nothing can be said.
func CheckBackends(c *settings.Client) error {
	for i, vip := range c.VIPs {
		towards, ok := DeviceTo(vip.VIP.Addr())
		if !ok {
			continue
		}
		for j, p := range vip.Backends {
			// In most networks no host has the prefix's own address; the one behind it is routed alike.
			device, ok := DeviceTo(p.Addr().Next())
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
