// SPDX-License-Identifier: Apache-2.0

package anchor

import (
	"github.com/xlb-project/xlb/internal/shares"
	"github.com/xlb-project/xlb/internal/workload"
)

// Outermost branches of tenants that are no cgroups of the host. No cgroup has such a number.
const (
	// otherHosts is that of clients that were not intercepted.
	otherHosts = ^uint64(0)
	// accountBit and the number of an account are that of its clients.
	accountBit = 1 << 63
)

// tenantOf is the group of an intercepted client: of the host's network namespace the outermost cgroups of its process, of others the account. Each pod has as
// much as another then, however deep its cgroups lie below the host's (kind, the kubelet's --cgroup-root), and as much as an outermost cgroup of the host.
func tenantOf(w *workload.Workload, cgroups shares.Path) shares.Path {
	if w.ID == workload.Host {
		return cgroups
	}
	return shares.Path{accountBit | uint64(w.Account())}
}
