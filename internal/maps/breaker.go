// SPDX-License-Identifier: Apache-2.0

package maps

import "sync/atomic"

// The daemon's side of bpf/lib/breaker.h: the same count.

// NoLimit stands for no limit of a cluster's requests in flight, of which the kernel then counts none, and of the time without progress.
const NoLimit = uint32(abiNoLimitNO_LIMIT)

// NewCluster begins the count of a cluster at an index that may have been another's, requests of which may be in flight.
func (s *Shared) NewCluster(index uint32) {
	s.counting.Lock()
	defer s.counting.Unlock()
	c := &s.Clusters[index]
	atomic.StoreUint32(&c.Limit, NoLimit)
	atomic.StoreUint32(&c.Number, max(atomic.LoadUint32(&c.Number)+1, 1))
	atomic.StoreUint32(&c.Active, 0)
	atomic.StoreUint32(&c.Waiting, 0)
	atomic.StoreUint32(&c.Whole, 0)
}

// SetLimit bounds the requests that the kernel may have in flight to a cluster.
func (s *Shared) SetLimit(index, limit uint32) { atomic.StoreUint32(&s.Clusters[index].Limit, limit) }

// EnterCluster counts a request of the slow path to the cluster of that number, unless limit are in flight, or the index is another cluster's by now.
func (s *Shared) EnterCluster(index, number, limit uint32) (ok bool) {
	s.counting.RLock()
	defer s.counting.RUnlock()
	c := &s.Clusters[index]
	if atomic.LoadUint32(&c.Number) != number {
		return false
	}
	for {
		active := atomic.LoadUint32(&c.Active)
		if active >= limit {
			return false
		}
		if atomic.CompareAndSwapUint32(&c.Active, active, active+1) {
			return true
		}
	}
}

// LeaveCluster takes back what was counted, unless the index is another cluster's by now.
func (s *Shared) LeaveCluster(index, number uint32) {
	if number == 0 {
		return
	}
	s.counting.RLock()
	defer s.counting.RUnlock()
	if c := &s.Clusters[index]; atomic.LoadUint32(&c.Number) == number {
		atomic.AddUint32(&c.Active, ^uint32(0))
	}
}

// Counts reports whether requests to the cluster at an index are in flight, of those that are counted.
func (s *Shared) Counts(index uint32) bool { return atomic.LoadUint32(&s.Clusters[index].Active) != 0 }

// ClusterNumber tells the cluster at an index from others that were there before, and will be.
func (s *Shared) ClusterNumber(index uint32) uint32 {
	return atomic.LoadUint32(&s.Clusters[index].Number)
}

// HoldCluster makes the kernel hand over the requests to a cluster of which some wait, if it counts them, unless the index is another
// cluster's by now.
func (s *Shared) HoldCluster(index, number uint32, hold bool) {
	if s.ClusterNumber(index) != number {
		return
	}
	var word uint32
	if hold {
		word = 1
	}
	atomic.StoreUint32(&s.Clusters[index].Waiting, word)
}

// uncount takes a lease that ends from the count of its endpoint's cluster.
func (s *Shared) uncount(sl *Slot, of *Endpoint) {
	s.LeaveCluster(atomic.LoadUint32(&of.Cluster), atomic.SwapUint32(&sl.Counted, 0))
}
