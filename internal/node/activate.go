// SPDX-License-Identifier: Apache-2.0

package node

import (
	"maps"
	"time"

	"github.com/xlb-project/xlb/internal/activate"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/pool"
)

// newActivator has a change walk down once: each part of the daemon that works with what has changed follows it, in this order.
func (n *Node) newActivator() *activate.Activator {
	return activate.New(activate.Config{
		Reconciler: n.reconcil, Logger: n.log, Ending: n.ending,
		Complete:      func(cfg *model.Config) *model.Config { return n.inner.Mark(n.bound.AddOwnAddresses(cfg)) },
		ClustersLeave: func() { n.status.Observe() },
		Followers: []func(*activate.Change){
			func(c *activate.Change) { n.guards.Apply(c.Kernel.Endpoints) },
			n.sweepSlowPath,
			func(c *activate.Change) { n.pools.Follow(c) },
			n.yieldAdmin,
			// What cannot be bound is logged; the listeners will retry.
			func(c *activate.Change) { _ = n.bound.Apply(c.Now.Config()) },
			n.limitConnections,
			func(c *activate.Change) { n.health.Apply(c.Now.Config().Clusters, c.Now.EndpointsOf) },
		},
	})
}

func (n *Node) newPools() *activate.Pools {
	return activate.NewPools(activate.PoolsConfig{
		FastPath: n.o.FastPath, Shared: n.datapath.Shared, Reconciler: n.reconcil, Pool: func() *pool.Pool { return n.pool }, KeepConnections: n.proxy.KeepConnections,
		EndpointsLeave: func() { n.status.Observe() },
	})
}

// sweepSlowPath has the slow path forget clusters that have gone: one that comes back under its name begins anew.
func (n *Node) sweepSlowPath(c *activate.Change) {
	if c.LostClusters {
		n.proxy.Sweep()
	}
}

// sweepPace is how often circuit breakers forget accounts and clusters without requests in flight, of which two sweeps free the entry, and the ledger what was
// carried to clusters that have gone.
const sweepPace = 10 * time.Second

func (n *Node) sweep() {
	n.proxy.Sweep()
	n.datapath.Shared.SweepLoads()
	now := n.activator.Generation()
	names := map[string]bool{}
	for _, c := range now.Config().Clusters {
		names[c.Name] = true
	}
	n.pool.SweepCarried(func(cluster string) bool { return names[cluster] })
}

// yieldAdmin gives the default address of the admin API up for a listener.
func (n *Node) yieldAdmin(c *activate.Change) {
	if n.admin != nil {
		n.admin.Yield(c.Now.Config())
	}
}

// limitConnections puts the limits of connections to listeners in force.
func (n *Node) limitConnections(c *activate.Change) {
	before, now := c.Before.AllLimits(), c.Now.AllLimits()
	if before == nil || !maps.Equal(before, now) {
		n.anchors.LimitsChanged(now)
	}
}
