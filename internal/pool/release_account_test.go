// SPDX-License-Identifier: Apache-2.0

package pool

import (
	"testing"

	"github.com/xlb-project/xlb/internal/workload"
)

// A workload whose connects have failed has a subpool and no slot. It leaves with that at once, and is counted out of its account once.
func TestAWorkloadWithoutISocksLeavesItsAccountOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{eager: -1})
	r.set(Endpoint{Index: ours, Address: documentation})
	for id := range workload.ID(2) {
		r.joinIn(id+1, 1)
	}
	r.waitInVain(2, ours)
	r.waitInVain(1, ours)
	r.p.Leave(2)
	requireAccounts(t, r, 2)
	r.p.Leave(1)
	requireAccounts(t, r, 1)
}

// requireAccounts fails unless so many accounts have workloads.
func requireAccounts(t *testing.T, r *rig, want int) {
	t.Helper()
	if got := r.p.slots.Joined(); got != want {
		t.Errorf("accounts with workloads: got %d, want %d", got, want)
	}
}

// waitInVain has a workload wait for an endpoint that has refused its last connect, of which it has no slot.
func (r *rig) waitInVain(id workload.ID, endpoint uint32) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.p.subpoolLocked(r.p.origins[id], r.p.destinations[endpoint]).backoff = firstBackoff
}
