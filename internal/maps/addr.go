// SPDX-License-Identifier: Apache-2.0

package maps

import "net/netip"

// KeyOf is a service address as a map key.
func KeyOf(a netip.AddrPort) ListenerKey {
	return ListenerKey{Addr: a.Addr().As16(), Port: a.Port()}
}

// Address is the inverse of KeyOf.
func Address(addr [16]byte, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16(addr).Unmap(), port)
}
