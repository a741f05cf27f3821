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

// KeyOfMany is for connections to all addresses of a prefix, at one port, or with 0 at any.
func KeyOfMany(p netip.Prefix, port uint16) ListenerKey {
	p = p.Masked()
	return ListenerKey{Addr: p.Addr().As16(), Port: port, Bits: uint16(wholeBits(p)) + 1}
}

// ExclusionOf is a prefix as a map key.
func ExclusionOf(p netip.Prefix) ExclusionKey {
	p = p.Masked()
	return ExclusionKey{Addr: p.Addr().As16(), PrefixLen: uint32(wholeBits(p))}
}

// wholeBits counts those of a prefix in 16 bytes.
func wholeBits(p netip.Prefix) int {
	if p.Addr().Is4() {
		return 128 - 32 + p.Bits()
	}
	return p.Bits()
}
