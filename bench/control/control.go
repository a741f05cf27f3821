// SPDX-License-Identifier: Apache-2.0

// Package control is a control plane that never rests: it serves many services by the aggregated discovery service, changes the endpoints of one of
// them many times a second, and measures when its client has taken each change.
package control

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"

	"github.com/xlb-project/xlb/bench/load"
)

// flipPause is the time between two changes of the probed service's endpoint; a tenth of it more or less.
const flipPause = 500 * time.Millisecond

// Options of a control plane.
type Options struct {
	// Listen is where clients ask, Report where reports are fetched.
	Listen, Report netip.AddrPort
	// Front is the address of the listener that all services share: virtual hosts s0, s1, … and Probed.
	Front netip.AddrPort
	// Services have so many Endpoints each, at consecutive addresses from First on, which share its port. The probed service has one endpoint,
	// at First or at Other, in turns.
	Services, Endpoints int
	First, Other        netip.AddrPort
	// Rate is changes a second.
	Rate int
}

// Probed is the virtual host whose only endpoint changes.
const Probed = "probed"

// Validate returns what is wrong with the options.
func (o Options) Validate() error {
	if !o.Listen.IsValid() || !o.Report.IsValid() || !o.Front.IsValid() || !o.First.IsValid() || !o.Other.IsValid() {
		return errors.New("five addresses are needed: to listen at, for reports, of the listener, and of two servers")
	}
	if o.Services < 1 || o.Endpoints < 1 || o.Rate < 0 || o.Services*o.Endpoints > 1<<20 {
		return fmt.Errorf("%d services with %d endpoints, %d changes a second: at least one service and one endpoint are needed, 1,048,576 endpoints at most, and no negative rate",
			o.Services, o.Endpoints, o.Rate)
	}
	return nil
}

// Report is what was measured since the report before.
type Report struct {
	// Changes were made; Refused is the reason why the client has refused the newest that it refused.
	Changes int    `json:"changes"`
	Refused string `json:"refused,omitempty"`
	// Acknowledged counts changes by the microseconds until the client said that it had taken them.
	Acknowledged load.Histogram `json:"acknowledged"`
	// Flips are the changes of the probed service's endpoint.
	Flips []Flip `json:"flips"`
}

// Flip is a moment, by the clock of the machine, from which on a server alone is the probed service's endpoint.
type Flip struct {
	At    time.Time `json:"at"`
	Other bool      `json:"other"`
}

// Serve serves until ctx ends.
func Serve(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	p := newPlane(o)
	listener, err := net.Listen("tcp", o.Listen.String())
	if err != nil {
		return err
	}
	reports, err := net.Listen("tcp", o.Report.String())
	if err != nil {
		listener.Close()
		return err
	}
	s := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, server.NewServer(ctx, p.cache(), p.log.callbacks()))
	pages := &http.Server{Handler: http.HandlerFunc(p.serveReport), ReadHeaderTimeout: time.Second}
	defer context.AfterFunc(ctx, func() {
		s.Stop()
		pages.Close()
	})()
	go func() { _ = pages.Serve(reports) }()
	go p.change(ctx)
	go p.flip(ctx)
	return s.Serve(listener)
}

// plane has the state of all services; one goroutine changes those but the probed one.
type plane struct {
	o         Options
	endpoints *cache.LinearCache
	others    map[string]*cache.LinearCache
	// moved says of each endpoint whether it is at its second address.
	moved []bool
	log   *ledger
}

func newPlane(o Options) *plane {
	p := &plane{o: o, moved: make([]bool, o.Services*o.Endpoints), log: newLedger()}
	clusters, assignments := map[string]types.Resource{}, map[string]types.Resource{}
	for i := range o.Services {
		clusters[name(i)], assignments[name(i)] = clusterOf(name(i)), p.assignment(i)
	}
	clusters[Probed], assignments[Probed] = clusterOf(Probed), assignmentOf(Probed, o.First)
	p.endpoints = cache.NewLinearCache(resource.EndpointType, cache.WithInitialResources(assignments))
	p.others = map[string]*cache.LinearCache{
		resource.ClusterType:  cache.NewLinearCache(resource.ClusterType, cache.WithInitialResources(clusters)),
		resource.ListenerType: cache.NewLinearCache(resource.ListenerType, cache.WithInitialResources(map[string]types.Resource{"front": listenerOf(o.Front)})),
		resource.RouteType:    cache.NewLinearCache(resource.RouteType, cache.WithInitialResources(map[string]types.Resource{tableName: tableOf(o.Services)})),
	}
	return p
}

func name(i int) string { return fmt.Sprintf("s%d", i) }

func (p *plane) cache() cache.Cache {
	mux := &cache.MuxCache{
		Classify:      func(r *cache.Request) string { return r.GetTypeUrl() },
		ClassifyDelta: func(r *cache.DeltaRequest) string { return r.GetTypeUrl() },
		Caches:        map[string]cache.Cache{resource.EndpointType: p.endpoints},
	}
	for kind, c := range p.others {
		mux.Caches[kind] = c
	}
	return mux
}

// assignment of the i-th service.
func (p *plane) assignment(i int) types.Resource {
	all := p.o.Services * p.o.Endpoints
	addresses := make([]netip.AddrPort, p.o.Endpoints)
	for j := range addresses {
		n := i*p.o.Endpoints + j
		if p.moved[n] {
			n += all
		}
		addresses[j] = nth(p.o.First, n)
	}
	return assignmentOf(name(i), addresses...)
}

// change replaces one endpoint of one service by another one, again and again.
func (p *plane) change(ctx context.Context) {
	if p.o.Rate == 0 {
		return
	}
	draw := rand.New(rand.NewPCG(1, 2))
	ticker := time.NewTicker(time.Second / time.Duration(p.o.Rate))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		i := draw.IntN(p.o.Services)
		n := i*p.o.Endpoints + draw.IntN(p.o.Endpoints)
		p.moved[n] = !p.moved[n]
		p.log.changed(name(i))
		p.update(name(i), p.assignment(i))
	}
}

// flip has the probed service's endpoint change places.
func (p *plane) flip(ctx context.Context) {
	for other := true; ; other = !other {
		select {
		case <-ctx.Done():
			return
		case <-time.After(flipPause*9/10 + rand.N(flipPause/5)):
		}
		at := p.o.First
		if other {
			at = p.o.Other
		}
		p.log.flipped(other)
		p.update(Probed, assignmentOf(Probed, at))
	}
}

func (p *plane) update(name string, assignment types.Resource) {
	if err := p.endpoints.UpdateResource(name, assignment); err != nil {
		panic(fmt.Sprintf("the cache does not take %s: %v", name, err)) // It takes what is not nil.
	}
}
