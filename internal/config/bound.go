// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/xlb-project/xlb/internal/model"
)

// bind makes a listener at 0.0.0.0 or :: one that the daemon binds.
func (t *translator) bind(out *model.Listener, l *listenerv3.Listener, path string) {
	out.Bound = true
	out.Unlimited = l.GetBypassOverloadManager()
	if t.telling[out] {
		t.p.Add(path+".listener_filters", "original_dst at %s: a client that the kernel has not sent here has meant this host; name the address that clients connect to", out.Address.Addr())
	}
}

// adminAddress is address, where port 0 has the kernel choose.
func (t *translator) adminAddress(a *corev3.Address, path string) netip.AddrPort {
	if s := a.GetSocketAddress(); s != nil && s.GetPortValue() == 0 && s.GetNamedPort() == "" {
		if ip := t.IP(s.GetAddress(), path+".socket_address.address"); ip.IsValid() {
			return netip.AddrPortFrom(ip, 0)
		}
		return netip.AddrPort{}
	}
	return t.Address(a, path)
}
