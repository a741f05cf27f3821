// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"net/netip"
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/compile/clusters"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
)

// Difference is what is new in a list of clusters.
type Difference struct {
	// whole: nothing is known of what was before, so that all is new.
	whole bool
	// Changed are new ones, and those that are not as before, which is replaced; Removed are not in the list any more.
	Changed           []*clusters.Cluster
	replaced, Removed []*clusters.Cluster
}

// All is the difference from what is not known.
func All(now []*clusters.Cluster) Difference {
	return Difference{whole: true, Changed: now}
}

// DifferenceOf compares pointers. It looks closer only at what lies between the same beginning and the same end.
func DifferenceOf(before, now []*clusters.Cluster) (d Difference) {
	for len(before) > 0 && len(now) > 0 && before[0] == now[0] {
		before, now = before[1:], now[1:]
	}
	for len(before) > 0 && len(now) > 0 && before[len(before)-1] == now[len(now)-1] {
		before, now = before[:len(before)-1], now[:len(now)-1]
	}
	byKey := make(map[model.ClusterKey]*clusters.Cluster, len(before))
	for _, c := range before {
		byKey[c.Key] = c
	}
	for _, c := range now {
		old := byKey[c.Key]
		delete(byKey, c.Key)
		if old == c {
			continue
		}
		d.Changed = append(d.Changed, c)
		if old != nil {
			d.replaced = append(d.replaced, old)
		}
	}
	for _, c := range before {
		if byKey[c.Key] != nil {
			d.Removed = append(d.Removed, c)
		}
	}
	return d
}

// UnlinkLeft takes away what a difference leaves out: clusters, subsets, and then endpoints.
func (r *Reconciler) UnlinkLeft(d *Difference) {
	if d.whole {
		r.unlinkClusters(d.Changed)
		r.retireEndpoints(d.Changed)
		return
	}
	for _, c := range d.Removed {
		r.unlinkCluster(c.Key)
	}
	for _, c := range d.Changed {
		r.unlinkSubsets(r.clusters[c.Key], c)
	}
	for _, c := range d.replaced {
		r.retireLeft(c, r.clusters[c.Key].compiled)
	}
	for _, c := range d.Removed {
		r.retireLeft(c, nil)
	}
}

// retireLeft marks the endpoints of a cluster that it does not have any more; nil: it has none.
func (r *Reconciler) retireLeft(before, now *clusters.Cluster) {
	keep := map[netip.AddrPort]struct{}{}
	if now != nil {
		for i := range now.Endpoints {
			keep[now.Endpoints[i].Address] = struct{}{}
		}
	}
	for i := range before.Endpoints {
		address := before.Endpoints[i].Address
		if _, stays := keep[address]; !stays {
			r.retire(r.endpoints[endpointKey{before.Key, address}])
		}
	}
}

// retire marks an endpoint that has left every schedule.
func (r *Reconciler) retire(e *endpoint) {
	atomic.OrUint32(&r.sh.Endpoints[e.index].Flags, uint32(maps.EndpointGone))
	e.gone, e.share = true, 0
	r.stats.Endpoints++
	r.touched.endpoints[e.index] = struct{}{}
}
