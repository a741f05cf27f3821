// SPDX-License-Identifier: Apache-2.0

package values

import (
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Address translates a socket address with an IP address in it (Address.socket_address). It returns the zero value after a problem.
func (r *Reader) Address(a *corev3.Address, path string) netip.AddrPort {
	host, port, ok := r.HostPort(a, path)
	if !ok {
		return netip.AddrPort{}
	}
	ip := r.IP(host, path+".socket_address.address")
	if !ip.IsValid() {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ip, port)
}

// HostPort translates a socket address, which may have a name in place of an IP address. The port is 1 to 65535; ok is false after a problem.
func (r *Reader) HostPort(a *corev3.Address, path string) (host string, port uint16, ok bool) {
	socket := a.GetSocketAddress()
	if socket == nil {
		r.p.Add(path, "missing: XLB needs a socket_address")
		return "", 0, false
	}
	path += ".socket_address"
	switch n := socket.GetPortValue(); {
	case n == 0:
		r.p.Add(path+".port_value", "port 0: name the port, 1 to 65535")
		return "", 0, false
	case n > 65535: // a violation of Envoy's constraint, reported as such
		return "", 0, false
	default:
		return socket.GetAddress(), uint16(n), true
	}
}

// IP parses an address as Envoy does (SocketAddress.address), and refuses the forms for which kernel and user space would disagree about what a
// connection's address is. It returns the zero value after a problem.
func (r *Reader) IP(host, path string) netip.Addr {
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		r.p.Add(path, "%q is no IP address; names need a cluster of type STRICT_DNS or LOGICAL_DNS", host)
	case ip.Zone() != "":
		r.p.Add(path, "%q: addresses with a zone are not supported; use one of a wider scope", host)
	case ip.Is4In6():
		r.p.Add(path, "%q: an IPv4 address in IPv6 form; write %s", host, ip.Unmap())
	default:
		return ip
	}
	return netip.Addr{}
}
