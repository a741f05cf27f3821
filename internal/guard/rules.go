// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"time"

	"github.com/xlb-project/xlb/internal/maps"
)

// Scope is how much leaves the fast path.
type Scope uint8

// Values of Scope, the smallest first.
const (
	// Client is one client's connection, for as long as it lasts.
	Client Scope = iota
	// Endpoint is all requests to one endpoint, for a time.
	Endpoint
	// Machine is all requests, until the daemon ends.
	Machine
	scopes
)

var scopeNames = [scopes]string{"client", "endpoint", "machine"}

func (s Scope) String() string { return scopeNames[s] }

// Scopes are all, the smallest first.
func Scopes() []Scope { return []Scope{Client, Endpoint, Machine} }

// rule says how many events are too many.
type rule struct {
	scope Scope
	// whats are counted together.
	whats []maps.Guard
	// count in this time, of one client or endpoint where the scope is that.
	count  int
	within time.Duration
	// each of so many tenants must have seen so many of them.
	tenants, each int
	// endpoints it must have happened with.
	endpoints int
}

var (
	memory   = []maps.Guard{maps.GuardCut, maps.GuardShort}
	manners  = []maps.Guard{maps.GuardConcurrent, maps.GuardUrgent}
	sequence = []maps.Guard{maps.GuardSequence}
)

// rules are all there are; see the package's comment.
var rules = []rule{
	{scope: Client, whats: memory, count: 16, within: time.Minute},
	{scope: Client, whats: manners, count: 4, within: time.Minute},
	{scope: Client, whats: sequence, count: 1, within: 10 * time.Minute},
	{scope: Endpoint, whats: memory, count: 24, within: time.Minute, tenants: 3, each: 8},
	{scope: Endpoint, whats: sequence, count: 2, within: 10 * time.Minute, tenants: 2, each: 1},
	{scope: Machine, whats: sequence, count: 3, within: 10 * time.Minute, tenants: 2, each: 1, endpoints: 2},
}

// An endpoint comes back after firstSuspension; if it must leave again before it has been back for
// forgiveness, after twice as long as the time before, and at most longestSuspension.
const (
	firstSuspension   = time.Minute
	longestSuspension = time.Hour
	forgiveness       = time.Hour
)

// longestWindow is how long any rule looks back.
const longestWindow = 10 * time.Minute

// maxSeen bounds how many events of one kind are remembered. The oldest go first; no rule counts so
// many.
const maxSeen = 1024
