// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"github.com/xlb-project/xlb/bench/chain"
	"github.com/xlb-project/xlb/bench/lab"
	loadgen "github.com/xlb-project/xlb/bench/load"
	"github.com/xlb-project/xlb/bench/wrk"
)

const (
	// neighbourPort is that of the neighbour's endpoint.
	neighbourPort = 9050
	// noiseBefore is how long the neighbour is at work before anything is measured, in whole seconds.
	noiseBefore = time.Second
)

// neighbourVirtual is where the neighbour's clients connect to.
var neighbourVirtual = chain.Addresses(firstVirtual, 2)[1]

// neighbour is the endpoint of another service.
func (b *bed) neighbour() netip.AddrPort {
	return netip.AddrPortFrom(b.lab.EndpointAddress(), neighbourPort)
}

// neighbourSidecars are two Envoys, of the watched clients and of the others.
func (p peer) neighbourSidecars() peer {
	p.serves = nil
	p.processes = []process{densitySidecar(0), densitySidecar(1)}
	return p
}

// stageInterference starts the neighbour's endpoint.
func (b *bed) stageInterference(ctx context.Context, p peer) (s staged, err error) {
	s.peer = p
	if p.name == peerSidecars {
		s.peer = p.neighbourSidecars()
	}
	b.site.listeners = []listener{
		{Name: "watched", Address: serviceAddress, Endpoints: b.site.endpoints},
		{Name: "neighbour", Address: neighbourVirtual, Endpoints: []netip.AddrPort{b.neighbour()}},
	}
	endpoint := process{
		name: "neighbour", tool: "nginx", template: "endpoint.conf.tmpl", host: lab.ServerHost, args: nginxArgs,
		settings: func(site) settings {
			return settings{Listeners: []listener{{Name: "neighbour", Address: b.neighbour()}}}
		},
	}
	running, err := b.start(endpoint, lab.Endpoint)
	if err != nil {
		return s, err
	}
	s.processes = []*lab.Process{running}
	return s, b.waitReady(ctx, "http://"+b.neighbour().String()+"/", running)
}

// generateWatched lets the neighbour's clients ask as fast as they can, and those who are watched at their rate meanwhile. The report is that of
// the watched alone.
func (b *bed) generateWatched(ctx context.Context, l load, targets []netip.AddrPort, d time.Duration) (loadgen.Report, error) {
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
	report, err := b.generateAtRate(ctx, targets, l.Rate, l.Connections, generators, d)
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
func (b *bed) startNoise(l load, targets []netip.AddrPort, d time.Duration) (*lab.Process, error) {
	tool, err := b.tools.find("wrk")
	if err != nil {
		return nil, err
	}
	target := b.neighbour()
	if targets[0] == serviceAddress {
		target = neighbourVirtual
	}
	return b.lab.Start(lab.Command{Name: "noise", Path: tool, Role: lab.Client, Args: []string{
		"--threads", "1", "--connections", strconv.Itoa(l.Noise), "--duration", fmt.Sprintf("%ds", int(d.Seconds())),
		"--script", filepath.Join(b.site.dir, wrkScript), "http://" + target.String() + "/",
	}})
}
