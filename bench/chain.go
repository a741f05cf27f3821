// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/xlb-project/xlb/bench/chain"
	"github.com/xlb-project/xlb/bench/lab"
)

// First addresses of the services on the host, of what stands before each, and of the sides of their sidecars.
var (
	firstService  = netip.MustParseAddrPort("127.81.0.1:9000")
	firstVirtual  = serviceAddress
	firstInbound  = netip.MustParseAddrPort("127.82.0.1:8080")
	firstOutbound = netip.MustParseAddrPort("127.83.0.1:8080")
)

// meshAdmin is the port of the first service's sidecar's admin API; the next ones follow.
const meshAdmin = 9950

// meshSidecar is the Envoy of the i-th of n services: it takes what comes in for it, and what it asks the next one. It serves both sides.
func meshSidecar(i, n int) process {
	return process{
		name: fmt.Sprintf("mesh%d", i), tool: "envoy", template: "envoy.yaml.tmpl", args: envoyArgs,
		settings: func(site) settings {
			out := settings{Admin: netip.AddrPortFrom(adminAddress.Addr(), uint16(meshAdmin+i)), Listeners: []listener{
				{Name: "inbound", Address: chain.Addresses(firstInbound, n)[i], Endpoints: chain.Addresses(firstService, n)[i : i+1]},
			}}
			if i+1 < n {
				out.Listeners = append(out.Listeners, listener{
					Name: "outbound", Address: chain.Addresses(firstOutbound, n)[i], Endpoints: chain.Addresses(firstInbound, n)[i+1 : i+2],
				})
			}
			return out
		},
	}
}

// meshed is the peer with a sidecar at the client and at each of n services.
func (p peer) meshed(n int) peer {
	p.processes = nil
	for i := range n {
		p.processes = append(p.processes, meshSidecar(i, n))
	}
	p.processes = append(p.processes, process{
		name: "mesh-client", tool: "envoy", template: "envoy.yaml.tmpl", args: envoyArgs,
		settings: func(site) settings {
			return settings{Admin: adminAddress, Listeners: []listener{
				{Name: "outbound", Address: serviceAddress, Endpoints: chain.Addresses(firstInbound, 1)},
			}}
		},
	})
	return p
}

// virtual are listeners of n services with an endpoint each.
func virtual(n int) []listener {
	listeners := make([]listener, n)
	for i, address := range chain.Addresses(firstVirtual, n) {
		listeners[i] = listener{Name: fmt.Sprintf("service%d", i), Address: address, Endpoints: chain.Addresses(firstService, n)[i : i+1]}
	}
	return listeners
}

// nextOf is whom each of n services of a chain asks; the last one asks nobody.
func (p peer) nextOf(n int) []netip.AddrPort {
	next := make([]netip.AddrPort, n)
	switch p.name {
	case peerDirect:
		copy(next, chain.Addresses(firstService, n)[1:])
	case peerEnvoy2:
		copy(next, chain.Addresses(firstOutbound, n)[:n-1])
	default:
		copy(next, chain.Addresses(firstVirtual, n)[1:])
	}
	return next
}

// stageChain starts the services of a chain.
func (b *bed) stageChain(ctx context.Context, p peer, l load) (s staged, err error) {
	s.peer = p
	b.site.listeners, b.site.front = virtual(l.Hops), []netip.AddrPort{firstService}
	if p.name == peerEnvoy2 {
		s.peer = p.meshed(l.Hops)
	}
	for i, address := range chain.Addresses(firstService, l.Hops) {
		args := []string{"service", "--listen", address.String()}
		if next := p.nextOf(l.Hops)[i]; next.IsValid() {
			args = append(args, "--next", next.String())
		}
		running, err := b.startService(ctx, address, args)
		if err != nil {
			return s, err
		}
		s.processes = append(s.processes, running)
	}
	return s, nil
}

// startService starts a service of this very program and waits until it answers at address.
func (b *bed) startService(ctx context.Context, address netip.AddrPort, args []string) (*lab.Process, error) {
	running, err := b.start(process{
		name: "service", tool: toolSelf, host: lab.ServerHost, args: func(site, string) []string { return args },
	}, lab.Endpoint)
	if err != nil {
		return nil, err
	}
	if err := b.waitReady(ctx, "http://"+address.String()+chain.HerePath, running); err != nil {
		return nil, fmt.Errorf("%w%s", err, stopped(running))
	}
	return running, nil
}

// stopped stops a process and quotes what is wrong with that.
func stopped(p *lab.Process) string {
	if err := p.Stop(); err != nil {
		return "; " + err.Error()
	}
	return ""
}
