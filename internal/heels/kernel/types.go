// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"golang.org/x/sys/unix"
)

// The types that agent and kernel programs share. bpf/lib/heels.h documents each.
type (
	// End is an address with a port.
	End = abiHeelsEnd
	// Control is the one entry that steers the programs.
	Control = abiHeelsControl
	// ClientVIP is a VIP of the client.
	ClientVIP = abiHeelsClientVip
	// ServerVIP is a VIP of the server.
	ServerVIP = abiHeelsServerVip
	// Prefix is a prefix in one of a VIP's sets.
	Prefix = abiHeelsPrefix
	// Backend is a VIP and one of its servers.
	Backend = abiHeelsBackend
	// Traffic is what has gone to and from a backend.
	Traffic = abiHeelsTraffic
	// Conn is a connection as the iterators write it.
	Conn = abiHeelsConn
	// Ended is the end of a connection, of which its balancer is to be told.
	Ended = abiHeelsEnded
	// Tuple is both ends of a connection.
	Tuple = abiHeelsTuple
	// Cookie is what is kept of SYNs while the server answers with cookies.
	Cookie = abiHeelsCookie
	// Confirmed is a connection in confirm mode.
	Confirmed = abiHeelsConfirmed
	// Guessed is how many SYNs with wrong tags came to a VIP.
	Guessed = abiHeelsGuesses
	// Seen is a SYN with a tag that was taken.
	Seen = abiHeelsSeen
)

// What agent and kernel programs have agreed on. bpf/lib/heels.h documents each.
const (
	// ABI is the number of this version of the types.
	ABI = uint32(abiHeelsLimitsHEELS_ABI)
	// MaxClientVIPs and MaxServerVIPs are how many VIPs a role can have.
	MaxClientVIPs = int(abiHeelsLimitsHEELS_CLIENT_VIPS)
	MaxServerVIPs = int(abiHeelsLimitsHEELS_SERVER_VIPS)
	// MaxPrefixes is how many prefixes all VIPs of a role can have.
	MaxPrefixes = int(abiHeelsLimitsHEELS_PREFIXES)
	// MaxRoutes is how many routes to clients there can be.
	MaxRoutes = int(abiHeelsLimitsHEELS_ROUTES)
	// MaxKeys is how many keys are accepted at a time: while they are exchanged, the old and the new one.
	MaxKeys = int(abiHeelsLimitsHEELS_KEYS)
	// Guesses and GuessesEach are how many wrong tags of a VIP, and of one client, are looked at in a second.
	Guesses     = uint64(abiHeelsLimitsHEELS_GUESSES)
	GuessesEach = uint64(abiHeelsLimitsHEELS_GUESSES_EACH)
)

// The flags of the control entry.
const (
	FlagClientDraining = uint32(abiHeelsFlagsHEELS_CLIENT_DRAINING)
	FlagServerDraining = uint32(abiHeelsFlagsHEELS_SERVER_DRAINING)
	FlagServerConfirms = uint32(abiHeelsFlagsHEELS_SERVER_CONFIRMS)
	FlagIncomplete     = uint32(abiHeelsFlagsHEELS_INCOMPLETE)
)

// Set is one of the sets of prefixes that VIPs have.
type Set = abiHeelsSet

// The sets of prefixes.
const (
	SetBackends  = abiHeelsSetHEELS_BACKENDS_OF
	SetBalancers = abiHeelsSetHEELS_BALANCERS
	SetClients   = abiHeelsSetHEELS_CLIENTS
	SetRouted    = abiHeelsSetHEELS_ROUTED
)

// How a balancer delivers SYNs.
const (
	ModeEncapsulated = uint32(abiHeelsModeHEELS_ENCAPSULATED)
	ModeRewritten    = uint32(abiHeelsModeHEELS_REWRITTEN)
	ModePreserved    = uint32(abiHeelsModeHEELS_PRESERVED)
)

// The states of connections.
const (
	FlowOffered  = uint32(abiHeelsFlowStateHEELS_FLOW_OFFERED)
	FlowDirect   = uint32(abiHeelsFlowStateHEELS_FLOW_DIRECT)
	FlowFallback = uint32(abiHeelsFlowStateHEELS_FLOW_FALLBACK)
	FlowWaiting  = uint32(abiHeelsFlowStateHEELS_FLOW_WAITING)
)

// Order turns a port from host to network order, and back.
func Order(port uint16) uint16 { return bits.ReverseBytes16(port) }

// EndOf is the end that a stands for.
func EndOf(a netip.AddrPort) End {
	return End{Addr: a.Addr().As16(), Port: Order(a.Port())}
}

// AddrPort is the address that e stands for, IPv4 without its prefix.
func AddrPort(e End) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16(e.Addr).Unmap(), Order(e.Port))
}

// PrefixOf is the key of a prefix in one of a VIP's sets.
func PrefixOf(set Set, vip uint32, p netip.Prefix) Prefix {
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	return Prefix{Length: uint32(64 + bits), Set: uint32(set), Vip: vip, Addr: p.Masked().Addr().As16()}
}

// Word reads 4 bytes as the kernel programs do.
func Word(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }

// Monotonic is CLOCK_MONOTONIC in ns, the kernel programs' clock.
func Monotonic() uint64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // never fails for this clock
	return uint64(ts.Nano())
}
