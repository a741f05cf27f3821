// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"net/netip"

	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/balance"
	"github.com/xlb-project/xlb/internal/dialer"
	"github.com/xlb-project/xlb/internal/handback"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/selection"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/upstream"
	"github.com/xlb-project/xlb/internal/workload"
)

// observer implements slowpath.Observer.
type observer struct{ r *metrics.Recorder }

// Observe implements slowpath.Observer.
func (o observer) Observe(r slowpath.Report) {
	// A response that the kernel had asked for: it has counted the request.
	if r.Listener == "" {
		return
	}
	o.r.Record(metrics.Request{Cluster: r.Cluster, Endpoint: r.Endpoint, Status: r.Status, Flag: r.Flag.String(), Resumed: r.Resumed, Sent: r.Sent})
}

// newProxy is that of a daemon with so many descriptors.
func (n *Node) newProxy(files int) *slowpath.Proxy {
	return slowpath.New(slowpath.Config{
		Active:      func() slowpath.Configuration { return n.activator.Generation() },
		AwaitSwitch: n.activator.AwaitSwitch,
		Balancer:    n.selector,
		Retrying:    n.selector.Retrying,
		Named:       n.selector.Named,
		Loads:       n.selector.Loads(),
		Dial:        n.dialer.Dial,
		DialInner:   n.dialer.Inner,
		Circled:     n.inner.Circled,
		Secure:      n.dialer.Secure,
		Observer:    observer{n.recorder},
		Crashes:     n.crashes,
		Logger:      n.log,
		Ledger:      n.ledger,
		Requests:    tableOf(maxRequests(files)),
		Idle:        tableOf(maxIdle(files)),
		Memory:      tableOf(maxBlocks),
	})
}

func (n *Node) newDialer() *dialer.Dialer {
	return dialer.New(dialer.Config{
		Congestion: n.o.CongestionControl, Generation: n.activator.Generation, Handshake: n.source.Handshake,
		DialInner: func(ctx context.Context, to netip.AddrPort, target anchor.BoundTo, from upstream.Origin) (*anchor.InnerConn, error) {
			return n.anchors.DialInner(ctx, to, target, from)
		},
		Admits:   func(open int) bool { return n.bound.Admits(open) },
		Workload: func(id workload.ID) *workload.Workload { return n.workloads.Get(id) },
	})
}

func (n *Node) newSelector() *selection.Selector {
	return selection.New(selection.Config{
		Generation: n.activator.Generation, AwaitSwitch: n.activator.AwaitSwitch, Picker: balance.New(n.datapath.Shared), Shared: n.datapath.Shared,
		RetryRoot: n.reconcil.RetryRoot,
		Done:      func(endpoint uint32, o slowpath.Outcome) { n.health.Done(endpoint, o) },
		Answered:  n.answered,
	})
}

// answered takes in that an endpoint which is out of service has answered a workload.
func (n *Node) answered(endpoint uint32, id workload.ID) {
	n.pool.Answered(endpoint, id)
	n.pool.Again(endpoint)
}

func (n *Node) newHandback() *handback.Handback {
	return handback.New(handback.Config{
		Shared: n.datapath.Shared, Generation: n.activator.Generation, Selector: n.selector, Proxy: n.proxy, Scheduler: n.scheduler, Health: n.health,
		Pool: func() handback.Pool { return n.pool }, Anchors: func() handback.Anchors { return n.anchors },
		Withheld: n.recorder.Withheld, Ledger: n.ledger, Crashes: n.crashes, Logger: n.log,
	})
}
