// SPDX-License-Identifier: Apache-2.0

package bpfmap

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
