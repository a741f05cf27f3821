// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/maps/bpfmap"
)

// Shared is the state that kernel programs and daemon change together: arrays in memory that both see.
// Every access to a field that bpf/lib/abi.h gives several writers goes through sync/atomic.
type Shared struct {
	Control  *Control
	Clusters []Cluster
	// LoadSets are the requests in flight by account and cluster, as a hash table.
	LoadSets []LoadSet
	// Groups are those that Cluster.Root and schedules of other groups lead to; 0 is none.
	Groups    []Group
	Endpoints []Endpoint
	// Addresses are those of Endpoints.
	Addresses []EndpointAddress
	Slots     []Slot
	// Pools are what Slot.Pool names.
	Pools []Pool
	// Copies of requests, by slot.
	Copies []RequestCopy
	// Schedules holds the turns that Group.Schedule points into.
	Schedules []Turn
	// HashPlaces holds the tables that Group.Table points into.
	HashPlaces []HashPlace
	// HashTables of Groups, nil where the policy does not hash: all of them, also those that HashPlaces have no room for. The kernel does not see them. Writer: reconcile.
	HashTables []atomic.Pointer[HashTable]
	// bucketLists, vhosts and listeners are those of Config.
	bucketLists, vhosts, listeners []uint64

	memory bpfmap.Memory
	// growing is empty where all entries are there from the beginning.
	growing map[Growing][]*bpfmap.Pages
	// folding is held while counters move from a slot to its endpoint, so that nobody counts them twice, or not at all.
	folding sync.Mutex
	// loads is held for writing while entries of LoadSets are freed: a request that finds one is counted there before it may be freed.
	loads sync.RWMutex
	// clusters is the number of the newest cluster. Writer: reconcile.
	clusters uint32
}

// NewHeapShared returns shared state that no kernel sees, for the slow path alone and for tests.
func NewHeapShared(sizes Sizes) *Shared {
	return &Shared{
		Control:   &Control{},
		Clusters:  make([]Cluster, sizes.Clusters),
		LoadSets:  make([]LoadSet, loadSets),
		Groups:    make([]Group, sizes.Groups),
		Endpoints: make([]Endpoint, sizes.Endpoints),
		Addresses: make([]EndpointAddress, sizes.Endpoints),
		Slots:     make([]Slot, sizes.Slots),
		Pools:     make([]Pool, sizes.Slots),
		Copies:    make([]RequestCopy, sizes.Slots),
		Schedules: make([]Turn, sizes.Schedules),

		HashPlaces: make([]HashPlace, sizes.HashPlaces),
		HashTables: make([]atomic.Pointer[HashTable], sizes.Groups),
	}
}

// Arrays are those of the kernel that MapShared maps.
type Arrays struct {
	Control, Clusters, LoadSets, Groups, Endpoints, Addresses, Pools, VHosts, Listeners *ebpf.Map
	// Copies may be nil: there are none.
	Slots, Copies, Schedules, HashPlaces, BucketLists *bpfmap.Pages
}

// MapShared maps the kernel's arrays into memory. Close unmaps them.
func MapShared(a Arrays) (*Shared, error) {
	s := &Shared{growing: map[Growing][]*bpfmap.Pages{
		GrowingSlots: {a.Slots}, GrowingSchedules: {a.Schedules}, GrowingHashPlaces: {a.HashPlaces}, GrowingBucketLists: {a.BucketLists},
	}}
	if err := s.mapAll(a); err != nil {
		s.Close()
		return nil, err
	}
	s.HashTables = make([]atomic.Pointer[HashTable], len(s.Groups))
	return s, nil
}

func (s *Shared) mapAll(a Arrays) error {
	m := &s.memory
	var control []Control
	if err := bpfmap.MapArray(&control, m, a.Control); err != nil {
		return err
	}
	s.Control = &control[0]
	if a.Copies != nil {
		s.growing[GrowingSlots] = append(s.growing[GrowingSlots], a.Copies)
		if err := bpfmap.MapPages(&s.Copies, m, a.Copies); err != nil {
			return err
		}
	}
	return errors.Join(
		bpfmap.MapArray(&s.Clusters, m, a.Clusters), bpfmap.MapArray(&s.LoadSets, m, a.LoadSets), bpfmap.MapArray(&s.Groups, m, a.Groups), bpfmap.MapArray(&s.Endpoints, m, a.Endpoints),
		bpfmap.MapArray(&s.Addresses, m, a.Addresses), bpfmap.MapArray(&s.Pools, m, a.Pools), bpfmap.MapArray(&s.vhosts, m, a.VHosts),
		bpfmap.MapArray(&s.listeners, m, a.Listeners), bpfmap.MapPages(&s.Slots, m, a.Slots),
		bpfmap.MapPages(&s.Schedules, m, a.Schedules), bpfmap.MapPages(&s.HashPlaces, m, a.HashPlaces), bpfmap.MapPages(&s.bucketLists, m, a.BucketLists),
	)
}

// Growing is an array whose entries must be held before they are written: see Hold.
type Growing int

// The arrays that grow. With slots grow the copies of their requests.
const (
	GrowingSlots Growing = iota
	GrowingSchedules
	GrowingHashPlaces
	GrowingBucketLists
)

// Hold makes sure that there are the entries [first, first+count). An error says that the kernel has no memory for them.
func (s *Shared) Hold(of Growing, first, count uint32) error {
	for _, p := range s.growing[of] {
		if err := p.Hold(first, count); err != nil {
			return err
		}
	}
	return nil
}

// VHosts are those of Config, in mapped memory.
func (s *Shared) VHosts() bpfmap.Table[uint32, uint64] { return bpfmap.Words(s.vhosts) }

// Listeners are those of Config, in mapped memory.
func (s *Shared) Listeners() bpfmap.Table[uint32, Listener] {
	return listenerWords{bpfmap.Words(s.listeners)}
}

// BucketLists are those of Config, in mapped memory.
func (s *Shared) BucketLists() bpfmap.Table[uint32, uint64] { return bpfmap.Words(s.bucketLists) }

// Close unmaps the arrays; they must not be used afterwards.
func (s *Shared) Close() { s.memory.Close() }
