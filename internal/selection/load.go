// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/model"
	"github.com/xlb-project/xlb/internal/slowpath"
	"github.com/xlb-project/xlb/internal/workload"
)

// load implements slowpath.Load.
type load struct {
	shared *maps.Shared
	owner  maps.LoadOwner
}

// Enter implements slowpath.Load.
func (l load) Enter(limit uint32) (leave func(), ok bool) {
	entry, ok := l.shared.EnterLoad(l.owner, limit)
	return func() { l.shared.LeaveLoad(entry) }, ok
}

// Active implements slowpath.Load.
func (l load) Active() uint32 { return l.shared.ActiveLoad(l.owner) }

// Hold implements slowpath.Load.
func (l load) Hold() (release func()) {
	entry := l.shared.HoldLoad(l.owner)
	return func() { l.shared.ReleaseLoad(entry) }
}

// loads implements slowpath.Loads.
type loads struct{ s *Selector }

// Loads are the requests in flight of all accounts.
func (s *Selector) Loads() slowpath.Loads { return loads{s} }

// Of implements slowpath.Loads.
func (l loads) Of(cluster model.ClusterKey, account workload.ID) slowpath.Load {
	if number, ok := l.s.clusterNumber(cluster); ok {
		return load{l.s.cfg.Shared, maps.LoadOwner{Account: uint32(account), Cluster: number}}
	}
	return nil
}

// Fullest implements slowpath.Loads.
func (l loads) Fullest() func(cluster model.ClusterKey) uint32 {
	most := l.s.cfg.Shared.FullestLoads()
	return func(cluster model.ClusterKey) uint32 {
		number, ok := l.s.clusterNumber(cluster)
		if !ok {
			return 0
		}
		return most[number]
	}
}

// clusterNumber is that of a cluster in the maps; false: no route names it any more.
func (s *Selector) clusterNumber(cluster model.ClusterKey) (uint32, bool) {
	for {
		now := s.cfg.Generation()
		c := now.ClusterEntry(cluster)
		if c == nil {
			return 0, false
		}
		number := s.cfg.Shared.ClusterNumber(c.Index())
		if s.cfg.Generation() == now {
			return number, true
		}
		// The index may have become another cluster's before its number was read.
	}
}
