// SPDX-License-Identifier: Apache-2.0

package bed

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/xlb-project/xlb/bench/cases"
	"github.com/xlb-project/xlb/bench/chain"
	"github.com/xlb-project/xlb/bench/clients"
	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
	"github.com/xlb-project/xlb/bench/peers"
	"github.com/xlb-project/xlb/bench/wrk"
)

const (
	// neighbourPort is that of the neighbour's endpoint.
	neighbourPort = 9050
	// noiseBefore is how long the neighbour is at work before anything is measured, in whole seconds.
	noiseBefore = time.Second
)

// neighbourVirtual is where the neighbour's clients connect to.
var neighbourVirtual = chain.Addresses(peers.FirstVirtual, 2)[1]

// neighbour is the endpoint of another service.
func (b *Bed) neighbour() netip.AddrPort {
	return netip.AddrPortFrom(b.Lab.EndpointAddress(), neighbourPort)
}

// stageInterference starts the neighbour's endpoint.
func (b *Bed) stageInterference(ctx context.Context, p peers.Peer) (s staged, err error) {
	s.peer = p
	if p.Name == peers.Sidecars {
		s.peer = p.NeighbourSidecars()
	}
	b.site.Listeners = []peers.Listener{
		{Name: "watched", Address: peers.ServiceAddress, Endpoints: b.site.Endpoints},
		{Name: "neighbour", Address: neighbourVirtual, Endpoints: []netip.AddrPort{b.neighbour()}},
	}
	endpoint := peers.Answering("neighbour", func(peers.Site) netip.AddrPort { return b.neighbour() })
	running, err := b.start(endpoint, lab.Endpoint)
	if err != nil {
		return s, err
	}
	s.processes = []*lab.Process{running}
	return s, b.waitReady(ctx, "http://"+b.neighbour().String()+"/", running)
}

// generateWatched lets the neighbour's clients ask as fast as they can, and those who are watched at their rate meanwhile. The report is that of
// the watched alone.
func (b *Bed) generateWatched(ctx context.Context, l cases.Load, targets []netip.AddrPort, d time.Duration) (loadgen.Report, error) {
	b.noise = 0
	var noise *lab.Process
	if l.Noise > 0 {
		var err error
		if noise, err = b.startNoise(l, targets, d+2*noiseBefore); err != nil {
			return loadgen.Report{}, err
		}
		select {
		case <-time.After(noiseBefore):
		case <-ctx.Done():
			return loadgen.Report{}, errors.Join(ctx.Err(), noise.Stop())
		}
	}
	report, err := b.clients.AtRate(ctx, targets, l.Rate, l.Connections, clients.Generators, d)
	if noise == nil {
		return report, err
	}
	output, noiseErr := noise.Wait(ctx)
	if err := errors.Join(err, noiseErr); err != nil {
		return report, err
	}
	beside, err := wrk.Parse(output, l.Noise)
	b.noise = beside.Rate()
	return report, err
}

// startNoise sends to the neighbour: to its endpoint where the watched go to theirs.
func (b *Bed) startNoise(l cases.Load, targets []netip.AddrPort, d time.Duration) (*lab.Process, error) {
	target := b.neighbour()
	if targets[0] == peers.ServiceAddress {
		target = neighbourVirtual
	}
	return b.clients.StartWrk("noise", clients.WrkScript, "http://"+target.String()+"/", l.Noise, d)
}
