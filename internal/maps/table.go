// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// Table is one map with typed keys and values.
type Table[K comparable, V any] interface {
	Put(K, V) error
	// PutAll writes several entries, in order, and returns how many it has written: after an error fewer than all.
	PutAll([]K, []V) (int, error)
	// Delete removes a key; one that is not there is no error.
	Delete(K) error
	Lookup(K) (V, bool, error)
	// Each calls f for every entry until it returns false. Concurrent changes may or may not be seen.
	Each(f func(K, V) bool) error
}

// Turn is an entry of a schedule: the index of an endpoint or of a group, in 8 bytes because the array is mapped into memory.
type Turn = uint64

// Config are the maps that hold the compiled configuration. Reconcile writes them, the kernel programs read them.
type Config struct {
	VIPs        Table[ListenerKey, uint32]
	Listeners   Table[uint32, Listener]
	RouteTables Table[uint32, RouteTable]
	Routes      Table[uint32, Route]
	Splits      Table[uint32, Split]
	Rewrites    Table[uint32, Rewrite]
	RetrySets   Table[uint32, RetrySet]
	Automata    Table[uint32, Automaton]
	Cells       Table[uint32, Cells]
	Accepts     Table[uint32, Candidates]
	// AcceptedValues are for automata over the values of headers.
	AcceptedValues Table[uint32, Value]
	Schedules      Table[uint32, Turn]
	Hosts          Table[HostKey, uint32]
	// VHosts are the words of struct vhost. A word is exchanged by one store.
	VHosts Table[uint32, uint64]
	// PathTexts exchanges what a key has without a moment in which a program finds neither; what was exchanged before, or deleted,
	// must not be read by any program any more.
	PathTexts Table[PathText, Candidates]
	Paths     Table[PathKey, Candidates]
	Tuples    Table[uint32, Tuple]
	// Buckets leads to BucketLists, each of which is two 32-bit numbers in one word: the first route is the lower half, and the number of
	// routes the upper one. A list is exchanged by one store.
	Buckets     Table[BucketKey, uint32]
	BucketLists Table[uint32, uint64]
	Fields      Table[FieldKey, AskedField]
	Values      Table[ValueKey, Value]
	Prefixes    Table[ValueKey, Value]
	// Sizes of the arrays above, in entries.
	Sizes Sizes
	// Settle returns when no program still uses what was unlinked before the call.
	Settle func() error
}

// Sizes are the numbers of entries that maps hold.
type Sizes struct {
	Listeners, RouteTables, Routes, Splits, Tuples, Schedules uint32
	VHosts, Rewrites, RetrySets                               uint32
	Automata, Cells, Accepts, AcceptedValues, BucketLists     uint32
	Clusters, Groups, Endpoints, Slots, HashPlaces            uint32
}

// kernelTable is a Table in the kernel.
type kernelTable[K comparable, V any] struct {
	m    *ebpf.Map
	name string
}

// NewTable wraps a kernel map. The sizes of K and V must be the map's.
func NewTable[K comparable, V any](name string, m *ebpf.Map) Table[K, V] {
	return &kernelTable[K, V]{m: m, name: name}
}

func (t *kernelTable[K, V]) Put(k K, v V) error {
	// Pointers are passed on as they are, values are encoded field by field.
	if err := t.m.Put(&k, &v); err != nil {
		return fmt.Errorf("write map %s: %w", t.name, err)
	}
	return nil
}

// batchEntries is how many entries one system call writes: the kernel is not to be held up for long.
const batchEntries = 1024

func (t *kernelTable[K, V]) PutAll(keys []K, values []V) (int, error) {
	for at := 0; at < len(keys); {
		n := min(batchEntries, len(keys)-at)
		written, err := t.m.BatchUpdate(keys[at:at+n], values[at:at+n], nil)
		if errors.Is(err, ebpf.ErrNotSupported) {
			return t.putEach(at, keys, values)
		}
		at += written
		if err != nil {
			return at, fmt.Errorf("write map %s: %w", t.name, err)
		}
	}
	return len(keys), nil
}

// putEach is for kernels that do not take several entries of this kind of map at once.
func (t *kernelTable[K, V]) putEach(at int, keys []K, values []V) (int, error) {
	for ; at < len(keys); at++ {
		if err := t.Put(keys[at], values[at]); err != nil {
			return at, err
		}
	}
	return at, nil
}

func (t *kernelTable[K, V]) Delete(k K) error {
	if err := t.m.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("delete from map %s: %w", t.name, err)
	}
	return nil
}

func (t *kernelTable[K, V]) Lookup(k K) (V, bool, error) {
	var v V
	err := t.m.Lookup(k, &v)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return v, false, nil
	}
	if err != nil {
		return v, false, fmt.Errorf("read map %s: %w", t.name, err)
	}
	return v, true, nil
}

func (t *kernelTable[K, V]) Each(f func(K, V) bool) error {
	var k K
	var v V
	it := t.m.Iterate()
	for it.Next(&k, &v) {
		if !f(k, v) {
			return nil
		}
	}
	if err := it.Err(); err != nil {
		return fmt.Errorf("list map %s: %w", t.name, err)
	}
	return nil
}
