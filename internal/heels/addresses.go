// SPDX-License-Identifier: Apache-2.0

package heels

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/xlb-project/xlb/internal/heels/settings"
)

// own are the addresses that a server has, at most one of each family.
type own struct{ v4, v6 netip.Addr }

// of is the address of the same family as a VIP, and the other one.
func (o own) of(vip netip.Addr) (same, other netip.Addr) {
	if vip.Is4() {
		return o.v4, o.v6
	}
	return o.v6, o.v4
}

// ownAddresses are those that the configuration names, and for the families that it does not name the first of its interfaces. A family that a VIP needs and
// that there is none of is refused.
func ownAddresses(c *settings.Config) (own, error) {
	o := own{c.Server.Address, c.Server.Address6}
	for _, name := range c.Interfaces {
		if o.v4.IsValid() && o.v6.IsValid() {
			break
		}
		found, err := addressesOf(name)
		if err != nil {
			return own{}, err
		}
		if !o.v4.IsValid() {
			o.v4 = found.v4
		}
		if !o.v6.IsValid() {
			o.v6 = found.v6
		}
	}
	for _, vip := range c.Server.VIPs {
		if same, _ := o.of(vip.VIP.Addr()); !same.IsValid() {
			return own{}, noAddress(vip.VIP.Addr(), "the VIP "+vip.VIP.String())
		}
		for _, p := range vip.Balancers {
			if same, _ := o.of(p.Addr()); !same.IsValid() {
				return own{}, noAddress(p.Addr(), "the balancers "+p.String())
			}
		}
	}
	return o, nil
}

func noAddress(like netip.Addr, whose string) error {
	return &settings.FieldError{Path: "server.address", Reason: fmt.Sprintf("required: no interface has an %s address, which %s need", settings.Family(like), whose)}
}

// addressesOf are the first addresses of an interface that others can reach.
func addressesOf(name string) (o own, err error) {
	link, err := net.InterfaceByName(name)
	if err != nil {
		return own{}, settings.InterfaceError(name, err)
	}
	addrs, err := link.Addrs()
	if err != nil {
		return own{}, settings.InterfaceError(name, err)
	}
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		switch {
		case err != nil:
		case p.Addr().Is4() && !o.v4.IsValid():
			o.v4 = p.Addr()
		case p.Addr().Is6() && !p.Addr().IsLinkLocalUnicast() && !o.v6.IsValid():
			o.v6 = p.Addr()
		}
	}
	return o, nil
}
