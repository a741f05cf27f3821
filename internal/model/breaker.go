// SPDX-License-Identifier: Apache-2.0

package model

// Priority of a route's requests: each has circuit breakers of its own (envoy.config.core.v3.RoutingPriority).
type Priority uint8

const (
	// PriorityDefault is DEFAULT.
	PriorityDefault Priority = iota
	// PriorityHigh is HIGH.
	PriorityHigh
	priorities
)

// Breakers bound what a cluster is asked at a time (envoy.config.cluster.v3.CircuitBreakers.Thresholds).
type Breakers struct {
	// MaxConnections in use, MaxPending requests that wait for one, MaxRequests in flight, MaxRetries among them.
	MaxConnections, MaxPending, MaxRequests, MaxRetries uint32
	// Budget stands in place of MaxRetries; nil does not.
	Budget *RetryBudget
	// NoPools: no endpoint may be connected to (max_connection_pools is 0).
	NoPools bool
	// TrackRemaining shows how much of each is left.
	TrackRemaining bool
}

// RetryBudget bounds retries by what is under way.
type RetryBudget struct {
	// Percent of the requests in flight and waiting, 0 to 100.
	Percent float64
	// Min retries are allowed at any time.
	Min uint32
}

// Defaults of a retry budget.
const (
	DefaultBudgetPercent = 20
	DefaultBudgetMin     = 3
)

// DefaultBreakers are those of a cluster that sets none.
func DefaultBreakers() Breakers {
	return Breakers{MaxConnections: 1024, MaxPending: 1024, MaxRequests: 1024, MaxRetries: 3}
}

// BreakersOf are the cluster's for a priority.
func (c *Cluster) BreakersOf(p Priority) Breakers {
	if b := c.Breakers[p]; b != nil {
		return *b
	}
	return DefaultBreakers()
}

// InUse is how many requests may be in flight: each has a connection of its own. As in Envoy none is where none may wait, since a request waits
// while the first connection is made for it.
func (b *Breakers) InUse() uint32 {
	if b.NoPools || b.MaxPending == 0 {
		return 0
	}
	return min(b.connections(), b.MaxRequests)
}

// Waits reports whether a request for which there is no connection waits for one. Otherwise as in Envoy there is one, on which it may
// not be sent.
func (b *Breakers) Waits() bool {
	return !b.NoPools && (b.MaxPending == 0 || b.connections() <= b.MaxRequests)
}

// connections is how many there may be. As in Envoy the first one is made whatever the limit says.
func (b *Breakers) connections() uint32 { return max(b.MaxConnections, 1) }

// RetriesAt is how many retries there may be at a time while so many requests are in flight and waiting.
func (b *Breakers) RetriesAt(requests uint64) uint64 {
	if b.Budget == nil {
		return uint64(b.MaxRetries)
	}
	return max(uint64(b.Budget.Percent*float64(requests)/100), uint64(b.Budget.Min))
}
