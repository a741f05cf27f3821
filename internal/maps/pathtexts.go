// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// pathTexts is the map of paths that are looked up by hash. An entry holds the current candidates of its key and has room for the next
// ones: see struct path_routes in bpf/lib/abi.h.
type pathTexts struct {
	m    *ebpf.Map
	name string
}

// NewPathTexts wraps the kernel map.
func NewPathTexts(name string, m *ebpf.Map) Table[PathText, Candidates] {
	return &pathTexts{m: m, name: name}
}

// FirstPathRoutes is the entry of a new key.
func FirstPathRoutes(c Candidates) PathRoutes {
	return PathRoutes{Of: [2]abiCandidates{c}}
}

func (t *pathTexts) Put(k PathText, v Candidates) error {
	if err := t.put(&k, v); err != nil {
		return fmt.Errorf("write map %s: %w", t.name, err)
	}
	return nil
}

func (t *pathTexts) put(k *PathText, v Candidates) error {
	var entry PathRoutes
	err := t.m.Lookup(k, &entry)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		entry = FirstPathRoutes(v)
		return t.m.Update(k, &entry, ebpf.UpdateNoExist)
	}
	if err != nil {
		return err
	}
	next := 1 - entry.Current&1
	entry.Of[next] = v
	if err := t.writeInPlace(k, &entry); err != nil {
		return err
	}
	entry.Current = next
	return t.writeInPlace(k, &entry)
}

// writeInPlace changes the bytes of an entry that differ: with the lock the kernel copies into it, instead of exchanging it.
func (t *pathTexts) writeInPlace(k *PathText, entry *PathRoutes) error {
	return t.m.Update(k, entry, ebpf.UpdateExist|ebpf.UpdateLock)
}

// PutAll is for keys that are new.
func (t *pathTexts) PutAll(keys []PathText, list []Candidates) (int, error) {
	entries := make([]PathRoutes, len(list))
	for i, c := range list {
		entries[i] = FirstPathRoutes(c)
	}
	return t.table().PutAll(keys, entries)
}

func (t *pathTexts) Delete(k PathText) error { return t.table().Delete(k) }

func (t *pathTexts) Lookup(k PathText) (Candidates, bool, error) {
	entry, found, err := t.table().Lookup(k)
	return entry.current(), found, err
}

func (t *pathTexts) Each(f func(PathText, Candidates) bool) error {
	return t.table().Each(func(k PathText, entry PathRoutes) bool { return f(k, entry.current()) })
}

func (t *pathTexts) table() Table[PathText, PathRoutes] {
	return NewTable[PathText, PathRoutes](t.name, t.m)
}

func (r *PathRoutes) current() Candidates { return r.Of[r.Current&1] }
