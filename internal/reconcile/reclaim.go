// SPDX-License-Identifier: Apache-2.0

package reconcile

import "fmt"

// MustReclaim reports whether Reclaim may have something to do. It does not wait.
func (r *Reconciler) MustReclaim() bool {
	if !r.mu.TryLock() {
		return true
	}
	defer r.mu.Unlock()
	return r.hasPending()
}

func (r *Reconciler) hasPending() bool { return r.clusters.HasPending() || r.routes.HasPending() }

// Reclaim frees what is no longer used, by Switch, changes of health or released endpoints, once no program uses it. Calling it is optional: the
// next Switch, or a change of health that finds no indices, does the same.
func (r *Reconciler) Reclaim() error {
	r.applying.Lock()
	defer r.applying.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sweep()
}

// sweep waits until no program uses what is pending, erases it and frees its numbers. Needs applying, and mu, which it leaves and takes again.
func (r *Reconciler) sweep() error {
	if !r.hasPending() {
		return nil
	}
	// What is added while it waits is for the next.
	old := r.clusters.TakePending()
	if err := r.routes.SynchronizeRCU(); err != nil {
		r.clusters.PutBack(old)
		return err
	}
	r.clusters.Free(old)
	return r.routes.Reclaim()
}

// wait waits for the programs that are running. It leaves mu meanwhile, but not applying.
func (r *Reconciler) wait() error {
	r.mu.Unlock()
	err := r.cfg.SynchronizeRCU()
	r.mu.Lock()
	if err != nil {
		return fmt.Errorf("wait for programs that read the old configuration: %w", err)
	}
	return nil
}
