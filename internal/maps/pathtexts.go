// SPDX-License-Identifier: Apache-2.0

package maps

import (
	"errors"

	"github.com/cilium/ebpf"

	"github.com/xlb-project/xlb/internal/maps/bpfmap"
)

// pathTexts is the map of paths that are looked up by hash. An entry holds the current candidates of its key and has room for the next
// ones: see struct path_routes in bpf/lib/abi.h.
type pathTexts struct {
	g *bpfmap.GrowingHash[PathText, PathRoutes]
}

// NewPathTexts wraps the kernel map.
func NewPathTexts(g *bpfmap.GrowingHash[PathText, PathRoutes]) bpfmap.Table[PathText, Candidates] {
	return pathTexts{g}
}

// FirstPathRoutes is the entry of a new key.
func FirstPathRoutes(c Candidates) PathRoutes {
	return PathRoutes{Of: [2]abiCandidates{c}}
}

func (t pathTexts) Put(k PathText, v Candidates) error {
	return t.g.Change(func(m *ebpf.Map) error { return putPathText(m, &k, v) })
}

func putPathText(m *ebpf.Map, k *PathText, v Candidates) error {
	var entry PathRoutes
	err := m.Lookup(k, &entry)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		entry = FirstPathRoutes(v)
		return m.Update(k, &entry, ebpf.UpdateNoExist)
	}
	if err != nil {
		return err
	}
	next := 1 - entry.Current&1
	entry.Of[next] = v
	if err := writeInPlace(m, k, &entry); err != nil {
		return err
	}
	entry.Current = next
	return writeInPlace(m, k, &entry)
}

// writeInPlace changes the bytes of an entry that differ: with the lock the kernel copies into it, instead of exchanging it.
func writeInPlace(m *ebpf.Map, k *PathText, entry *PathRoutes) error {
	return m.Update(k, entry, ebpf.UpdateExist|ebpf.UpdateLock)
}

// PutAll is for keys that are new.
func (t pathTexts) PutAll(keys []PathText, list []Candidates) (int, error) {
	entries := make([]PathRoutes, len(list))
	for i, c := range list {
		entries[i] = FirstPathRoutes(c)
	}
	return t.g.PutAll(keys, entries)
}

func (t pathTexts) Delete(k PathText) error { return t.g.Delete(k) }

func (t pathTexts) Lookup(k PathText) (Candidates, bool, error) {
	entry, found, err := t.g.Lookup(k)
	return entry.current(), found, err
}

func (t pathTexts) Each(f func(PathText, Candidates) bool) error {
	return t.g.Each(func(k PathText, entry PathRoutes) bool { return f(k, entry.current()) })
}

func (r *PathRoutes) current() Candidates { return r.Of[r.Current&1] }
