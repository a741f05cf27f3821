// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/xlb-project/xlb/bench/chain"
	"github.com/xlb-project/xlb/bench/lab"
)

// First addresses of the services on the host, and of what clients know them by.
var (
	firstService = netip.MustParseAddrPort("127.81.0.1:9000")
	firstVirtual = serviceAddress
)

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
	first := firstVirtual
	if p.name == peerDirect {
		first = firstService
	}
	copy(next, chain.Addresses(first, n)[1:])
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
