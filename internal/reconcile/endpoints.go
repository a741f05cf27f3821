// SPDX-License-Identifier: Apache-2.0

package reconcile

import "github.com/xlb-project/xlb/internal/model"

// SetHealth notes the changes in the endpoints' flags, and groups the clusters of those that really change anew: each once, whatever the
// number of changes. Requests see a cluster's old groups or its new ones. An index without an endpoint is ignored: it has been
// released meanwhile. After an error some clusters have their old groups, and the flags stand: Regroup tries again.
//
// It waits for no program unless there is no room beside what is pending: see Reclaim.
func (r *Reconciler) SetHealth(changes ...HealthChange) error {
	changed := r.noteHealth(changes)
	return r.withRoom(func() error { return r.clusters.RegroupChanged(changed) })
}

func (r *Reconciler) noteHealth(changes []HealthChange) map[model.ClusterKey]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clusters.NoteHealth(changes)
}

// MustRegroup reports whether Regroup may have something to do. It does not wait.
func (r *Reconciler) MustRegroup() bool {
	if !r.mu.TryLock() {
		return true
	}
	defer r.mu.Unlock()
	return r.clusters.MustRegroup()
}

// Regroup groups the clusters anew in which some endpoint was in its slow start when they were grouped last, and those that could not be grouped, if
// that was long enough ago. Without any it costs a look at each cluster.
func (r *Reconciler) Regroup() error { return r.withRoom(r.clusters.RegroupDue) }

// withRoom lets f group clusters, and if it fails once more, when what is pending has been reclaimed. It must not matter that some clusters
// are grouped twice.
func (r *Reconciler) withRoom(f func() error) error {
	attempt := func() (err error, waiting bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if err = f(); err != nil {
			r.applied = nil // the next Apply looks at all clusters
		}
		return err, r.clusters.HasPending()
	}
	err, waiting := attempt()
	if err == nil || !waiting {
		return err
	}
	if err := r.Reclaim(); err != nil {
		return err
	}
	err, _ = attempt()
	return err
}

// ReleaseEndpoint gives up the index of an endpoint that has left the configuration. The
// pool calls it when the endpoint's last i-sock has closed and no request on it, on either
// path, is outstanding. It reports false, and does nothing, when the endpoint has come
// back meanwhile or is not known: its pool then goes on.
func (r *Reconciler) ReleaseEndpoint(index uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clusters.Release(index)
}

// Changed returns what has changed since it was called last. It is for one caller.
func (r *Reconciler) Changed() Changes {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clusters.Changed()
}
