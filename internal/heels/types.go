// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// The types that agent and kernel programs share, from bpf/lib/heels.h.
type (
	end       = abiHeelsEnd
	control   = abiHeelsControl
	clientVIP = abiHeelsClientVip
	serverVIP = abiHeelsServerVip
	prefix    = abiHeelsPrefix
	backend   = abiHeelsBackend
	traffic   = abiHeelsTraffic
	conn      = abiHeelsConn
	ended     = abiHeelsEnded
	tuple     = abiHeelsTuple
	cookie    = abiHeelsCookie
	confirmed = abiHeelsConfirmed
	guesses   = abiHeelsGuesses
	seen      = abiHeelsSeen
)

// Role is a side of a connection.
type Role string

// The two sides.
const (
	ClientRole Role = "client"
	ServerRole Role = "server"
)

// order turns a port from host to network order, and back.
func order(port uint16) uint16 { return bits.ReverseBytes16(port) }

func endOf(a netip.AddrPort) end {
	return end{Addr: a.Addr().As16(), Port: order(a.Port())}
}

// addrPort is the address that e stands for, IPv4 without its prefix.
func addrPort(e end) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16(e.Addr).Unmap(), order(e.Port))
}

// prefixOf is the key of a prefix in one of a VIP's sets.
func prefixOf(set abiHeelsSet, vip uint32, p netip.Prefix) prefix {
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	return prefix{Length: uint32(64 + bits), Set: uint32(set), Vip: vip, Addr: p.Masked().Addr().As16()}
}

// word reads 4 bytes as the kernel programs do.
func word(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }
