// SPDX-License-Identifier: Apache-2.0

package maps

import "testing"

func TestALeaseLeavesItsClustersCountOnce(t *testing.T) {
	ends := map[string]func(*Shared){
		"whole":              func(s *Shared) { s.ResponseDone(s.Current(0)) },
		"broken":             func(s *Shared) { s.Break(0) },
		"both":               func(s *Shared) { s.ResponseDone(s.Current(0)); s.Break(0) },
		"broken, then whole": func(s *Shared) { s.Break(0); s.ResponseDone(s.Current(0)) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			s := NewHeapShared(Sizes{Clusters: 2, Endpoints: 1, Slots: 1})
			s.NewCluster(1)
			number := s.ClusterNumber(1)
			for range 2 {
				if !s.EnterCluster(1, number, 2) {
					t.Fatal("not counted")
				}
			}
			if s.EnterCluster(1, number, 2) {
				t.Error("one more than the limit")
			}
			s.Endpoints[0].Cluster = 1
			s.Slots[0] = Slot{State: uint32(SlotLeased), Holder: 1, Lease: 1, Pending: uint32(PendingResponse), PendingLease: 1, Counted: number}
			end(s)
			if got := s.Clusters[1].Active; got != 1 {
				t.Errorf("in flight: got %d, want 1", got)
			}
		})
	}
}

func TestALateLeaseIsNotTakenFromTheNextClustersCount(t *testing.T) {
	s := NewHeapShared(Sizes{Clusters: 1})
	s.NewCluster(0)
	old := s.ClusterNumber(0)
	if !s.EnterCluster(0, old, 9) {
		t.Fatal("not counted")
	}
	s.NewCluster(0)
	if !s.EnterCluster(0, s.ClusterNumber(0), 9) {
		t.Fatal("not counted")
	}
	if s.EnterCluster(0, old, 9) {
		t.Error("a request to the cluster of before is counted for the next")
	}
	s.LeaveCluster(0, old)
	if got := s.Clusters[0].Active; got != 1 {
		t.Errorf("in flight: got %d, want 1", got)
	}
}

// A lease that breaks before the request program has filled it is counted by the program, and ended by nobody.
func TestALeaseThatIsFilledTooLateLeavesItsClustersCountWithItsSlot(t *testing.T) {
	s := NewHeapShared(Sizes{Clusters: 2, Endpoints: 1, Slots: 1})
	s.NewCluster(1)
	number := s.ClusterNumber(1)
	if !s.EnterCluster(1, number, 2) {
		t.Fatal("not counted")
	}
	s.Endpoints[0].Cluster = 1
	s.Slots[0] = Slot{State: uint32(SlotLeased), Holder: 1, Lease: 1}
	s.Break(0)
	s.Slots[0].Counted = number
	s.Free(0)
	if got := s.Clusters[1].Active; got != 0 {
		t.Errorf("in flight: got %d, want 0", got)
	}
}

// Who waited for a cluster that has gone leaves the next one at its index alone.
func TestALateHoldIsNotTheNextClusters(t *testing.T) {
	s := NewHeapShared(Sizes{Clusters: 1})
	s.NewCluster(0)
	old := s.ClusterNumber(0)
	s.HoldCluster(0, old, true)
	if s.Clusters[0].Waiting != 1 {
		t.Fatal("not held")
	}
	s.NewCluster(0)
	s.HoldCluster(0, old, true)
	if s.Clusters[0].Waiting != 0 {
		t.Error("held for nobody, and for ever")
	}
	s.HoldCluster(0, s.ClusterNumber(0), true)
	s.HoldCluster(0, old, false)
	if s.Clusters[0].Waiting != 1 {
		t.Error("held no more by one that waits for another cluster")
	}
}
