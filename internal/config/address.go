// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// address translates a socket address with an IP address in it. It returns the
// zero value after a problem.
func (t *translator) address(a *corev3.Address, path string) netip.AddrPort {
	host, port, ok := t.hostPort(a, path)
	if !ok {
		return netip.AddrPort{}
	}
	ip := t.ip(host, path+".socket_address.address")
	if !ip.IsValid() {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ip, port)
}

// hostPort checks what listeners and endpoints have in common.
func (t *translator) hostPort(a *corev3.Address, path string) (host string, port uint16, ok bool) {
	socket := a.GetSocketAddress()
	if socket == nil {
		t.p.Add(path, "missing: XLB needs a socket_address")
		return "", 0, false
	}
	path += ".socket_address"
	switch n := socket.GetPortValue(); {
	case n == 0:
		t.p.Add(path+".port_value", "port 0: name the port, 1 to 65535")
		return "", 0, false
	case n > 65535: // a violation of Envoy's constraint, reported as such
		return "", 0, false
	default:
		return socket.GetAddress(), uint16(n), true
	}
}

// ip parses an address as Envoy does, and refuses the forms for which kernel
// and user space would disagree about what a connection's address is.
func (t *translator) ip(host, path string) netip.Addr {
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		t.p.Add(path, "%q is no IP address; names need a cluster of type STRICT_DNS or LOGICAL_DNS", host)
	case ip.Zone() != "":
		t.p.Add(path, "%q: addresses with a zone are not supported; use one of a wider scope", host)
	case ip.Is4In6():
		t.p.Add(path, "%q: an IPv4 address in IPv6 form; write %s", host, ip.Unmap())
	default:
		return ip
	}
	return netip.Addr{}
}
