// SPDX-License-Identifier: Apache-2.0

package maps

import "github.com/xlb-project/xlb/internal/maps/bpfmap"

// listenerWords are entries of listeners as words: the table is the lower half, the number the upper one, as struct listener has them in the order of the machine.
type listenerWords struct{ words bpfmap.Words }

func wordOfListener(l Listener) uint64 { return uint64(l.Number)<<32 | uint64(l.Table) }

func listenerOfWord(word uint64) Listener {
	return Listener{Table: uint32(word), Number: uint32(word >> 32)}
}

// Put implements bpfmap.Table.
func (t listenerWords) Put(index uint32, l Listener) error {
	return t.words.Put(index, wordOfListener(l))
}

// PutAll implements bpfmap.Table.
func (t listenerWords) PutAll(indices []uint32, list []Listener) (int, error) {
	for i, index := range indices {
		if err := t.Put(index, list[i]); err != nil {
			return i, err
		}
	}
	return len(indices), nil
}

// Delete implements bpfmap.Table: the entry is no listener's.
func (t listenerWords) Delete(index uint32) error { return t.words.Delete(index) }

// Lookup implements bpfmap.Table.
func (t listenerWords) Lookup(index uint32) (Listener, bool, error) {
	word, found, err := t.words.Lookup(index)
	return listenerOfWord(word), found, err
}

// Each implements bpfmap.Table.
func (t listenerWords) Each(f func(uint32, Listener) bool) error {
	return t.words.Each(func(index uint32, word uint64) bool { return f(index, listenerOfWord(word)) })
}
