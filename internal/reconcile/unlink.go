// SPDX-License-Identifier: Apache-2.0

package reconcile

// Unlink takes every listener's table away and leaves the rest: requests on connections that were
// intercepted go to the slow path. For an orderly end. Their addresses go, too, so that connections to
// them are nobody's; or they stay, for the kernel programs to refuse those while the daemon drains.
func (r *Reconciler) Unlink(keepAddresses bool) error {
	r.applying.Lock()
	defer r.applying.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied = nil
	if keepAddresses {
		return r.dropTables()
	}
	return r.unlinkListeners(nil)
}
