// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/xlb-project/xlb/internal/maps"

	"github.com/xlb-project/xlb/internal/model"
)

// Source is the live state that a Collector reads. Its methods are called once per
// scrape, concurrently with everything else.
type Source interface {
	// Build returns which program this is.
	Build() Build
	// Verdicts returns how often each verdict was given since the programs were
	// loaded, over all processors; the index is a maps.Verdict. A shorter slice
	// means zero for the rest, nil is right when no program is loaded.
	Verdicts() ([]uint64, error)
	// Guards returns how often each invariant was found broken, likewise; the index is a
	// maps.Guard.
	Guards() ([]uint64, error)
	// Guarded returns how many are off the fast path because of broken invariants, by scope.
	Guarded() map[string]uint64
	// FastPath reports whether the programs that move requests are loaded.
	FastPath() bool
	// Clusters returns the clusters of the configuration in force, in its order.
	Clusters() []Cluster
	// Connections returns the number of intercepted client connections now open.
	Connections() uint64
	// Resent returns how many requests were sent to a second endpoint because the first had closed the connection before it saw them.
	Resent() uint64
	// Workloads returns the network namespaces beside the daemon's own.
	Workloads() Workloads
	// WorkloadList returns each network namespace that is served, or is known and not served: the daemon's own too.
	WorkloadList() []Workload
	// Quotas returns the tables that the workloads share.
	Quotas() []Quota
	// NRI returns the state of the connection to the container runtime; nil: the daemon has no client of one.
	NRI() *NRI
	// Delegate returns the state of the delegate; nil: there is no delegate.
	Delegate() *Delegate
	// Panics returns how many panics have ended the connection, or the copy of a request, that they served.
	Panics() uint64
	// HeldBack returns how many i-socks were not replaced at once because clients had broken too many.
	HeldBack() uint64
	// SlowWork returns what became of the work that the daemon does for clients.
	SlowWork() SlowWork
	// Dynamic returns statistics of dynamic resources by their names; nil: everything is in the file.
	Dynamic() map[string]uint64
	// Origins returns where the configuration comes from, in their order.
	Origins() []Origin
	// Subscriptions returns those of route tables and of secrets. Several may have one name: resources of one name in different files.
	Subscriptions() (tables, secrets []Subscription)
	// BootstrapVersion is a number that changes with the text of the bootstrap in force.
	BootstrapVersion() uint64
	// SlowBytes returns the bytes that the slow path has read from clients and
	// written to them since the daemon started.
	SlowBytes() (received, sent uint64)
}

// Build tells one build of the program from others.
type Build struct {
	Version string
	// Revision is the commit; empty where the build did not record it.
	Revision string
	// Go is the version of Go that built it.
	Go string
}

// SlowWork is what the daemon does for clients itself, in turns that are shared among their cgroups.
type SlowWork struct {
	// Turns by what became of them: requests "begun" and those that were "refused", turns that were
	// "waited" for, and those that were "ended" because they took too long.
	Turns map[string]uint64 `json:"turns"`
	// Worked is the time of all turns.
	Worked time.Duration `json:"worked"`
	// Waiting for a turn are so many at the moment, of so many Tenants that have one or wait.
	Waiting uint64 `json:"waiting"`
	Tenants uint64 `json:"tenants"`
}

// Cluster is a cluster and its live state.
type Cluster struct {
	Key model.ClusterKey
	// Views are the names of the views that have the cluster; nil: that of Key has.
	Views []string
	// StatName is its name in Envoy's statistics; empty: that of Key is.
	StatName string
	// Health are Envoy's statistics of outlier detection and health checks, by their names below cluster.<name>.
	Health map[string]uint64
	// Limits are those of circuit breakers, retries and timeouts, likewise.
	Limits map[string]uint64
	// LeftOut are endpoints that get no requests, by reason.
	LeftOut map[string]uint64
	// Updates are those of its endpoints; nil: they are with the cluster.
	Updates *Updates
	// Endpoints of the configuration in its order, followed by those that have left
	// it but still hold a lease. An address that left and came back may be in both.
	Endpoints []Endpoint
}

// seenIn are the names of the views that have the cluster; the shared one's is empty.
func (c *Cluster) seenIn() []string {
	if c.Views != nil {
		return c.Views
	}
	return []string{c.Key.View}
}

// heirOf is the cluster that views have which had another one of its name before: they share it now, or have ceased to. Nil: there is no such cluster.
func heirOf(name string, views []string, clusters []Cluster) *Cluster {
	for i := range clusters {
		c := &clusters[i]
		if c.Key.Name == name && slices.ContainsFunc(c.seenIn(), func(v string) bool { return slices.Contains(views, v) }) {
			return c
		}
	}
	return nil
}

// Endpoint is an endpoint and its live state.
type Endpoint struct {
	// Index into the kernel's endpoints. It may be another endpoint's after this one has gone.
	Index   uint32
	Address netip.AddrPort
	// Weight as configured.
	Weight uint32
	Place  Place
	// State is a copy made by LoadEndpoint.
	State maps.Endpoint
	// CheckTimedOut: it fails its active health checks, and the last was not answered in time.
	CheckTimedOut bool
	// Pool is its entry of CountPools.
	Pool Pool
	// SlowConnections are open to the endpoint outside the pool.
	SlowConnections uint64
}

// isHealthy reports whether nothing is wrong with the endpoint.
func (e *Endpoint) isHealthy() bool { return e.worstState() == StateHealthy }

// isGone reports whether the endpoint has left the configuration.
func (e *Endpoint) isGone() bool { return e.State.Flags&uint32(maps.EndpointGone) != 0 }

// Pool counts the i-socks of one endpoint by state.
type Pool struct {
	Idle       uint64 `json:"idle"`
	Leased     uint64 `json:"leased"`
	Connecting uint64 `json:"connecting"`
}

func (p *Pool) add(other Pool) {
	p.Idle += other.Idle
	p.Leased += other.Leased
	p.Connecting += other.Connecting
}

// CountPools counts all i-socks by the index of their endpoint. The result has an
// entry for each of the given number of endpoints.
func CountPools(slots []maps.Slot, endpoints int) []Pool {
	pools := make([]Pool, endpoints)
	for i := range slots {
		s := &slots[i]
		state := maps.SlotState(atomic.LoadUint32(&s.State))
		if state == maps.SlotFree || state == maps.SlotBroken {
			continue
		}
		endpoint := int(atomic.LoadUint32(&s.Endpoint))
		if endpoint >= endpoints {
			continue
		}
		switch p := &pools[endpoint]; state {
		case maps.SlotReady:
			p.Idle++
		case maps.SlotLeased:
			p.Leased++
		case maps.SlotConnecting:
			p.Connecting++
		}
	}
	return pools
}

// LoadEndpoint copies an endpoint that others change, with the traffic that maps.Shared.Traffic found for it. Each field
// is whole; fields read one after the other may belong to different moments.
func LoadEndpoint(e *maps.Endpoint, traffic *maps.Traffic) maps.Endpoint {
	cancelled := atomic.LoadUint64(&e.Cancelled) // before Broken, which counts the same leases first
	return maps.Endpoint{
		Outstanding: atomic.LoadUint32(&e.Outstanding),
		Flags:       atomic.LoadUint32(&e.Flags),
		Weight:      atomic.LoadUint32(&e.Weight),
		Broken:      atomic.LoadUint64(&e.Broken),
		Cancelled:   cancelled,
		Traffic:     *traffic,
	}
}
