// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"slices"

	"github.com/xlb-project/xlb/bench/cases"
)

// servesApps reports whether a peer can stand between an application's services.
func (p Peer) servesApps() bool {
	return slices.Contains([]string{Direct, XLB, Envoy, Envoy2}, p.Name)
}

// balancesLeast reports whether a peer balances over the endpoints by requests under way, in one hop.
func (p Peer) balancesLeast() bool {
	return p.Name != Direct && p.Name != Envoy2 && !p.IsFilter()
}

// knowsRoutes reports whether the benchmark can give the peer a table of routes, or the peer needs none.
func (p Peer) knowsRoutes() bool {
	return p.Name == XLB || p.Name == Envoy || p.Name == Direct
}

// takesRules reports whether a peer can have so many unrelated services.
func (p Peer) takesRules(l cases.Load) bool {
	switch p.Name {
	case Direct, XLB, Envoy, NftMap:
		return true
	case Nft:
		return l.Rules <= nftMost
	}
	return false
}

// TakesPart reports whether a peer is measured under a load.
func (p Peer) TakesPart(l cases.Load) bool {
	if p.Name == Spread {
		return l.Spreads()
	}
	if l.IsScaled() {
		return p.takesPartScaled(l)
	}
	switch l.Case {
	case cases.Bookstore, cases.Bank:
		return p.servesApps()
	case cases.Routes:
		return p.knowsRoutes()
	case cases.Least:
		return p.balancesLeast()
	}
	return p.Name != Sidecars && !p.IsFilter()
}

// takesPartScaled reports whether a peer is measured under a load of these cases.
func (p Peer) takesPartScaled(l cases.Load) bool {
	switch l.Case {
	case cases.Density:
		return p.Name != Envoy2 && !p.IsFilter()
	case cases.Interference:
		return p.Name == Direct || p.Name == XLB || p.Name == Envoy || p.Name == Sidecars
	case cases.Rules:
		return p.takesRules(l)
	case cases.Changes:
		return p.Name == XLB || p.Name == Envoy
	}
	return p.Name != Sidecars && !p.IsFilter()
}
