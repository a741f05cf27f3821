// SPDX-License-Identifier: Apache-2.0

package node

import (
	"runtime"

	"github.com/xlb-project/xlb/internal/shares"
)

// waitingOfOne is how many requests of one tenant wait for a turn. Each takes some 24 KiB.
const waitingOfOne = 4096

// newDesk is where goroutines that work for clients take turns. One processor is always left to others: to
// those who accept connections and open i-socks, to goroutines on their way to the desk, and, since what
// is done for clients has no precedence, to other processes.
func newDesk() *shares.Desk {
	return shares.NewDesk(shares.Limits{AtWork: max(runtime.GOMAXPROCS(0)-1, 1), Waiting: waitingOfOne})
}
