// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

func mustEnter(t *testing.T, s *Shared, owner LoadOwner, limit uint32) LoadEntry {
	t.Helper()
	entry, ok := s.EnterLoad(owner, limit)
	if !ok {
		t.Fatalf("a request of %+v is not counted: %d are in flight, the limit is %d", owner, s.ActiveLoad(owner), limit)
	}
	return entry
}

// sameSet returns so many accounts whose counts for a cluster are in one set.
func sameSet(cluster uint32, n int) (list []LoadOwner) {
	for account := uint32(1); len(list) < n; account++ {
		owner := LoadOwner{account, cluster}
		if len(list) == 0 || loadHash(owner.word())%loadSets == loadHash(list[0].word())%loadSets {
			list = append(list, owner)
		}
	}
	return list
}

func TestAccountsAreCountedApart(t *testing.T) {
	s := NewHeapShared(Sizes{Clusters: 2})
	s.NewCluster(0)
	s.NewCluster(1)
	hostile, other := LoadOwner{7, s.ClusterNumber(0)}, LoadOwner{8, s.ClusterNumber(0)}
	for range 1024 {
		mustEnter(t, s, hostile, 1024)
	}
	if _, ok := s.EnterLoad(hostile, 1024); ok {
		t.Error("one more than the limit is counted")
	}
	for _, owner := range []LoadOwner{other, {7, s.ClusterNumber(1)}} {
		if got := s.ActiveLoad(owner); got != 0 {
			t.Errorf("%+v: %d in flight, want none", owner, got)
		}
		mustEnter(t, s, owner, 1)
	}
	if got := s.FullestLoads(); got[hostile.Cluster] != 1024 || got[s.ClusterNumber(1)] != 1 || len(got) != 2 {
		t.Errorf("most in flight: got %v, want 1024 and 1", got)
	}
}

// More owners of one hash than a set has entries: those that find none share one, and each count comes back to 0.
func TestOwnersShareAPlaceWhereTheirSetIsFull(t *testing.T) {
	s := NewHeapShared(Sizes{})
	owners := sameSet(1, int(loadsOfSet)+2)
	var entries []LoadEntry
	for _, owner := range owners {
		entries = append(entries, mustEnter(t, s, owner, 1024))
	}
	taken := map[LoadEntry]int{}
	for i, p := range entries {
		if set := uint64(p-1) / loadsOfSet; set != loadHash(owners[i].word())%loadSets {
			t.Errorf("%+v is counted in set %d, which is not its own", owners[i], set)
		}
		taken[p]++
	}
	if len(taken) != int(loadsOfSet) {
		t.Errorf("%d entries are used, want all %d", len(taken), loadsOfSet)
	}
	last := owners[len(owners)-1]
	if got := int(s.ActiveLoad(last)); got != taken[entries[len(entries)-1]] || got < 2 {
		t.Errorf("the last owner counts %d, want those that share its entry", got)
	}
	for _, p := range entries {
		s.LeaveLoad(p)
	}
	for _, owner := range owners {
		if got := s.ActiveLoad(owner); got != 0 {
			t.Errorf("%+v: %d in flight at the end", owner, int32(got))
		}
	}
}

// A entry is another owner's only after two sweeps have found nothing there: one retires it, the other frees it.
func TestSweepsFreeWhatCountsNothing(t *testing.T) {
	s := NewHeapShared(Sizes{})
	owners := sameSet(1, int(loadsOfSet)+1)
	busy, idle, held := owners[0], owners[1], owners[2]
	inFlight := mustEnter(t, s, busy, 9)
	s.LeaveLoad(mustEnter(t, s, idle, 9))
	hold := s.HoldLoad(held)
	taken := func() (n int) {
		for i := range s.LoadSets[uint64(inFlight-1)/loadsOfSet].Owners {
			if s.LoadSets[uint64(inFlight-1)/loadsOfSet].Owners[i] != 0 {
				n++
			}
		}
		return n
	}
	s.SweepLoads()
	if got := taken(); got != 3 {
		t.Fatalf("after one sweep %d entries are taken, want 3", got)
	}
	if next := mustEnter(t, s, idle, 9); next == 0 || taken() != 4 {
		t.Fatalf("a request is counted at an entry that is retired")
	} else {
		s.LeaveLoad(next)
	}
	s.SweepLoads()
	s.SweepLoads()
	if got := taken(); got != 2 {
		t.Errorf("%d entries are taken, want those of requests in flight and held", got)
	}
	if got := s.ActiveLoad(busy); got != 1 {
		t.Errorf("%d in flight after sweeps, want 1", got)
	}
	s.LeaveLoad(inFlight)
	s.ReleaseLoad(hold)
	s.SweepLoads()
	s.SweepLoads()
	if got := taken(); got != 0 {
		t.Errorf("%d entries are taken at the end", got)
	}
}

// What a retired entry counts that its owner has begun at the moment of the sweep keeps it, and is taken back from it.
func TestARetiredPlaceStaysWhileItCounts(t *testing.T) {
	s := NewHeapShared(Sizes{})
	owner := LoadOwner{3, 4}
	entry := mustEnter(t, s, owner, 9)
	s.LeaveLoad(entry)
	s.SweepLoads()
	_, l := s.loadAt(entry)
	atomic.AddUint32(&l.Active, 1) // by a program that has found the entry before
	s.SweepLoads()
	s.SweepLoads()
	word, _ := s.loadAt(entry)
	if *word != owner.word()|loadRetired {
		t.Fatalf("an entry that counts a request has the owner %x", *word)
	}
	s.LeaveLoad(entry)
	s.SweepLoads()
	if *word != 0 {
		t.Errorf("the entry has the owner %x, want none", *word)
	}
}

// Clusters have their index one after the other: requests of one are in no count of the next.
func TestALateRequestIsNotCountedForTheNextCluster(t *testing.T) {
	s := NewHeapShared(Sizes{Clusters: 1})
	s.NewCluster(0)
	old := LoadOwner{0, s.ClusterNumber(0)}
	entry := mustEnter(t, s, old, 9)
	s.NewCluster(0)
	next := LoadOwner{0, s.ClusterNumber(0)}
	if next == old {
		t.Fatal("two clusters have one number")
	}
	mustEnter(t, s, next, 9)
	s.LeaveLoad(entry)
	if got, before := s.ActiveLoad(next), s.ActiveLoad(old); got != 1 || before != 0 {
		t.Errorf("in flight: got %d, and %d of the cluster before; want 1 and 0", got, before)
	}
}

func TestClusterNumbersStayBelowTheRetiredBit(t *testing.T) {
	s := NewHeapShared(Sizes{Clusters: 1})
	s.clusters = uint32(loadRetired) - 2
	for _, want := range []uint32{uint32(loadRetired) - 1, 1, 2} {
		if s.NewCluster(0); s.ClusterNumber(0) != want {
			t.Errorf("number %d, want %d", s.ClusterNumber(0), want)
		}
	}
}

// Requests of many owners come and go while entries are swept: whatever moment that is, nothing is left of them.
func TestCountsAreExactWhilePlacesAreSwept(t *testing.T) {
	s := NewHeapShared(Sizes{})
	owners := sameSet(1, int(loadsOfSet)+3)
	var ended atomic.Bool
	var sweeps, clients sync.WaitGroup
	sweeps.Go(func() {
		for !ended.Load() {
			s.SweepLoads()
			runtime.Gosched()
		}
	})
	for range 4 {
		clients.Go(func() {
			for range 20_000 {
				owner := owners[rand.N(len(owners))]
				if rand.N(8) == 0 {
					s.ReleaseLoad(s.HoldLoad(owner))
				}
				if entry, ok := s.EnterLoad(owner, 1000); ok {
					s.LeaveLoad(entry)
				}
			}
		})
	}
	clients.Wait()
	ended.Store(true)
	sweeps.Wait()
	for p := range LoadEntry(MaxLoads) {
		if _, l := s.loadAt(p + 1); *l != (Load{}) {
			t.Errorf("entry %d is left with %d in flight, %d waiting", p+1, int32(l.Active), int32(l.Waiting))
		}
	}
}

// Owners are spread evenly enough: with as many as 250 pods of ten destinations, or 1,000, hardly any shares an entry.
func TestOwnersAreSpread(t *testing.T) {
	for pods, most := range map[uint32]int{250: 0, 1000: 5} {
		s, shared := NewHeapShared(Sizes{}), 0
		seen := map[LoadEntry]bool{}
		for account := range pods {
			for cluster := range uint32(10) {
				p := mustEnter(t, s, LoadOwner{account, cluster + 1}, 1024)
				if seen[p] {
					shared++
				}
				seen[p] = true
			}
		}
		if shared > most {
			t.Errorf("%d pods of ten destinations: %d share an entry, want %d at most", pods, shared, most)
		}
	}
}
