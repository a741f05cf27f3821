// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath/conns"
	"github.com/xlb-project/xlb/internal/slowpath/tunnel"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/usage"
)

var errNoEndpoint = errors.New("no endpoint could be connected to")

// serveTCP connects a client to an endpoint, and moves bytes both ways until both directions have ended, or one has failed. It
// closes the client's connection: in the manner of the endpoint's, or, where none can be had, as of no cluster at all (nil), or its workload has as many as it may, as Envoy does.
func (p *Proxy) serveTCP(ctx context.Context, client net.Conn, s Session, proxy *model.TCPProxy, cluster *model.Cluster, first []byte) (Result, error) {
	entry, ok := p.quotas.enter(&s)
	if !ok {
		_ = client.Close()
		return Result{}, errOverQuota
	}
	defer entry.giveBack()
	upstream, endpoint, err := p.connectTCP(ctx, proxy, cluster, s)
	if err != nil {
		_ = client.Close()
		return Result{}, err
	}
	defer endpoint.Done(Outcome{TCP: true})
	defer context.AfterFunc(ctx, func() { conns.Abort(upstream) })()
	down := ticketOf(s.Ticket)
	up := down.Another()
	count := p.countingFor(usage.Destination{Workload: s.workload(), Cluster: cluster.Name}, down, up)
	consumed, answered, err := tunnel.Run(&tunnel.Config{
		Client: client, Endpoint: upstream, First: first, Idle: proxy.IdleTimeout, Down: down, Up: up, Crashes: p.config.Crashes,
		Moved: func(consumed, answered uint64) {
			count(usage.Traffic{RequestBytes: consumed, ResponseBytes: answered})
		},
	})
	return Result{Consumed: consumed, Answered: answered}, err
}

// countingFor has the ledger count the time of tickets, and what the function is called with, by any goroutine. A connection may last longer than the ledger
// knows its cluster, and the cluster be there again.
func (p *Proxy) countingFor(to usage.Destination, tickets ...*shares.Ticket) func(usage.Traffic) {
	var meter atomic.Pointer[usage.Meter]
	measure := func() *usage.Meter {
		m := p.config.Ledger.Meter(to)
		meter.Store(m)
		for _, t := range tickets {
			t.Measure(m)
		}
		return m
	}
	measure()
	return func(t usage.Traffic) {
		m := meter.Load()
		if !m.Counts() {
			m = measure()
		}
		m.Add(t)
	}
}

// connectTCP tries as many endpoints as the listener says, each once.
func (p *Proxy) connectTCP(ctx context.Context, proxy *model.TCPProxy, cluster *model.Cluster, s Session) (net.Conn, ChosenEndpoint, error) {
	if cluster == nil {
		return nil, nil, errNoEndpoint
	}
	var tried []netip.AddrPort
	failure := errNoEndpoint
	for range max(proxy.ConnectAttempts, 1) {
		endpoint, ok := p.pick(cluster, "", rand.Uint64(), s.Destination, func(a netip.AddrPort) bool { return slices.Contains(tried, a) })
		if !ok {
			return nil, nil, failure
		}
		if p.circles(cluster.Key(), endpoint, s.origin()) {
			endpoint.Done(Outcome{})
			return nil, nil, errCircle
		}
		conn, err := p.connectTo(ctx, endpoint, s, cluster)
		if err == nil {
			return conn.Conn, endpoint, nil
		}
		failure = err
		tried = append(tried, endpoint.Address())
	}
	return nil, nil, failure
}

// connectTo connects to an endpoint, whose use it ends unless there is a connection.
func (p *Proxy) connectTo(ctx context.Context, e ChosenEndpoint, s Session, cluster *model.Cluster) (conn *conns.Conn, err error) {
	o := Outcome{} // of a panic
	defer func() {
		if conn == nil {
			e.Done(o)
		}
	}()
	from := func() upstream.Origin { return s.connecting(cluster.View) }
	conn, err = p.conns.Connect(ctx, destinationOf(e, s.workload(), "", false, from), cluster.ConnectTimeout)
	o = Outcome{Err: err, ConnectFailed: true}
	return conn, err
}
