// SPDX-License-Identifier: Apache-2.0

// Package listeners translates listeners of Envoy. One of them may become several: one for each of its addresses, and for each set of destinations
// that its filter chains tell apart (chains.go). Chains among which the first bytes of a connection decide become one (inspector.go). What
// a chain has for a filter is a TCP proxy (tcp.go), or a connection manager (package routes).
//
// Paths are those of the fields, in Envoy's names from the root of the document. What cannot be served is a problem at its path (routes.Scope);
// the listener is not put in force then.
package listeners

import (
	"cmp"
	"fmt"
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xlb-project/xlb/internal/config/routes"
	"github.com/xlb-project/xlb/internal/config/values"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/problem"
)

// Translated is the result for one of Envoy's listeners.
type Translated struct {
	// Listeners are in order: that at the listener's own address first.
	Listeners []*model.Listener
	// TellsOriginal: Envoy knows for these where a client meant to go, as clusters of type ORIGINAL_DST need it.
	TellsOriginal bool
	// LeftAlone are the addresses at which XLB leaves the listener alone, and why.
	LeftAlone []model.Passed
}

// Translate translates a listener at that path, with its routes (Listener). Of the scope it sets Address and Many itself.
func Translate(in routes.Scope, l *listenerv3.Listener, path string) Translated {
	t := &translator{Reader: in.Values, p: in.Values.Problems(), in: in, telling: map[*model.Listener]bool{}}
	out := Translated{Listeners: t.all(l, path)}
	out.TellsOriginal, out.LeftAlone = len(out.Listeners) > 0 && t.telling[out.Listeners[0]], t.leftAlone
	return out
}

// translator translates one listener.
type translator struct {
	*values.Reader
	p  *problem.List
	in routes.Scope
	// telling are the listeners for which TellsOriginal holds.
	telling map[*model.Listener]bool
	// chosen is the filter chain that is being translated; many: it is for many destinations.
	chosen    *chainAt
	many      bool
	leftAlone []model.Passed
}

// all makes the listeners of one of Envoy's: one, or where it has more addresses or filter chains for certain destinations, several.
func (t *translator) all(l *listenerv3.Listener, path string) []*model.Listener {
	before := len(t.p.All())
	out := t.listenersAt(l, path)
	more := t.moreAddresses(l, path)
	if len(t.p.All()) > before {
		// It would be the same with the others.
		return out
	}
	for _, address := range more {
		same, ok := proto.Clone(l).(*listenerv3.Listener)
		if !ok {
			continue
		}
		same.Name, same.Address = cmp.Or(l.GetName(), t.Address(l.GetAddress(), path).String()), address
		for _, at := range t.listenersAt(same, path) {
			if at.Source == "" {
				at.Source, at.Name = same.GetName(), fmt.Sprintf("%s (%s)", same.GetName(), at.Destinations())
			}
			out = append(out, at)
		}
	}
	return out
}

// moreAddresses are those that a listener has beside its own: additional_addresses, and for IPv4 that of a socket at :: with ipv4_compat.
func (t *translator) moreAddresses(l *listenerv3.Listener, path string) []*corev3.Address {
	own := l.GetAddress()
	var out []*corev3.Address
	for i, a := range l.GetAdditionalAddresses() {
		t.Address(a.GetAddress(), problem.At(path+".additional_addresses", i)+".address")
		out = append(out, a.GetAddress())
	}
	for _, a := range append([]*corev3.Address{own}, out...) {
		socket := a.GetSocketAddress()
		ip, err := netip.ParseAddr(socket.GetAddress())
		if err != nil || ip.Is4() || !socket.GetIpv4Compat() {
			continue
		}
		if ip != netip.IPv6Unspecified() {
			t.p.Add(path, "%s with ipv4_compat, which Envoy refuses; it belongs to ::", ip)
			continue
		}
		out = append(out, &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: netip.IPv4Unspecified().String(), PortSpecifier: socket.GetPortSpecifier(),
		}}})
	}
	return out
}

func (t *translator) listener(l *listenerv3.Listener, path string) *model.Listener {
	addressPath := path + ".address"
	out := &model.Listener{
		Name:    l.GetName(),
		Address: t.Address(l.GetAddress(), addressPath),
		Routes:  &model.RouteTable{},
	}
	if a := out.Address.Addr(); a.IsValid() && a.IsMulticast() {
		t.p.Add(addressPath, "%s is no service address: name the address that clients connect to, one listener for each", a)
	}
	if out.Name == "" {
		out.Name = out.Address.String()
	}
	t.telling[out] = t.tellsOriginal(l, path)
	if out.Address.IsValid() && out.Address.Addr().IsUnspecified() && !t.many {
		t.bind(out, l, path)
	}
	if t.chosen.chain == nil {
		return out
	}
	if proxy, proxyPath := t.tcpProxyOf(); proxy != nil {
		out.StatPrefix = proxy.GetStatPrefix()
		out.TCP = t.tcpProxy(proxy, proxyPath)
		return out
	}
	if hcm, hcmPath := t.connectionManager(); hcm != nil {
		out.StatPrefix = hcm.GetStatPrefix()
		out.Routes = routes.Manager(t.routeScope(out.Address), hcm, hcmPath)
	}
	return out
}

// routeScope is that of the routes of a listener at that address.
func (t *translator) routeScope(address netip.AddrPort) routes.Scope {
	out := t.in
	out.Address, out.Many = address, t.many
	return out
}

// connectionManager finds the one filter of the filter chain.
func (t *translator) connectionManager() (*hcmv3.HttpConnectionManager, string) {
	path := t.chosen.path + ".filters"
	filters := t.chosen.chain.GetFilters()
	if len(filters) != 1 {
		t.p.Add(path, "has %d filters; XLB needs exactly one, the HTTP connection manager or the TCP proxy", len(filters))
		return nil, ""
	}
	path += "[0].typed_config"
	hcm := &hcmv3.HttpConnectionManager{}
	if !t.Unpack(filters[0].GetTypedConfig(), hcm, path, "HttpConnectionManager") {
		return nil, ""
	}
	return hcm, path
}

// bind makes a listener at 0.0.0.0 or :: one that the daemon binds.
func (t *translator) bind(out *model.Listener, l *listenerv3.Listener, path string) {
	out.Bound = true
	out.Unlimited = l.GetBypassOverloadManager()
	if t.telling[out] {
		t.p.Add(path+".listener_filters", "original_dst at %s: a client that the kernel has not sent here has meant this host; name the address that clients connect to", out.Address.Addr())
	}
}
