// SPDX-License-Identifier: Apache-2.0

package maps

import "sync/atomic"

// The daemon's side of bpf/lib/breaker.h: the same counts.

// NoLimit stands for no limit of an account's requests in flight to a cluster, of which the kernel then counts none, and of the time without progress.
const NoLimit = uint32(abiNoLimitNO_LIMIT)

// The size of the table of loads.
const (
	loadSets    = uint64(abiLoadSizesLOAD_SETS)
	loadsOfSet  = uint64(abiLoadSizesLOADS_OF_SET)
	loadRetired = uint64(abiLoadSizesLOAD_RETIRED)
)

// MaxLoads is of how many pairs of an account and a cluster requests are counted apart.
const MaxLoads = int(loadSets * loadsOfSet)

// NewCluster begins a cluster at an index that may have been another's, requests of which may be in flight: they stay in its counts.
func (s *Shared) NewCluster(index uint32) {
	c := &s.Clusters[index]
	atomic.StoreUint32(&c.Limit, NoLimit)
	s.clusters = s.clusters%(uint32(loadRetired)-1) + 1
	atomic.StoreUint32(&c.Number, s.clusters)
	atomic.StoreUint32(&c.Whole, 0)
}

// SetLimit bounds the requests that the kernel may have in flight of each account to a cluster.
func (s *Shared) SetLimit(index, limit uint32) { atomic.StoreUint32(&s.Clusters[index].Limit, limit) }

// ClusterNumber tells the cluster at an index from others that were there before, and will be.
func (s *Shared) ClusterNumber(index uint32) uint32 {
	return atomic.LoadUint32(&s.Clusters[index].Number)
}

// LoadOwner is an account, and a cluster by its number: requests from the one to the other have a count of their own.
type LoadOwner struct{ Account, Cluster uint32 }

func (o LoadOwner) word() uint64 { return uint64(o.Account)<<32 | uint64(o.Cluster) }

// LoadEntry is where a request is counted; 0: it is not.
type LoadEntry uint32

// loadAt is the owner of an entry, and what it counts.
func (s *Shared) loadAt(p LoadEntry) (owner *uint64, l *Load) {
	at := uint64(p - 1)
	set := &s.LoadSets[at/loadsOfSet]
	return &set.Owners[at%loadsOfSet], &set.Loads[at%loadsOfSet]
}

// loadHash is the finalizer of MurmurHash3: the kernel's load_hash.
func loadHash(owner uint64) uint64 {
	owner = (owner ^ owner>>33) * 0xff51afd7ed558ccd
	owner = (owner ^ owner>>33) * 0xc4ceb9fe1a85ec53
	return owner ^ owner>>33
}

// lookForLoad returns the entry of an owner, or the one that it shares since its set is full; 0: it has none, and may take the one that is free.
func (s *Shared) lookForLoad(owner LoadOwner) (entry, free LoadEntry) {
	hash := loadHash(owner.word())
	set := hash % loadSets
	first := LoadEntry(set*loadsOfSet + 1)
	for i := range s.LoadSets[set].Owners {
		switch atomic.LoadUint64(&s.LoadSets[set].Owners[i]) {
		case owner.word():
			return first + LoadEntry(i), 0
		case 0:
			if free == 0 {
				free = first + LoadEntry(i)
			}
		}
	}
	if free == 0 {
		entry = first + LoadEntry(hash/loadSets%loadsOfSet)
	}
	return entry, free
}

// loadOf returns the entry of an owner, which it takes if it has none, as the kernel's load_of does. It needs loads.
func (s *Shared) loadOf(owner LoadOwner) LoadEntry {
	for {
		entry, free := s.lookForLoad(owner)
		if entry != 0 {
			return entry
		}
		if word, _ := s.loadAt(free); atomic.CompareAndSwapUint64(word, 0, owner.word()) {
			return free
		}
	}
}

// EnterLoad counts a request of the slow path, unless limit of its owner are in flight. LeaveLoad takes it back.
func (s *Shared) EnterLoad(owner LoadOwner, limit uint32) (entry LoadEntry, ok bool) {
	s.loads.RLock()
	defer s.loads.RUnlock()
	entry = s.loadOf(owner)
	_, l := s.loadAt(entry)
	for {
		active := atomic.LoadUint32(&l.Active)
		if active >= limit {
			return 0, false
		}
		if atomic.CompareAndSwapUint32(&l.Active, active, active+1) {
			return entry, true
		}
	}
}

// LeaveLoad takes back what was counted at an entry, once.
func (s *Shared) LeaveLoad(p LoadEntry) {
	if p == 0 {
		return
	}
	_, l := s.loadAt(p)
	atomic.AddUint32(&l.Active, ^uint32(0))
}

// TakeCounted makes it the caller's to take the lease of a slot from its count.
func (sl *Slot) TakeCounted() LoadEntry { return LoadEntry(atomic.SwapUint32(&sl.Counted, 0)) }

// ActiveLoad is how many requests of an owner are in flight, as far as they are counted.
func (s *Shared) ActiveLoad(owner LoadOwner) uint32 {
	entry, _ := s.lookForLoad(owner)
	if entry == 0 {
		return 0
	}
	_, l := s.loadAt(entry)
	return atomic.LoadUint32(&l.Active)
}

// HoldLoad makes the kernel hand over the requests of an owner of which some wait, if it counts them. ReleaseLoad takes it back.
func (s *Shared) HoldLoad(owner LoadOwner) LoadEntry {
	s.loads.RLock()
	defer s.loads.RUnlock()
	entry := s.loadOf(owner)
	_, l := s.loadAt(entry)
	atomic.AddUint32(&l.Waiting, 1)
	return entry
}

// ReleaseLoad is the counterpart of HoldLoad.
func (s *Shared) ReleaseLoad(p LoadEntry) {
	_, l := s.loadAt(p)
	atomic.AddUint32(&l.Waiting, ^uint32(0))
}

// FullestLoads is how many requests that owner has in flight that has most, by the number of the cluster.
func (s *Shared) FullestLoads() map[uint32]uint32 {
	most := map[uint32]uint32{}
	for p := range LoadEntry(MaxLoads) {
		word, l := s.loadAt(p + 1)
		if owner := atomic.LoadUint64(word); owner != 0 {
			cluster := uint32(owner &^ loadRetired)
			most[cluster] = max(most[cluster], atomic.LoadUint32(&l.Active))
		}
	}
	return most
}

// SweepLoads retires the entries that count nothing, and frees those that it has retired before and that count nothing still. In between lies
// more time than a program needs from its look at the owner to its count: a request that a freed entry counted would take room of the next owner, for as long
// as it lasts. One that a retired entry counts is missing from the count of its own, which allows one more.
func (s *Shared) SweepLoads() {
	s.loads.Lock()
	defer s.loads.Unlock()
	for p := range LoadEntry(MaxLoads) {
		word, l := s.loadAt(p + 1)
		switch owner := atomic.LoadUint64(word); {
		case owner == 0, atomic.LoadUint32(&l.Active) != 0, atomic.LoadUint32(&l.Waiting) != 0:
		case owner&loadRetired != 0:
			atomic.StoreUint64(word, 0)
		default:
			atomic.StoreUint64(word, owner|loadRetired)
		}
	}
}
