// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Shared is the state that kernel programs and daemon change together: arrays in memory that both see.
// Every access to a field that bpf/lib/abi.h gives several writers goes through sync/atomic.
type Shared struct {
	Control  *Control
	Clusters []Cluster
	// Groups are those that Cluster.Root and schedules of other groups lead to; 0 is none.
	Groups    []Group
	Endpoints []Endpoint
	// Addresses are those of Endpoints.
	Addresses []EndpointAddress
	Slots     []Slot
	// Copies of requests, by slot.
	Copies []RequestCopy
	// Schedules holds the turns that Group.Schedule points into.
	Schedules []Turn
	// HashPlaces holds the tables that Group.Table points into.
	HashPlaces []HashPlace
	// HashTables of Groups, nil where the policy does not hash: all of them, also those that HashPlaces have no room for. The kernel does not see them. Writer: reconcile.
	HashTables []atomic.Pointer[HashTable]
	// bucketLists and vhosts are those of Config.
	bucketLists, vhosts []uint64

	mappings [][]byte
	// folding is held while counters move from a slot to its endpoint, so that nobody counts them twice, or not at all.
	folding sync.Mutex
}

// NewHeapShared returns shared state that no kernel sees, for the slow path alone and for tests.
func NewHeapShared(sizes Sizes) *Shared {
	return &Shared{
		Control:   &Control{},
		Clusters:  make([]Cluster, sizes.Clusters),
		Groups:    make([]Group, sizes.Groups),
		Endpoints: make([]Endpoint, sizes.Endpoints),
		Addresses: make([]EndpointAddress, sizes.Endpoints),
		Slots:     make([]Slot, sizes.Slots),
		Copies:    make([]RequestCopy, sizes.Slots),
		Schedules: make([]Turn, sizes.Schedules),

		HashPlaces: make([]HashPlace, sizes.HashPlaces),
		HashTables: make([]atomic.Pointer[HashTable], sizes.Groups),
	}
}

// MapShared maps the kernel's arrays into memory. Close unmaps them.
func MapShared(control, clusters, groups, endpoints, addresses, slots, copies, schedules, hashPlaces, bucketLists, vhosts *ebpf.Map) (*Shared, error) {
	s := &Shared{}
	c, err := mapArray[Control](s, control)
	if err != nil {
		return nil, err
	}
	s.Control = &c[0]
	if s.Clusters, err = mapArray[Cluster](s, clusters); err != nil {
		s.Close()
		return nil, err
	}
	if s.Groups, err = mapArray[Group](s, groups); err != nil {
		s.Close()
		return nil, err
	}
	s.HashTables = make([]atomic.Pointer[HashTable], len(s.Groups))
	if s.Endpoints, err = mapArray[Endpoint](s, endpoints); err != nil {
		s.Close()
		return nil, err
	}
	if s.Addresses, err = mapArray[EndpointAddress](s, addresses); err != nil {
		s.Close()
		return nil, err
	}
	if s.Slots, err = mapArray[Slot](s, slots); err != nil {
		s.Close()
		return nil, err
	}
	if s.Copies, err = mapArray[RequestCopy](s, copies); err != nil {
		s.Close()
		return nil, err
	}
	if s.Schedules, err = mapArray[Turn](s, schedules); err != nil {
		s.Close()
		return nil, err
	}
	if s.HashPlaces, err = mapArray[HashPlace](s, hashPlaces); err != nil {
		s.Close()
		return nil, err
	}
	if s.bucketLists, err = mapArray[uint64](s, bucketLists); err != nil {
		s.Close()
		return nil, err
	}
	if s.vhosts, err = mapArray[uint64](s, vhosts); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// VHosts are those of Config, in mapped memory.
func (s *Shared) VHosts() Table[uint32, uint64] { return words(s.vhosts) }

// BucketLists are those of Config, in mapped memory.
func (s *Shared) BucketLists() Table[uint32, uint64] { return words(s.bucketLists) }

// Close unmaps the arrays; they must not be used afterwards.
func (s *Shared) Close() {
	for _, b := range s.mappings {
		// Unmapping a mapping of ours cannot fail.
		_ = unix.Munmap(b)
	}
	s.mappings = nil
}

func mapArray[T any](s *Shared, m *ebpf.Map) ([]T, error) {
	var t T
	size := int(unsafe.Sizeof(t))
	if int(m.ValueSize()) != size {
		return nil, fmt.Errorf("map %s: values of %d bytes, want %d: the kernel object and the daemon differ", m, m.ValueSize(), size)
	}
	// Array values are 8 bytes apart at least.
	stride := (size + 7) &^ 7
	if stride != size {
		return nil, fmt.Errorf("map %s: values of %d bytes are not a whole number of words", m, size)
	}
	bytes := size * int(m.MaxEntries())
	b, err := unix.Mmap(m.FD(), 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s into memory: %w", m, err)
	}
	s.mappings = append(s.mappings, b)
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), m.MaxEntries()), nil
}
