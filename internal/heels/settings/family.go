// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"net/netip"
)

// Family is IPv4 or IPv6.
func Family(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}

// refuseIPv6 reports what an IPv6 VIP of a server cannot have: the option has room for one address, and no port.
func (r *reader) refuseIPv6(path string, vip *ServerVIP, tagged bool) {
	if vip.Port != vip.VIP.Port() {
		r.add(path+".port", "over IPv6 the option has no room for a port: VIP and server must have the same")
	}
	if vip.Mode == Rewritten && tagged {
		r.add(path+".mode", "over IPv6 the option has no room for client and tag: remove option.key, or use another mode")
	}
}

// refuseAmbiguous reports IPv6 VIPs that the server could not tell apart: no outer header and no option says which of them a SYN is for.
func (r *reader) refuseAmbiguous(path string, vips []ServerVIP) {
	first := map[uint16]netip.AddrPort{}
	for i, vip := range vips {
		if !vip.VIP.Addr().Is6() || vip.Mode == Encapsulated {
			continue
		}
		if other, taken := first[vip.Port]; taken {
			r.add(fmt.Sprintf("%s[%d].vip", path, i), "over IPv6 a SYN does not say whether it is for this VIP or %s: one of them at a port, unless the balancer encapsulates", other)
			continue
		}
		first[vip.Port] = vip.VIP
	}
}
