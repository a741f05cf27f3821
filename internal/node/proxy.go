// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/xlb-project/xlb/internal/balance"
	"github.com/xlb-project/xlb/internal/handback"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/selection"
	"github.com/xlb-project/xlb/internal/slowpath"
)

// observer implements slowpath.Observer.
type observer struct{ r *metrics.Recorder }

// Observe implements slowpath.Observer.
func (o observer) Observe(r slowpath.Report) {
	// A response that the kernel had asked for: it has counted the request.
	if r.Listener == "" {
		return
	}
	o.r.Record(metrics.Request{Cluster: r.Cluster, Endpoint: r.Endpoint, Status: r.Status, Flag: r.Flag.String(), Begun: r.Begun, Sent: r.Sent})
}

func (n *Node) newProxy() *slowpath.Proxy {
	return slowpath.New(slowpath.Config{
		Table: func(listener string) (*model.RouteTable, bool) { return n.generation.Load().Routes(listener) },
		Match: func(t *model.RouteTable, r *model.Request, pause func() (gone bool)) *model.Route {
			return n.generation.Load().Match(t, r, pause)
		},
		Inspection: func(listener string) *model.Inspection { return n.generation.Load().Inspection(listener) },
		TCP:        func(listener string) *model.TCPProxy { return n.generation.Load().TCP(listener) },
		Cluster:    func(name string) *model.Cluster { return n.generation.Load().Cluster(name) },
		Balancer:   n.selector,
		Retrying:   n.selector.Retrying,
		Named:      n.selector.Named,
		Load:       n.selector.Load,
		Dial:       n.dialer.dial,
		DialInner:  n.dialInner,
		Circled:    n.inner.Circled,
		Secure:     n.secure,
		Observer:   observer{n.recorder},
		Crashes:    n.crashes,
		Logger:     n.log,
	})
}

func (n *Node) newSelector() *selection.Selector {
	return selection.New(selection.Config{
		Generation: n.generation.Load, AwaitSwitch: n.awaitSwitch, Picker: balance.New(n.datapath.Shared), Shared: n.datapath.Shared,
		RetryRoot: n.reconcil.RetryRoot,
		Done:      func(endpoint uint32, o slowpath.Outcome) { n.health.Done(endpoint, o) },
		Answered:  func(endpoint uint32) { n.pool.Again(endpoint) },
	})
}

func (n *Node) newHandback() *handback.Handback {
	return handback.New(handback.Config{
		Shared: n.datapath.Shared, Generation: n.generation.Load, Selector: n.selector, Proxy: n.proxy, Scheduler: n.desk, Health: n.health,
		Pool: func() handback.Pool { return n.pool }, Anchors: func() handback.Anchors { return n.anchors },
		Withheld: n.recorder.Withheld, Crashes: n.crashes, Logger: n.log,
	})
}
