// SPDX-License-Identifier: Apache-2.0

package cases

import "time"

// Workers is the number of workers or threads of every balancer and the number
// of endpoints: the target machine has two processors.
const Workers = 2

// The changes case.
const (
	// ChangedServices have ChangedEndpoints each.
	ChangedServices  = 1000
	ChangedEndpoints = 10
	// ChangeRate is requests a second to all of them, over ChangeConnections.
	ChangeRate        = 1000
	ChangeConnections = 32
)

// The least case: so many client processes ask stations of which the last is slow.
const (
	LeastClients           = 8
	leastClientConnections = 8
	Stations               = 4
	StationWorkers         = 4
	FastService            = time.Millisecond
	SlowService            = 20 * time.Millisecond
	// LeastRate is that of the project's targets, in requests a second: the slow station can serve an eighth of it, the others seven
	// times as much.
	LeastRate = 1600
)

// IsSlow tells the slow station.
func IsSlow(station int) bool { return station == Stations-1 }
