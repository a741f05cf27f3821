// SPDX-License-Identifier: Apache-2.0

package reconcile

// Unlink takes every listener away and leaves the rest: no connection is intercepted any more, and requests on those
// that were go to the slow path. For an orderly end.
func (r *Reconciler) Unlink() error {
	r.applying.Lock()
	defer r.applying.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inForce = nil
	return r.unlinkListeners(nil)
}
