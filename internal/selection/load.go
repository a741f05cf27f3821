// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"sync/atomic"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/slowpath"
)

// load implements slowpath.Load for a cluster.
type load struct {
	shared *maps.Shared
	index  uint32
	// number tells the cluster from others that have had the index.
	number uint32
}

// Enter implements slowpath.Load.
func (l load) Enter(limit uint32) (leave func(), ok bool) {
	if !l.shared.EnterCluster(l.index, l.number, limit) {
		return nil, false
	}
	return func() { l.shared.LeaveCluster(l.index, l.number) }, true
}

// Active implements slowpath.Load.
func (l load) Active() uint32 { return atomic.LoadUint32(&l.shared.Clusters[l.index].Active) }

// Hold implements slowpath.Load.
func (l load) Hold(hold bool) { l.shared.HoldCluster(l.index, l.number, hold) }

// Load is the count of a cluster's requests; nil for one that no route names any more.
func (s *Selector) Load(cluster string) slowpath.Load {
	for {
		now := s.cfg.Generation()
		c := now.ClusterEntry(cluster)
		if c == nil {
			return nil
		}
		number := s.cfg.Shared.ClusterNumber(c.Index())
		if s.cfg.Generation() == now {
			return load{s.cfg.Shared, c.Index(), number}
		}
		// The index may have become another cluster's before its number was read.
	}
}
