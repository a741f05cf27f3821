// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"net/netip"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// Snapshot is what was counted up to one moment. Counters are totals since the daemon
// started and never go backwards; a cluster's begin when the cluster is configured.
type Snapshot struct {
	Requests    Paths       `json:"requests"`
	Connections Connections `json:"connections"`
	// Leases in force.
	Leases uint64 `json:"leases"`
	// Resent counts requests that were sent again because no server had seen them.
	Resent uint64 `json:"resent"`
	// HeldBack counts i-socks that were not replaced at once.
	HeldBack uint64 `json:"held_back"`
	// Workloads are the network namespaces beside the daemon's own.
	Workloads Workloads `json:"workloads"`
	// Quotas are the tables that the workloads share.
	Quotas []Quota `json:"quotas"`
	// NRI is null where the daemon has no client of a runtime.
	NRI *NRI `json:"nri,omitempty"`
	// Delegate is null where there is no delegate.
	Delegate *Delegate `json:"delegate,omitempty"`
	// Panics counts those that have ended the connection, or the copy of a request, that they served.
	Panics uint64 `json:"request_panics"`
	// SlowWork is what the daemon does for clients.
	SlowWork SlowWork `json:"slow_work"`
	// Dynamic are statistics of dynamic resources by name.
	Dynamic map[string]uint64 `json:"dynamic,omitempty"`
	// Origins say what has become of the configuration, by where it comes from; BootstrapVersion changes with the bootstrap in force.
	Origins          []Origin `json:"config,omitempty"`
	BootstrapVersion uint64   `json:"bootstrap_version"`
	// RouteTables and Secrets that are not with who uses them.
	RouteTables []Subscription `json:"route_tables,omitempty"`
	Secrets     []Subscription `json:"secrets,omitempty"`
	// FastBytes and SlowBytes are HTTP heads and bodies as they were sent.
	FastBytes Bytes `json:"fast_bytes"`
	SlowBytes Bytes `json:"slow_bytes"`
	// Handovers and Spills by reason, all reasons.
	Handovers map[string]uint64 `json:"handovers"`
	Spills    map[string]uint64 `json:"spills"`
	// Verdicts are the exits of all kernel programs by name.
	Verdicts map[string]uint64 `json:"verdicts"`
	// Guards are invariants that programs found broken, by name, all of them.
	Guards map[string]uint64 `json:"guards"`
	// Guarded says how many are off the fast path because of that, by scope: client, endpoint,
	// machine.
	Guarded map[string]uint64 `json:"guarded"`
	// FastPath: the kernel programs that move requests are loaded.
	FastPath bool `json:"fast_path"`
	// SlowFlags are requests of the slow path by Envoy's response flag.
	SlowFlags map[string]uint64 `json:"slow_flags"`
	// Clusters in the order of the configuration.
	Clusters []ClusterSnapshot `json:"clusters"`
}

// Paths counts requests by the path that served them.
type Paths struct {
	Fast uint64 `json:"fast"`
	Slow uint64 `json:"slow"`
}

// Workloads counts network namespaces other than the daemon's own.
type Workloads struct {
	// Active are those whose processes are balanced now.
	Active uint64 `json:"active"`
	// Joined, Failed and Left count how often one was joined, could not be, and was left.
	Joined uint64 `json:"joined"`
	Failed uint64 `json:"failed"`
	Left   uint64 `json:"left"`
	// Released and Rejoined count how often an operator released one, and took it back.
	Released uint64 `json:"released"`
	Rejoined uint64 `json:"rejoined"`
	// Excluded counts those that the labels of their pods, or --pods=labelled, left out.
	Excluded uint64 `json:"excluded"`
	// Refused counts attempts to serve one whose maker, a pod, container or cgroup, has too many.
	Refused uint64 `json:"refused"`
	// JoinSeconds are the times from when one was found, or the kernel reported it, until it was served.
	JoinSeconds Durations `json:"join_seconds"`
}

// Durations is a histogram of seconds. It has one element of Counts for each of Bounds.
type Durations struct {
	// Bounds are upper bounds in seconds, ascending, without the infinite one; Counts are how many took so long at most.
	Bounds []float64 `json:"bounds"`
	Counts []uint64  `json:"counts"`
	// Count is how many there are, Sum how long they took together, in seconds.
	Count uint64  `json:"count"`
	Sum   float64 `json:"sum"`
}

// Connections counts client connections.
type Connections struct {
	Active      uint64 `json:"active"`
	Intercepted uint64 `json:"intercepted"`
}

// Bytes counts both directions.
type Bytes struct {
	Request  uint64 `json:"request"`
	Response uint64 `json:"response"`
}

// ClusterSnapshot is a cluster's part of a Snapshot, both paths together.
type ClusterSnapshot struct {
	// View has the cluster; empty: the shared one has, or several Views have it together.
	View  string   `json:"view,omitempty"`
	Views []string `json:"views,omitempty"`
	// Shared is its key where views share it, or have; otherwise View and Name are.
	Shared model.ClusterKey `json:"-"`
	Name   string           `json:"name"`
	// StatName is its name in Envoy's statistics; empty: Name is.
	StatName string `json:"statName,omitempty"`
	// Requests sent to endpoints.
	Requests uint64 `json:"requests"`
	// Responses to clients by class, 1xx to 5xx, local replies included.
	Responses [statusClasses]uint64 `json:"responses"`
	// Broken are requests that the kernel sent and that ended without a whole response, by the endpoint's fault or the network's.
	Broken uint64 `json:"broken"`
	// Cancelled are requests whose client left, or ended them, before it had the whole response, on both paths.
	Cancelled uint64 `json:"cancelled"`
	// Health are Envoy's statistics of outlier detection and health checks; empty without either.
	Health map[string]uint64 `json:"health,omitempty"`
	// Limits are those of circuit breakers, retries and timeouts.
	Limits map[string]uint64 `json:"limits,omitempty"`
	// LeftOut are endpoints that get no requests, by reason; they are not among Endpoints.
	LeftOut map[string]uint64 `json:"left_out,omitempty"`
	// Updates are those of its endpoints; null: they are with the cluster.
	Updates   *Updates           `json:"updates,omitempty"`
	Endpoints []EndpointSnapshot `json:"endpoints"`
}

// EndpointSnapshot is an endpoint's part of a Snapshot, both paths together.
type EndpointSnapshot struct {
	Address netip.AddrPort `json:"address"`
	Weight  uint32         `json:"weight"`
	Place
	// State is the worst that is known of the endpoint, one of the States; HealthFlags say all of it in Envoy's words.
	State       string `json:"state"`
	HealthFlags string `json:"health_flags"`
	Healthy     bool   `json:"healthy"`
	// Gone: it has left the configuration and finishes its requests.
	Gone bool `json:"gone"`
	// Outstanding requests, Requests sent, Successes (any status but 5xx), Errors
	// (5xx and requests that got no whole response).
	Outstanding uint32 `json:"outstanding"`
	Requests    uint64 `json:"requests"`
	Fast        uint64 `json:"fast"`
	Successes   uint64 `json:"successes"`
	Errors      uint64 `json:"errors"`
	// FastBytes moved by the kernel.
	FastBytes Bytes `json:"fast_bytes"`
	Pool      Pool  `json:"pool"`
	// Connections open to the endpoint: pool and slow path.
	Connections uint64 `json:"connections"`
}

// Outstanding is the number of requests in flight.
func (c *ClusterSnapshot) Outstanding() uint64 {
	var sum uint64
	for i := range c.Endpoints {
		sum += uint64(c.Endpoints[i].Outstanding)
	}
	return sum
}

// Connections is the number of open connections to endpoints.
func (c *ClusterSnapshot) Connections() uint64 {
	var sum uint64
	for i := range c.Endpoints {
		sum += c.Endpoints[i].Connections
	}
	return sum
}

// Members counts the configured endpoints, and those of them that take requests.
func (c *ClusterSnapshot) Members() (total, healthy uint64) {
	for i := range c.Endpoints {
		e := &c.Endpoints[i]
		if e.Gone {
			continue
		}
		total++
		if e.Healthy {
			healthy++
		}
	}
	return total, healthy
}

// spillNames are the reasons of spills.
var spillNames = map[maps.Verdict]string{
	maps.VerdictSpillFull:             "full",
	maps.VerdictSpillLocked:           "locked",
	maps.VerdictSpillFraming:          "framing",
	maps.VerdictSpillConnectionOption: "connection_option",
	maps.VerdictSpillTooLong:          "too_long",
	maps.VerdictSpillTrailers:         "trailers",
	maps.VerdictSpillRetry:            "retry",
}

// countVerdicts sorts the verdicts into their families.
func (s *Snapshot) countVerdicts(l *ledger) {
	s.Handovers, s.Spills, s.Verdicts = map[string]uint64{}, map[string]uint64{}, map[string]uint64{}
	for i := range l.verdicts {
		v, n := maps.Verdict(i), l.verdicts[i].total()
		name := maps.VerdictName(v)
		if maps.IsHandover(v) {
			s.Handovers[name] = n
			name = "handover_" + name
		}
		if reason, ok := spillNames[v]; ok {
			s.Spills[reason] = n
		}
		s.Verdicts[name] = n
	}
	s.Connections.Intercepted = l.verdicts[maps.VerdictConnectIntercepted].total()
}

// countGuards names the broken invariants.
func (s *Snapshot) countGuards(l *ledger) {
	s.Guards = make(map[string]uint64, len(l.guards))
	for i := range l.guards {
		s.Guards[maps.GuardName(maps.Guard(i))] = l.guards[i].total()
	}
}

// Key tells the cluster from those of all views.
func (c *ClusterSnapshot) Key() model.ClusterKey {
	if c.Shared != (model.ClusterKey{}) {
		return c.Shared
	}
	return model.ClusterKey{View: c.View, Name: c.Name}
}

// SeenIn are the names of the views that have the cluster; the shared one's is empty.
func (c *ClusterSnapshot) SeenIn() []string {
	if c.Views != nil {
		return c.Views
	}
	return []string{c.View}
}

// ObservedAs is the cluster's name in Envoy's statistics.
func (c *ClusterSnapshot) ObservedAs() string { return cmp.Or(c.StatName, c.Name) }

// snapshotCluster joins what kernel and slow path have counted of a cluster.
func snapshotCluster(c *Cluster, a *account, slow slowCluster) ClusterSnapshot {
	kernel := a.total()
	s := ClusterSnapshot{
		View:      c.Key.View,
		Name:      c.Key.Name,
		StatName:  c.StatName,
		Requests:  kernel.requests + slow.requests,
		Broken:    kernel.broken,
		Cancelled: kernel.cancelled + slow.cancelled,
		Health:    a.withInherited(c.Health),
		Updates:   c.Updates,
		Limits:    a.withInherited(c.Limits),
		LeftOut:   c.LeftOut,
		// Never null in JSON.
		Endpoints: make([]EndpointSnapshot, 0, len(c.Endpoints)),
	}
	if c.Views != nil {
		s.Shared = c.Key
		if s.View, s.Views = c.Views[0], nil; len(c.Views) > 1 {
			s.View, s.Views = "", c.Views
		}
	}
	for i := range s.Responses {
		s.Responses[i] = kernel.responses[i] + slow.responses[i]
	}
	at := make(map[netip.AddrPort]int, len(c.Endpoints))
	for i := range c.Endpoints {
		e := &c.Endpoints[i]
		kernel := a.endpoints[e.identity()].total()
		if first, ok := at[e.Address]; ok {
			s.Endpoints[first].add(snapshotEndpoint(e, kernel, slowEndpoint{}))
			continue
		}
		at[e.Address] = len(s.Endpoints)
		s.Endpoints = append(s.Endpoints, snapshotEndpoint(e, kernel, slow.endpoints[e.Address]))
	}
	return s
}

// add joins what is left of an endpoint that has gone to the one that came back at its address.
func (e *EndpointSnapshot) add(gone EndpointSnapshot) {
	e.Outstanding += gone.Outstanding
	e.Requests += gone.Requests
	e.Fast += gone.Fast
	e.Successes += gone.Successes
	e.Errors += gone.Errors
	e.FastBytes.Request += gone.FastBytes.Request
	e.FastBytes.Response += gone.FastBytes.Response
	e.Pool.add(gone.Pool)
	e.Connections += gone.Connections
}

func snapshotEndpoint(e *Endpoint, kernel fast, slow slowEndpoint) EndpointSnapshot {
	s := EndpointSnapshot{
		Address:     e.Address,
		Weight:      e.Weight,
		Place:       e.Place,
		State:       e.worstState(),
		HealthFlags: e.HealthFlags(),
		Healthy:     e.isHealthy(),
		Gone:        e.isGone(),
		Outstanding: e.State.Outstanding,
		Requests:    kernel.requests + slow.requests,
		Fast:        kernel.requests,
		Successes:   slow.successes,
		Errors:      kernel.responses[serverErrors] + kernel.broken + slow.errors,
		FastBytes:   Bytes{Request: kernel.bytesSent, Response: kernel.bytesReceived},
		Pool:        e.Pool,
		Connections: e.Pool.Idle + e.Pool.Leased + e.SlowConnections,
	}
	// 1xx is not the end of a request.
	for _, n := range kernel.responses[1:serverErrors] {
		s.Successes += n
	}
	return s
}
