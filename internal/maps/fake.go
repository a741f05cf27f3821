// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"errors"
	"sync"
)

// ErrFault is what a faulty table returns.
var ErrFault = errors.New("injected map fault")

// FakeTable is a Table in memory, for tests without privileges. Fail, when set, is asked before every
// change: true makes it return ErrFault and change nothing.
type FakeTable[K comparable, V any] struct {
	mu sync.Mutex
	m  map[K]V
	// Writes counts successful changes.
	Writes int
	Fail   func() bool
}

// NewFakeTable returns an empty table.
func NewFakeTable[K comparable, V any](fail func() bool) *FakeTable[K, V] {
	return &FakeTable[K, V]{m: map[K]V{}, Fail: fail}
}

func (t *FakeTable[K, V]) change(f func()) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Fail != nil && t.Fail() {
		return ErrFault
	}
	t.Writes++
	f()
	return nil
}

// Put implements Table.
func (t *FakeTable[K, V]) Put(k K, v V) error {
	return t.change(func() { t.m[k] = v })
}

// PutAll implements Table.
func (t *FakeTable[K, V]) PutAll(keys []K, values []V) (int, error) {
	for i := range keys {
		if err := t.Put(keys[i], values[i]); err != nil {
			return i, err
		}
	}
	return len(keys), nil
}

// Delete implements Table.
func (t *FakeTable[K, V]) Delete(k K) error {
	return t.change(func() { delete(t.m, k) })
}

// Lookup implements Table.
func (t *FakeTable[K, V]) Lookup(k K) (V, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.m[k]
	return v, ok, nil
}

// Each implements Table.
func (t *FakeTable[K, V]) Each(f func(K, V) bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, v := range t.m {
		if !f(k, v) {
			break
		}
	}
	return nil
}

// NewFakeConfig returns configuration maps in memory; fail may be nil.
func NewFakeConfig(sizes Sizes, fail func() bool) *Config {
	return &Config{
		VIPs:           NewFakeTable[ListenerKey, uint32](fail),
		Listeners:      NewFakeTable[uint32, Listener](fail),
		RouteTables:    NewFakeTable[uint32, RouteTable](fail),
		Routes:         NewFakeTable[uint32, Route](fail),
		Splits:         NewFakeTable[uint32, Split](fail),
		Rewrites:       NewFakeTable[uint32, Rewrite](fail),
		RetrySets:      NewFakeTable[uint32, RetrySet](fail),
		Automata:       NewFakeTable[uint32, Automaton](fail),
		Cells:          NewFakeTable[uint32, Cells](fail),
		Accepts:        NewFakeTable[uint32, Candidates](fail),
		AcceptedValues: NewFakeTable[uint32, Value](fail),
		Schedules:      NewFakeTable[uint32, Turn](fail),
		Hosts:          NewFakeTable[HostKey, uint32](fail),
		VHosts:         NewFakeTable[uint32, uint64](fail),
		PathTexts:      NewFakeTable[PathText, Candidates](fail),
		Paths:          NewFakeTable[PathKey, Candidates](fail),
		Tuples:         NewFakeTable[uint32, Tuple](fail),
		Buckets:        NewFakeTable[BucketKey, uint32](fail),
		BucketLists:    NewFakeTable[uint32, uint64](fail),
		Fields:         NewFakeTable[FieldKey, AskedField](fail),
		Values:         NewFakeTable[ValueKey, Value](fail),
		Prefixes:       NewFakeTable[ValueKey, Value](fail),
		Sizes:          sizes,
		Settle:         func() error { return nil },
	}
}
