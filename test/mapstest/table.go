// SPDX-License-Identifier: Apache-2.0

package mapstest

import (
	"errors"
	"sync"
)

// ErrFault is what a faulty table returns.
var ErrFault = errors.New("injected map fault")

// FakeTable is a bpfmap.Table in memory. Fail, when set, is called before every
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

// Put implements bpfmap.Table.
func (t *FakeTable[K, V]) Put(k K, v V) error {
	return t.change(func() { t.m[k] = v })
}

// PutAll implements bpfmap.Table.
func (t *FakeTable[K, V]) PutAll(keys []K, values []V) (int, error) {
	for i := range keys {
		if err := t.Put(keys[i], values[i]); err != nil {
			return i, err
		}
	}
	return len(keys), nil
}

// Delete implements bpfmap.Table.
func (t *FakeTable[K, V]) Delete(k K) error {
	return t.change(func() { delete(t.m, k) })
}

// Lookup implements bpfmap.Table.
func (t *FakeTable[K, V]) Lookup(k K) (V, bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	v, ok := t.m[k]
	return v, ok, nil
}

// Each implements bpfmap.Table.
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
