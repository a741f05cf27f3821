// SPDX-License-Identifier: Apache-2.0

package stand

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/xlb-project/xlb/test/heels/balancer"
)

// Rewriting is a balancer of nftables.
type Rewriting struct {
	// Masquerade also replaces the client's address by the balancer's. Without, servers answer by way of the balancer.
	Masquerade bool
	// OtherPorts: and the client's port by any other, where the kernel otherwise keeps it if it can.
	OtherPorts bool
}

// Service of a balancer: each server listens on Port.
type Service struct {
	VIP netip.AddrPort
	// Port of the servers; 0: the VIP's own.
	Port    uint16
	Servers []*Host
	// Across: outer headers are of the other family than the VIP.
	Across bool
}

func (s Service) port() uint16 {
	if s.Port == 0 {
		return s.VIP.Port()
	}
	return s.Port
}

// Rewrite has the lb rewrite addresses for services, all of one family. Called again it replaces the services; connections stay.
func (s *Stand) Rewrite(r Rewriting, services ...Service) error {
	for _, h := range []string{"nf_conntrack_tcp_timeout_syn_sent", "nf_conntrack_tcp_timeout_time_wait"} {
		// Connections that it saw the SYN of alone are forgotten soon.
		if err := s.LB.Sysctl("netfilter/"+h, "10"); err != nil {
			return err
		}
	}
	if err := s.LB.Sysctl("ipv4/ip_forward", "1"); err != nil {
		return err
	}
	if err := s.LB.Sysctl("ipv6/conf/all/forwarding", "1"); err != nil {
		return err
	}
	if err := s.LB.Sysctl("ipv4/conf/all/send_redirects", "0"); err != nil {
		return err
	}
	if _, err := s.LB.Run(ruleset(r, services), "nft", "-f", "-"); err != nil {
		return err
	}
	// What is for a VIP and belongs to no connection shall not go back where it came from.
	for family, vips := range map[string]netip.Prefix{"-4": vips4, "-6": vips6} {
		if _, err := s.LB.Run("", "ip", family, "route", "replace", "blackhole", vips.String()); err != nil {
			return err
		}
	}
	if r.Masquerade {
		return nil
	}
	return s.answersByLB()
}

func ruleset(r Rewriting, services []Service) string {
	var b strings.Builder
	for _, family := range []string{"ip", "ip6"} {
		fmt.Fprintf(&b, "table %s heels\ndelete table %s heels\n", family, family)
	}
	family, servers := "ip", Servers
	if services[0].VIP.Addr().Is6() {
		family, servers = "ip6", Servers6
	}
	fmt.Fprintf(&b, "table %s heels {\n\tchain before {\n\t\ttype nat hook prerouting priority dstnat;\n", family)
	for _, s := range services {
		var places []string
		for i, h := range s.Servers {
			address := h.Address()
			if s.VIP.Addr().Is6() {
				address = h.Address6()
			}
			places = append(places, fmt.Sprintf("%d : %s . %d", i, address, s.port()))
		}
		fmt.Fprintf(&b, "\t\t%s daddr %s tcp dport %d dnat %s to numgen inc mod %d map { %s }\n",
			family, s.VIP.Addr(), s.VIP.Port(), family, len(places), strings.Join(places, ", "))
	}
	b.WriteString("\t}\n")
	if r.Masquerade {
		b.WriteString("\tchain behind {\n\t\ttype nat hook postrouting priority srcnat;\n\t\t" + family + " daddr " + servers + " masquerade" + r.ports() + "\n\t}\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// ports says what becomes of the client's.
func (r Rewriting) ports() string {
	if r.OtherPorts {
		return " fully-random"
	}
	return ""
}

// answerTable is the router's table for what servers send from their own addresses.
const answerTable = 100

// answersByLB sends what servers answer from their own addresses to the lb, as a cloud does for a balancer that keeps the client's address.
func (s *Stand) answersByLB() error {
	return s.Router.Do(func() error {
		l, err := netlink.LinkByName(s.LB.Name)
		if err != nil {
			return err
		}
		for _, via := range []netip.Addr{s.LB.Address(), s.LB.Address6()} {
			r := &netlink.Route{LinkIndex: l.Attrs().Index, Table: answerTable, Dst: ipNet(netip.PrefixFrom(unspecified(via), 0)),
				Gw: via.AsSlice(), Flags: int(netlink.FLAG_ONLINK)}
			if err := netlink.RouteReplace(r); err != nil {
				return err
			}
		}
		for _, h := range s.Servers {
			for family, own := range map[int]netip.Addr{netlink.FAMILY_V4: h.Address(), netlink.FAMILY_V6: h.Address6()} {
				rule := netlink.NewRule()
				rule.Family, rule.Table, rule.Priority, rule.IifName = family, answerTable, answerTable, h.Name
				rule.Src = ipNet(netip.PrefixFrom(own, own.BitLen()))
				if err := netlink.RuleAdd(rule); err != nil && !strings.Contains(err.Error(), "exists") {
					return fmt.Errorf("rule for the answers of %s: %w", h.Name, err)
				}
			}
		}
		return nil
	})
}

// Encapsulate has the lb wrap packets for services with our own balancer, and servers take them out again: each has the VIPs on its
// loopback. The caller closes the balancer.
func (s *Stand) Encapsulate(how balancer.Encapsulation, services ...Service) (*balancer.Balancer, error) {
	b, err := balancer.New()
	if err != nil {
		return nil, err
	}
	if err := s.encapsulate(b, how, services); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// EncapsulateByKatran does it with the program of a checkout of Katran, by IPIP.
func (s *Stand) EncapsulateByKatran(source string, services ...Service) (*balancer.Balancer, error) {
	router, _, err := s.ends(s.LB)
	if err != nil {
		return nil, err
	}
	b, err := balancer.Katran(source, router)
	if err != nil {
		return nil, err
	}
	if err := s.encapsulate(b, balancer.IPIP, services); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

func (s *Stand) encapsulate(b *balancer.Balancer, how balancer.Encapsulation, services []Service) error {
	if how != balancer.IPIP {
		if err := b.Source(s.LB.Address(), s.LB.Address6()); err != nil {
			return err
		}
	}
	for _, service := range services {
		if err := b.Set(service.Encapsulated(how)); err != nil {
			return err
		}
	}
	err := s.Router.Do(func() error {
		l, err := netlink.LinkByName(s.LB.Name)
		if err != nil {
			return err
		}
		// A program sees checksums as they are, and sends them on so.
		return errors.Join(b.AttachReceiver(l.Attrs().Index), setOffloads(s.LB.Name, false, tcpSegmentation, transmitChecksums))
	})
	if err != nil {
		return err
	}
	index, err := s.LB.Index()
	if err != nil {
		return err
	}
	if err := s.LB.Do(func() error { return b.Attach(index) }); err != nil {
		return err
	}
	return s.unwrap(b, services)
}

// unwrap prepares the servers.
func (s *Stand) unwrap(b *balancer.Balancer, services []Service) error {
	for _, h := range s.Servers {
		index, err := h.Index()
		if err != nil {
			return err
		}
		if err := h.Do(func() error { return b.AttachUnwrap(index) }); err != nil {
			return err
		}
		var vips []netip.Addr
		for _, service := range services {
			if vip := service.VIP.Addr(); !slices.Contains(vips, vip) {
				vips = append(vips, vip)
			}
		}
		for _, vip := range vips {
			if err := h.AddAddress(vip); err != nil {
				return err
			}
		}
	}
	return nil
}

// Encapsulated is the service as our own balancer takes it.
func (s Service) Encapsulated(how balancer.Encapsulation) balancer.Service {
	out := balancer.Service{VIP: s.VIP, Encapsulation: how}
	for _, h := range s.Servers {
		address := h.Address()
		if s.VIP.Addr().Is6() != s.Across {
			address = h.Address6()
		}
		out.Servers = append(out.Servers, balancer.Server{Address: address})
	}
	return out
}
