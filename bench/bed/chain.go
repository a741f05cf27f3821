// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/chain"
	"github.com/xlb-project/xlb/bench/lab"
	"github.com/xlb-project/xlb/bench/peers"
)

// stageChain starts the services of a chain.
func (b *Bed) stageChain(ctx context.Context, p peers.Peer, l cases.Load) (s staged, err error) {
	s.peer = p
	b.site.Listeners, b.site.Front = peers.Virtual(l.Hops), []netip.AddrPort{peers.FirstService}
	if p.Name == peers.Envoy2 {
		s.peer = p.Meshed(l.Hops)
	}
	for i, address := range chain.Addresses(peers.FirstService, l.Hops) {
		args := []string{"service", "--listen", address.String()}
		if next := p.NextOf(l.Hops)[i]; next.IsValid() {
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
func (b *Bed) startService(ctx context.Context, address netip.AddrPort, args []string) (*lab.Process, error) {
	running, err := b.start(peers.OwnServer("service", args...), lab.Endpoint)
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
