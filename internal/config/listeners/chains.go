// SPDX-License-Identifier: Apache-2.0

package listeners

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/xlb-project/xlb/internal/config/schema"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// inboundWhy says why a listener for connections from outside is passed over.
const inboundWhy = "traffic_direction INBOUND: it takes connections that come to this node, which XLB leaves alone; they reach their server unchanged"

// unbound reports a listener that takes connections only from another one.
func unbound(l *listenerv3.Listener) bool {
	return l.GetBindToPort() != nil && !l.GetBindToPort().GetValue()
}

// chainAt is a filter chain and its path.
type chainAt struct {
	chain *listenerv3.FilterChain
	path  string
}

// cell is a set of destinations that no filter chain tells apart, and those of a listener's chains that are for them.
type cell struct {
	// port is 0 for any but those of other cells, prefix invalid for a listener with an address.
	port   uint16
	prefix netip.Prefix
	chains []chainAt
	// base: the listener's other destinations.
	base bool
}

// listenersAt makes those at the listener's own address.
func (t *translator) listenersAt(l *listenerv3.Listener, path string) []*model.Listener {
	if schema.LeavesAlone(l) {
		t.leftAlone = append(t.leftAlone, model.Passed{Listener: l.GetName(), Address: t.Address(l.GetAddress(), path+".address"), Why: inboundWhy})
		return nil
	}
	address := t.Address(l.GetAddress(), path+".address")
	problems := len(t.p.All())
	if t.checkChains(l, path); len(t.p.All()) > problems {
		return []*model.Listener{{Name: cmp.Or(l.GetName(), address.String()), Address: address, Routes: &model.RouteTable{}}}
	}
	many := address.IsValid() && address.Addr().IsUnspecified() && (unbound(l) || l.GetUseOriginalDst().GetValue())
	if !many {
		cells := exactCell(l, address, path)
		return []*model.Listener{t.cellListener(l, cells, path)}
	}
	var out []*model.Listener
	for _, c := range manyCells(l, address, path) {
		out = append(out, t.cellListener(l, c, path))
	}
	return out
}

// chainsOf lists the filter chains of a listener.
func chainsOf(l *listenerv3.Listener, path string) []chainAt {
	var list []chainAt
	for i, c := range l.GetFilterChains() {
		list = append(list, chainAt{c, problem.At(path+".filter_chains", i)})
	}
	return list
}

// checkChains reports filter chains that Envoy refuses, or that XLB cannot tell apart.
func (t *translator) checkChains(l *listenerv3.Listener, path string) {
	if len(l.GetFilterChains()) == 0 && l.GetDefaultFilterChain() == nil {
		t.p.Add(path+".filter_chains", "empty; XLB needs a filter chain")
	}
	known := map[string]string{}
	for _, c := range chainsOf(l, path) {
		t.checkMatch(c)
		for _, key := range matchKeys(c.chain.GetFilterChainMatch()) {
			if other, twice := known[key]; twice && other != c.path {
				t.p.Add(c.path+".filter_chain_match", "matches what %s matches, which Envoy refuses; remove one of them", other)
				break
			}
			known[key] = c.path
		}
	}
	if m := l.GetDefaultFilterChain().GetFilterChainMatch(); len(matchKeys(m)) > 1 || m != nil && matchKeys(m)[0] != matchKeys(nil)[0] {
		t.p.Add(path+".default_filter_chain.filter_chain_match", "not supported: Envoy does not look at it; remove the field")
	}
}

func (t *translator) checkMatch(c chainAt) {
	m, path := c.chain.GetFilterChainMatch(), c.path+".filter_chain_match"
	for i, p := range m.GetPrefixRanges() {
		if !prefixOf(p).IsValid() {
			t.p.Add(problem.At(path+".prefix_ranges", i), "no IP address with a length that it can have")
		}
	}
	switch m.GetTransportProtocol() {
	case "", model.TransportTLS, model.TransportRaw:
	default:
		t.p.Add(path+".transport_protocol", "%q: XLB knows %s and %s", m.GetTransportProtocol(), model.TransportTLS, model.TransportRaw)
	}
	for i, name := range m.GetServerNames() {
		if suffix := model.SuffixOf(name); suffix == "" || suffix[0] == '*' || name[0] == '*' && suffix[0] != '.' {
			t.p.Add(problem.At(path+".server_names", i), "%q: XLB needs a name, or *. and the end of one", name)
		}
	}
}

func prefixOf(r *corev3.CidrRange) netip.Prefix {
	address, err := netip.ParseAddr(r.GetAddressPrefix())
	if err != nil {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(address.Unmap(), int(r.GetPrefixLen().GetValue())).Masked()
}

// matchKeys are the places that a match takes in Envoy's tables.
func matchKeys(m *listenerv3.FilterChainMatch) []string {
	var list []string
	each := func(names []string, do func(string)) {
		for _, name := range names {
			do(name)
		}
		if len(names) == 0 {
			do("")
		}
	}
	var prefixes []string
	for _, p := range m.GetPrefixRanges() {
		prefixes = append(prefixes, prefixOf(p).String())
	}
	each(prefixes, func(prefix string) {
		each(m.GetServerNames(), func(server string) {
			each(m.GetApplicationProtocols(), func(protocol string) {
				list = append(list, fmt.Sprintf("%d %s %q %q %q", m.GetDestinationPort().GetValue(), prefix, model.SuffixOf(server), m.GetTransportProtocol(), protocol))
			})
		})
	})
	return list
}

// forPort are the chains for a destination port: those that name it, or else those that name none.
func forPort(all []chainAt, port uint16) []chainAt {
	named := func(want uint32) []chainAt {
		var out []chainAt
		for _, c := range all {
			if c.chain.GetFilterChainMatch().GetDestinationPort().GetValue() == want {
				out = append(out, c)
			}
		}
		return out
	}
	if own := named(uint32(port)); port != 0 && len(own) > 0 {
		return own
	}
	return named(0)
}

// forPrefix are those of the chains that name a prefix; an invalid one: those that name none.
func forPrefix(all []chainAt, prefix netip.Prefix) []chainAt {
	var out []chainAt
	for _, c := range all {
		ranges := c.chain.GetFilterChainMatch().GetPrefixRanges()
		if len(ranges) == 0 && !prefix.IsValid() || slices.ContainsFunc(ranges, func(r *corev3.CidrRange) bool { return prefixOf(r) == prefix }) {
			out = append(out, c)
		}
	}
	return out
}

// prefixesOf are the prefixes that chains name, the longest first.
func prefixesOf(all []chainAt) []netip.Prefix {
	var out []netip.Prefix
	for _, c := range all {
		for _, r := range c.chain.GetFilterChainMatch().GetPrefixRanges() {
			out = append(out, prefixOf(r))
		}
	}
	slices.SortFunc(out, func(a, b netip.Prefix) int {
		return cmp.Or(cmp.Compare(b.Bits(), a.Bits()), a.Addr().Compare(b.Addr()))
	})
	return slices.Compact(out)
}

// exactCell is what a listener with an address has for it.
func exactCell(l *listenerv3.Listener, address netip.AddrPort, path string) cell {
	chains := forPort(chainsOf(l, path), address.Port())
	for _, prefix := range prefixesOf(chains) {
		if prefix.Contains(address.Addr().Unmap()) {
			return cell{chains: forPrefix(chains, prefix), base: true}
		}
	}
	return cell{chains: forPrefix(chains, netip.Prefix{}), base: true}
}

// manyCells is what a listener at 0.0.0.0 or :: has for all addresses: at its port, or with use_original_dst at any.
func manyCells(l *listenerv3.Listener, address netip.AddrPort, path string) []cell {
	all := chainsOf(l, path)
	ports := []uint16{address.Port()}
	if l.GetUseOriginalDst().GetValue() {
		ports = []uint16{0}
		for _, c := range all {
			if port := uint16(c.chain.GetFilterChainMatch().GetDestinationPort().GetValue()); !slices.Contains(ports, port) {
				ports = append(ports, port)
			}
		}
	}
	whole := netip.PrefixFrom(address.Addr(), 0)
	var cells []cell
	for i, port := range ports {
		chains := forPort(all, port)
		base := cell{port: port, prefix: whole, chains: forPrefix(chains, netip.Prefix{}), base: i == 0}
		for _, prefix := range prefixesOf(chains) {
			switch {
			case prefix == whole:
				// It says the same as none.
				base.chains = append(base.chains, forPrefix(chains, prefix)...)
			case prefix.Addr().Is4() == whole.Addr().Is4():
				cells = append(cells, cell{port: port, prefix: prefix, chains: forPrefix(chains, prefix)})
			}
		}
		cells = append(cells, base)
	}
	// The rest first: it has the listener's own name.
	slices.SortStableFunc(cells, func(a, b cell) int {
		switch {
		case a.base == b.base:
			return 0
		case a.base:
			return -1
		}
		return 1
	})
	return cells
}

// cellListener makes the listener of a cell.
func (t *translator) cellListener(l *listenerv3.Listener, c cell, path string) *model.Listener {
	out := t.serving(l, c, path)
	out.Unbound, out.CatchAll = unbound(l), l.GetUseOriginalDst().GetValue()
	if c.prefix.IsValid() {
		out.Address, out.Many = netip.AddrPortFrom(c.prefix.Addr(), c.port), c.prefix
		if out.TCP == nil && c.port == 0 && out.Routes.Host.Port != 0 {
			t.p.Add(path, "strip_matching_host_port with use_original_dst: XLB knows no port to strip; write a listener for each port")
		}
	}
	if !c.base {
		out.Source = out.Name
		out.Name = fmt.Sprintf("%s (%s)", out.Source, out.Destinations())
	}
	t.telling[out] = t.telling[out] || out.Unbound || out.CatchAll
	return out
}

// closed is what becomes of connections that no filter chain is for.
func closed() *model.TCPProxy {
	return &model.TCPProxy{ConnectAttempts: 1, Clusters: []model.WeightedCluster{{Weight: 1, Missing: true}}}
}

// serving translates the chains of a cell.
func (t *translator) serving(l *listenerv3.Listener, c cell, path string) *model.Listener {
	var otherwise *chainAt
	if l.GetDefaultFilterChain() != nil {
		otherwise = &chainAt{l.GetDefaultFilterChain(), path + ".default_filter_chain"}
	}
	looks := t.inspection(l, path)
	switch {
	case len(c.chains) == 0 && otherwise != nil:
		return t.chainListener(l, *otherwise, c, path)
	case len(c.chains) == 0:
		out := t.chainListener(l, chainAt{}, c, path)
		out.TCP = closed()
		return out
	case len(c.chains) == 1 && !tellsApart(c.chains[0]):
		return t.chainListener(l, c.chains[0], c, path)
	}
	return t.inspected(l, c, otherwise, looks, path)
}

// tellsApart reports whether the first bytes decide about a chain.
func tellsApart(c chainAt) bool {
	m := c.chain.GetFilterChainMatch()
	return len(m.GetServerNames()) > 0 || m.GetTransportProtocol() != "" || len(m.GetApplicationProtocols()) > 0
}

// inspected makes a listener of chains among which the first bytes decide.
func (t *translator) inspected(l *listenerv3.Listener, c cell, otherwise *chainAt, looks *model.Inspection, path string) *model.Listener {
	// http has the routes, first is what the first chain has.
	var http, first *model.Listener
	take := func(at chainAt) model.Chain {
		m, made := at.chain.GetFilterChainMatch(), t.chainListener(l, at, c, path)
		first = cmp.Or(first, made)
		if made.TCP == nil {
			if http != nil {
				t.p.Add(at.path, "a second HTTP connection manager for the same destination; XLB needs one")
			}
			http = made
		}
		chain := model.Chain{Transport: m.GetTransportProtocol(), Protocols: m.GetApplicationProtocols(), TCP: made.TCP}
		for _, name := range m.GetServerNames() {
			chain.ServerNames = append(chain.ServerNames, model.SuffixOf(name))
		}
		return chain
	}
	for _, at := range c.chains {
		looks.Chains = append(looks.Chains, take(at))
	}
	if otherwise != nil {
		chain := take(*otherwise)
		looks.Otherwise = &chain
	}
	plain, served := looks.Serves(&model.Opening{Protocols: httpAsSeen(looks)})
	if http != nil && !served {
		t.p.Add(path+".filter_chains", "the HTTP connection manager does not get plain HTTP/1.1, and XLB serves nothing else; correct filter_chain_match")
	}
	if looks.TLS || looks.HTTP {
		out := cmp.Or(http, first)
		out.Inspection = looks
		return out
	}
	// All connections look alike.
	if served {
		return http
	}
	first.TCP, first.Routes = plain, &model.RouteTable{}
	if plain == nil {
		first.TCP = closed()
	}
	return first
}

// httpAsSeen is what a connection with plain HTTP/1.1 shows.
func httpAsSeen(looks *model.Inspection) []string {
	if looks.HTTP {
		return []string{model.ProtocolHTTP11}
	}
	return nil
}

// chainListener translates one chain.
func (t *translator) chainListener(l *listenerv3.Listener, chain chainAt, c cell, path string) *model.Listener {
	t.chosen, t.many = &chain, c.prefix.IsValid()
	defer func() { t.chosen, t.many = nil, false }()
	return t.listener(l, path)
}
