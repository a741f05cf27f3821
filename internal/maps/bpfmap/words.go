// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"fmt"
	"sync/atomic"
)

// Words is the Table of an array of words in mapped memory. Each is written by one store, so a program reads the old one or the new one.
type Words []uint64

// Put implements Table.
func (w Words) Put(index uint32, word uint64) error {
	if int(index) >= len(w) {
		return fmt.Errorf("write word %d of an array of %d", index, len(w))
	}
	atomic.StoreUint64(&w[index], word)
	return nil
}

// PutAll implements Table.
func (w Words) PutAll(indices []uint32, list []uint64) (int, error) {
	for i, index := range indices {
		if err := w.Put(index, list[i]); err != nil {
			return i, err
		}
	}
	return len(indices), nil
}

// Delete makes the word 0: an array has all its entries.
func (w Words) Delete(index uint32) error { return w.Put(index, 0) }

// Lookup implements Table.
func (w Words) Lookup(index uint32) (uint64, bool, error) {
	if int(index) >= len(w) {
		return 0, false, nil
	}
	return atomic.LoadUint64(&w[index]), true, nil
}

// Each implements Table.
func (w Words) Each(f func(uint32, uint64) bool) error {
	for i := range w {
		if !f(uint32(i), atomic.LoadUint64(&w[i])) {
			return nil
		}
	}
	return nil
}
