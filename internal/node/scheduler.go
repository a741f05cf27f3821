// SPDX-License-Identifier: Apache-2.0

package node

import (
	"runtime"

	"github.com/xlb-project/xlb/internal/shares"
)

// waitingOfOne is how many requests of one tenant wait for a ticket to run. Each takes some 24 KiB.
const waitingOfOne = 4096

// newScheduler divides the processors among goroutines that work for clients. One processor is always left to others: to
// goroutines that accept connections and open i-socks or are about to queue their tickets, and, since what
// is done for clients has no precedence, to other processes.
func newScheduler() *shares.Scheduler {
	return shares.NewScheduler(shares.Limits{AtWork: max(runtime.GOMAXPROCS(0)-1, 1), Waiting: waitingOfOne})
}
