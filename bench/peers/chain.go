// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"net/netip"

	"github.com/xlb-project/xlb/bench/chain"
)

// First addresses of the services on the host, and of what clients know them by.
var (
	FirstService = netip.MustParseAddrPort("127.81.0.1:9000")
	FirstVirtual = ServiceAddress
)

// Virtual are listeners of n services with an endpoint each.
func Virtual(n int) []Listener {
	listeners := make([]Listener, n)
	for i, address := range chain.Addresses(FirstVirtual, n) {
		listeners[i] = Listener{Name: fmt.Sprintf("service%d", i), Address: address, Endpoints: chain.Addresses(FirstService, n)[i : i+1]}
	}
	return listeners
}

// NextOf is whom each of n services of a chain asks; the last one asks nobody.
func (p Peer) NextOf(n int) []netip.AddrPort {
	next := make([]netip.AddrPort, n)
	first := FirstVirtual
	if p.Name == Direct {
		first = FirstService
	}
	copy(next, chain.Addresses(first, n)[1:])
	return next
}

// CrowdFront is the first address that clients of a peer connect to.
func (p Peer) CrowdFront() netip.AddrPort {
	if p.Name == Direct {
		return FirstService
	}
	return FirstVirtual
}
