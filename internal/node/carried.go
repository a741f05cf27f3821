// SPDX-License-Identifier: Apache-2.0

package node

import (
	"github.com/xlb-project/xlb/internal/usage"
	"github.com/xlb-project/xlb/internal/workload"
)

// carried is what was carried for workloads that are served. The time of programs for what is no request on the fast path counts by accounts: it is that of the
// account's workload with the lowest number, and of no cluster.
func (n *Node) carried() usage.Sum {
	sum := n.pool.Carried()
	ran := n.anchors.ProgramTime()
	first := map[workload.ID]workload.ID{}
	for _, w := range n.workloads.List() {
		if id, known := first[w.Account]; !known || w.ID < id {
			first[w.Account] = w.ID
		}
	}
	for account, id := range first {
		if ran[account] == 0 {
			continue
		}
		to := usage.Destination{Workload: id}
		t := sum[to]
		t.ProgramTime += ran[account]
		sum[to] = t
	}
	return sum
}
