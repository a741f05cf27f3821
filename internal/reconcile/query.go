// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"net/netip"

	compiled "github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// Endpoints lists the endpoints in the maps by index, those that are gone included.
func (r *Reconciler) Endpoints() []EndpointEntry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clusters.Endpoints()
}

// Clusters lists the clusters in the maps by index.
func (r *Reconciler) Clusters() []ClusterEntry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clusters.Clusters()
}

// ListenerNumbers are those of the listeners in force, by name.
func (r *Reconciler) ListenerNumbers() map[model.ListenerName]uint32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	numbers := make(map[model.ListenerName]uint32, len(r.listeners))
	for _, l := range r.listeners {
		if l.live != nil && l.number != 0 {
			numbers[l.name] = l.number
		}
	}
	return numbers
}

// ClusterIndex returns the index of the cluster with that key.
func (r *Reconciler) ClusterIndex(key model.ClusterKey) (uint32, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clusters.Index(key)
}

// SubsetIndex returns the index of what requests with these criteria are balanced among: the cluster's own without a subset for them.
func (r *Reconciler) SubsetIndex(key model.ClusterKey, criteria model.Metadata) (uint32, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.clusters.Index(key); !known {
		return 0, false
	}
	return r.clusters.EntryOf(key, criteria), true
}

// RetryRoot is what the retry of a request is balanced among whose policy leaves these priorities out: a group of the endpoints of these
// indices, not to be changed. It reports false where no other priority can take anything (clusters.Cluster.RetryRoot), and for what no route in force
// asks for.
func (r *Reconciler) RetryRoot(key model.ClusterKey, criteria model.Metadata, excluded []bool) (group compiled.Group, endpoints []uint32, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clusters.RetryRoot(key, criteria, excluded)
}

// Listener returns the listener of that number, one that has gone too: its connections may
// live. It reports false for a number that was never given, and when another listener has its entry.
func (r *Reconciler) Listener(number uint32) (name model.ListenerName, address netip.AddrPort, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.byIndex[r.cfg.Sizes.ListenerIndex(number)]
	if l == nil || l.number != number {
		return model.ListenerName{}, netip.AddrPort{}, false
	}
	return l.name, maps.Address(l.key.Addr, l.key.Port), true
}
