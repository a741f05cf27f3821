// SPDX-License-Identifier: Apache-2.0

package status

import (
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/activate"
	"github.com/xlb-project/xlb/internal/admin"
	"github.com/xlb-project/xlb/internal/anchor"
	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/crash"
	"github.com/xlb-project/xlb/internal/datapath"
	"github.com/xlb-project/xlb/internal/delegate"
	"github.com/xlb-project/xlb/internal/guardctl"
	"github.com/xlb-project/xlb/internal/handback"
	"github.com/xlb-project/xlb/internal/healthctl"
	"github.com/xlb-project/xlb/internal/listeners"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/metrics"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/nri"
	"github.com/xlb-project/xlb/internal/pool"
	"github.com/xlb-project/xlb/internal/reconcile"
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/source"
	"github.com/xlb-project/xlb/internal/usage"
)

var (
	_ metrics.Source = measured{}
	_ admin.Source   = (*Status)(nil)
)

// Config is what a Status looks at. All of it is needed but NRI, Delegate, Capabilities and CapabilitiesError.
type Config struct {
	Build metrics.Build
	// FastPath: the kernel serves requests. Unsupported says why it cannot, though that was asked for; "" where it can, or that was not.
	FastPath    bool
	Unsupported func() string
	// Capabilities are those that the process keeps and lacks; nil: that is not known.
	Capabilities []admin.Capability
	// CapabilitiesError says why the process may have others, too; nil: it has no others, or that is not known.
	CapabilitiesError error
	// Ready is nil once connections are intercepted, or says what the daemon waits for.
	Ready      func() error
	Datapath   *datapath.Datapath
	Reconciler *reconcile.Reconciler
	Activator  *activate.Activator
	Source     *source.Sources
	Anchors    *anchor.Set
	Bound      *listeners.Bound
	Pool       *pool.Pool
	Proxy      *slowpath.Proxy
	Handback   *handback.Handback
	Health     *healthctl.Manager
	Guards     *guardctl.Controller
	Scheduler  *shares.Scheduler
	// Workloads are the network namespaces whose processes are balanced.
	Workloads Workloads
	// Quotas are the tables that the workloads share.
	Quotas []Quota
	// Carried is what was carried for workloads that are served.
	Carried func() usage.Sum
	// NRI is the state of the client of the container runtime; nil: there is no client.
	NRI func() nri.State
	// Delegate is what is to be seen of the delegate; nil, or what returns that: there is no delegate.
	Delegate func() *delegate.Status
	Crashes  *crash.Log
	// ViewName is the name of the view with a number other than 0; empty: no view has it any more. Views are the names of all, which may have nothing in the
	// configuration yet. DescribeView does for one of them what Source.Describe does for the shared one. Each is nil where there is the shared one alone.
	ViewName     func(number uint32) string
	Views        func() []string
	DescribeView func(view string, c *admin.Config)
	// OpenTo counts the connections of the slow path to an endpoint.
	OpenTo func(netip.AddrPort) uint64
	Logger *slog.Logger
	// Level is that of the Logger, which the admin API changes.
	Level *slog.LevelVar
	// Recorder has what the slow path has reported.
	Recorder *metrics.Recorder
}

// Status is what the admin API and metrics show. It is safe for concurrent use.
type Status struct {
	cfg     Config
	metrics *metrics.Collector
}

// New looks at a daemon that is about to begin.
func New(cfg Config) *Status {
	s := &Status{cfg: cfg}
	s.metrics = metrics.NewCollector(measured{s}, cfg.Recorder)
	return s
}

// Observe brings the totals up to date. Call it before clusters go: what their endpoints have counted is not found any more afterwards.
func (s *Status) Observe() { s.metrics.Observe() }

// Metrics is the page of metrics.
func (s *Status) Metrics() http.Handler {
	return s.metrics.Handler()
}

// Ready implements admin.Source.
func (s *Status) Ready() error { return s.cfg.Ready() }

// Config implements admin.Source.
func (s *Status) Config() admin.Config {
	now := s.cfg.Activator.Generation()
	c := admin.Config{Model: now.Config(), Version: now.Version(), Updated: now.Since(), Views: s.views(now.Config()), DescribeView: s.cfg.DescribeView}
	s.cfg.Source.Describe(&c)
	return c
}

// Origins implements admin.Source.
func (s *Status) Origins() []admin.Origin { return s.cfg.Source.Origins() }

// Notes implements admin.Source.
func (s *Status) Notes() []admin.Note {
	return s.cfg.Source.Notes(s.cfg.Activator.Generation().Config().Listeners)
}

// Snapshot implements admin.Source.
func (s *Status) Snapshot() (*metrics.Snapshot, error) { return s.metrics.Snapshot() }

// Bound implements admin.Source.
func (s *Status) Bound(l *model.Listener) string {
	if !l.Bound {
		return ""
	}
	return s.cfg.Bound.State(l.Address)
}

// Intercepted implements admin.Source.
func (s *Status) Intercepted(l *model.Listener) (bool, error) {
	if atomic.LoadUint32(&s.cfg.Datapath.Shared.Control.Draining) != 0 {
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
		if number, _, err := s.cfg.Datapath.Config.VIPs.Lookup(key); err != nil || number != 0 {
			return number != 0, err
		}
	}
	return false, nil
}

// Connections implements admin.Source.
func (s *Status) Connections(limit int) ([]admin.Connection, error) {
	list := s.cfg.Anchors.List()
	if len(list) > limit {
		list = list[:limit]
	}
	out, names := make([]admin.Connection, 0, len(list)), namesOf(s.cfg.Workloads.List())
	for _, c := range list {
		name, _, _ := s.cfg.Reconciler.Listener(c.Listener)
		row := connectionRow(&c, name)
		if c.Bound {
			row.Path, row.Reason = "slow", "bound"
			out = append(out, row)
			continue
		}
		slow, onSlow, err := s.cfg.Datapath.Sockets.SlowConns.Lookup(c.Cookie)
		if err != nil {
			return nil, err
		}
		number := uint32(c.Workload)
		row.WorkloadID, row.Workload = &number, names[c.Workload]
		if onSlow || !s.cfg.FastPath {
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

// connectionRow is what is known of each connection, as if it were on the fast path.
func connectionRow(c *anchor.Info, of model.ListenerName) admin.Connection {
	return admin.Connection{Client: c.Client, Service: c.VIP, Listener: of.Name, View: of.View, Path: "fast", Opened: c.Opened}
}

func placeOf(e *reconcile.EndpointEntry) metrics.Place {
	at := e.Placement.Locality
	return metrics.Place{
		Priority: e.Placement.Priority, Region: at.Region, Zone: at.Zone, SubZone: at.SubZone, Health: e.Health.String(), Share: e.Share,
	}
}

// measured implements metrics.Source.
type measured struct{ status *Status }

// Build implements metrics.Source.
func (m measured) Build() metrics.Build { return m.status.cfg.Build }

// Verdicts implements metrics.Source.
func (m measured) Verdicts() ([]uint64, error) { return m.status.cfg.Datapath.Verdicts() }

// Guards implements metrics.Source.
func (m measured) Guards() ([]uint64, error) { return m.status.cfg.Datapath.Guards() }

// FastPath implements metrics.Source.
func (m measured) FastPath() bool { return m.status.cfg.FastPath }

// Connections implements metrics.Source.
func (m measured) Connections() uint64 { return uint64(m.status.cfg.Anchors.Stats().Open) }

// SlowWork implements metrics.Source.
func (m measured) SlowWork() metrics.SlowWork {
	c := m.status.cfg.Scheduler.Counts()
	return metrics.SlowWork{
		Turns:  map[string]uint64{"begun": c.Started, "refused": c.Refused, "waited": c.Waited, "ended": c.Ended},
		Worked: c.Worked, Waiting: uint64(c.Waiting), Tenants: uint64(c.Tenants),
	}
}

// Resent implements metrics.Source.
func (m measured) Resent() uint64 { return m.status.cfg.Handback.Resent() }

// Panics implements metrics.Source.
func (m measured) Panics() uint64 { return m.status.cfg.Crashes.Count() }

// HeldBack implements metrics.Source.
func (m measured) HeldBack() uint64 { return m.status.cfg.Pool.HeldBack() }

// Dynamic implements metrics.Source.
func (m measured) Dynamic() map[string]uint64 {
	stats := m.status.cfg.Source.DynamicStats()
	if stats != nil {
		stats["xlb.dynamic.writes"] = m.status.cfg.Reconciler.Written()
	}
	return stats
}

// Origins implements metrics.Source.
func (m measured) Origins() []metrics.Origin { return m.status.cfg.Source.OriginsByKind() }

// Subscriptions implements metrics.Source.
func (m measured) Subscriptions() (tables, secrets []metrics.Subscription) {
	return m.status.cfg.Source.Subscriptions()
}

// BootstrapVersion implements metrics.Source.
func (m measured) BootstrapVersion() uint64 { return m.status.cfg.Source.BootstrapVersion() }

// SlowBytes implements metrics.Source.
func (m measured) SlowBytes() (received, sent uint64) {
	c := m.status.cfg.Proxy.Counters()
	return c.Received(), c.Sent()
}

// Clusters implements metrics.Source.
func (m measured) Clusters() []metrics.Cluster {
	shared := m.status.cfg.Datapath.Shared
	pools := metrics.CountPools(shared.Slots, len(shared.Endpoints))
	traffic := shared.Traffic()
	before, timedOut := m.status.cfg.Activator.Generation(), m.status.cfg.Health.TimedOut()
	byCluster := map[model.ClusterKey][]metrics.Endpoint{}
	for _, e := range m.status.cfg.Reconciler.Endpoints() {
		byCluster[e.Cluster] = append(byCluster[e.Cluster], metrics.Endpoint{
			Index:           e.Index,
			Address:         e.Address,
			Weight:          e.Weight,
			Place:           placeOf(&e),
			State:           metrics.LoadEndpoint(&shared.Endpoints[e.Index], &traffic[e.Index]),
			CheckTimedOut:   timedOut[e.Index],
			Pool:            pools[e.Index],
			SlowConnections: m.status.cfg.OpenTo(e.Address),
		})
	}
	updates := m.status.cfg.Source.ClusterUpdates()
	var list []metrics.Cluster
	limits := m.status.cfg.Proxy.Stats()
	// The list of endpoints may have waited for another configuration: a cluster that has gone with that one is left out.
	for _, c := range m.status.cfg.Activator.Generation().Config().Clusters {
		if before.ClusterEntry(c.Key()) != nil {
			list = append(list, metrics.Cluster{
				Key: c.Key(), Views: viewsOf(c), StatName: c.StatName, Health: m.status.cfg.Health.Stats(c.Key()), Limits: limits(c), LeftOut: leftOutOf(c), Updates: updatesOf(updates, c),
				Endpoints: byCluster[c.Key()],
			})
		}
	}
	return list
}

// viewsOf are the views of a cluster, where its key does not tell.
func viewsOf(c *model.Cluster) []string {
	if c.Common == nil {
		return nil
	}
	return c.Common.Views
}

// updatesOf are those of all views that have the cluster; nil: in no view it has any.
func updatesOf(updates map[model.ClusterKey]*metrics.Updates, c *model.Cluster) (sum *metrics.Updates) {
	for _, view := range c.SeenIn() {
		sum = sum.With(updates[model.ClusterKey{View: view, Name: c.Name}])
	}
	return sum
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
