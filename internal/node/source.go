// SPDX-License-Identifier: Apache-2.0

package node

import (
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/reconcile"
)

var (
	_ metrics.Source = measured{}
	_ admin.Source   = (*Node)(nil)
)

// Ready implements admin.Source.
func (n *Node) Ready() error { return *n.ready.Load() }

// Config implements admin.Source.
func (n *Node) Config() admin.Config {
	now := n.generation.Load()
	c := admin.Config{Model: now.Config(), Version: now.Version(), Updated: now.Since()}
	n.source.Describe(&c)
	return c
}

// Origins implements admin.Source.
func (n *Node) Origins() []admin.Origin { return n.source.Origins() }

// Notes implements admin.Source.
func (n *Node) Notes() []admin.Note { return n.source.Notes(n.generation.Load().Config().Listeners) }

// Snapshot implements admin.Source.
func (n *Node) Snapshot() (*metrics.Snapshot, error) { return n.metrics.Snapshot() }

// Bound implements admin.Source.
func (n *Node) Bound(l *model.Listener) string {
	if !l.Bound {
		return ""
	}
	return n.bound.State(l.Address)
}

// Intercepted implements admin.Source.
func (n *Node) Intercepted(l *model.Listener) (bool, error) {
	if atomic.LoadUint32(&n.datapath.Shared.Control.Draining) != 0 {
		return false, nil
	}
	keys := []maps.ListenerKey{compile.KeyOf(l)}
	if l.Bound {
		keys = nil
		for _, a := range l.Own {
			keys = append(keys, maps.KeyOf(a))
		}
	}
	for _, key := range keys {
		if number, _, err := n.datapath.Config.VIPs.Lookup(key); err != nil || number != 0 {
			return number != 0, err
		}
	}
	return false, nil
}

// Connections implements admin.Source.
func (n *Node) Connections(limit int) ([]admin.Connection, error) {
	list := n.anchors.List()
	if len(list) > limit {
		list = list[:limit]
	}
	out := make([]admin.Connection, 0, len(list))
	for _, c := range list {
		if c.Bound {
			name, _, _ := n.reconcil.Listener(c.Listener)
			out = append(out, admin.Connection{Client: c.Client, Service: c.VIP, Listener: name, Path: "slow", Reason: "bound", Opened: c.Opened})
			continue
		}
		slow, onSlow, err := n.datapath.Sockets.SlowConns.Lookup(c.Cookie)
		if err != nil {
			return nil, err
		}
		name, _, _ := n.reconcil.Listener(c.Listener)
		row := admin.Connection{Client: c.Client, Service: c.VIP, Listener: name, Path: "fast", Opened: c.Opened}
		if onSlow || !n.o.FastPath {
			row.Path = "slow"
		}
		if onSlow {
			row.Reason = maps.VerdictName(maps.Verdict(slow.Reason))
		}
		if c.Guarded {
			row.Path, row.Reason = "slow", maps.VerdictName(maps.HandoverGuarded)
		}
		out = append(out, row)
	}
	return out, nil
}

func placeOf(e *reconcile.EndpointEntry) metrics.Place {
	at := e.Place.Locality
	return metrics.Place{
		Priority: e.Place.Priority, Region: at.Region, Zone: at.Zone, SubZone: at.SubZone, Health: e.Health.String(), Share: e.Share,
	}
}

// measured implements metrics.Source.
type measured struct{ n *Node }

// Build implements metrics.Source.
func (m measured) Build() metrics.Build { return m.n.o.Build }

// Verdicts implements metrics.Source.
func (m measured) Verdicts() ([]uint64, error) { return m.n.datapath.Verdicts() }

// Guards implements metrics.Source.
func (m measured) Guards() ([]uint64, error) { return m.n.datapath.Guards() }

// FastPath implements metrics.Source.
func (m measured) FastPath() bool { return m.n.o.FastPath }

// Connections implements metrics.Source.
func (m measured) Connections() uint64 { return uint64(m.n.anchors.Stats().Open) }

// SlowWork implements metrics.Source.
func (m measured) SlowWork() metrics.SlowWork {
	c := m.n.desk.Counts()
	return metrics.SlowWork{
		Turns:  map[string]uint64{"begun": c.Begun, "refused": c.Refused, "waited": c.Waited, "ended": c.Ended},
		Worked: c.Worked, Waiting: uint64(c.Waiting), Tenants: uint64(c.Tenants),
	}
}

// Resent implements metrics.Source.
func (m measured) Resent() uint64 { return m.n.handback.Resent() }

// Panics implements metrics.Source.
func (m measured) Panics() uint64 { return m.n.crashes.Count() }

// HeldBack implements metrics.Source.
func (m measured) HeldBack() uint64 { return m.n.pool.HeldBack() }

// Dynamic implements metrics.Source.
func (m measured) Dynamic() map[string]uint64 {
	stats := m.n.source.DynamicStats()
	if stats != nil {
		stats["xlb.dynamic.writes"] = m.n.reconcil.Written()
	}
	return stats
}

// Origins implements metrics.Source.
func (m measured) Origins() []metrics.Origin { return m.n.source.OriginsByKind() }

// Subscriptions implements metrics.Source.
func (m measured) Subscriptions() (tables, secrets []metrics.Subscription) {
	return m.n.source.Subscriptions()
}

// BootstrapVersion implements metrics.Source.
func (m measured) BootstrapVersion() uint64 { return m.n.source.BootstrapVersion() }

// SlowBytes implements metrics.Source.
func (m measured) SlowBytes() (received, sent uint64) {
	c := m.n.proxy.Counters()
	return c.Received(), c.Sent()
}

// Clusters implements metrics.Source.
func (m measured) Clusters() []metrics.Cluster {
	shared := m.n.datapath.Shared
	pools := metrics.CountPools(shared.Slots, len(shared.Endpoints))
	traffic := shared.Traffic()
	now, timedOut := m.n.generation.Load(), m.n.health.TimedOut()
	byCluster := map[string][]metrics.Endpoint{}
	for _, e := range m.n.reconcil.Endpoints() {
		byCluster[e.Cluster] = append(byCluster[e.Cluster], metrics.Endpoint{
			Index:           e.Index,
			Address:         e.Address,
			Weight:          e.Weight,
			Place:           placeOf(&e),
			State:           metrics.LoadEndpoint(&shared.Endpoints[e.Index], &traffic[e.Index]),
			CheckTimedOut:   timedOut[e.Index],
			Pool:            pools[e.Index],
			SlowConnections: m.n.dialer.open(e.Address),
		})
	}
	updates := m.n.source.ClusterUpdates()
	var list []metrics.Cluster
	for _, c := range now.Config().Clusters {
		if now.ClusterEntry(c.Name) != nil {
			list = append(list, metrics.Cluster{
				Name: c.Name, StatName: c.StatName, Health: m.n.health.Stats(c.Name), Limits: m.n.proxy.Stats(c), LeftOut: leftOutOf(c), Updates: updates[c.Name],
				Endpoints: byCluster[c.Name],
			})
		}
	}
	return list
}

// leftOutOf counts the endpoints of a cluster that are left out, by reason; nil: none is.
func leftOutOf(c *model.Cluster) map[string]uint64 {
	if len(c.LeftOut) == 0 {
		return nil
	}
	out := map[string]uint64{}
	for reason, n := range c.LeftOutBy() {
		if n > 0 {
			out[model.LeftOutReason(reason).String()] = uint64(n)
		}
	}
	return out
}
