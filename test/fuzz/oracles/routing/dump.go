// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"

	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
)

// writeMaps writes the entries of maps for bpf/test/maps.c, map by map in the order of its enum map_number. Of each: the sizes of a
// key and of a value and the number of entries, 32 bits each; then the entries.
func (w *world) writeMaps(name string) error {
	numbers, err := w.tableNumbers()
	if err != nil {
		return err
	}
	out := dump{}
	out.add(numbers)
	writeTable(&out, w.cfg.RouteTables)
	writeTable(&out, w.cfg.Routes)
	writeTable(&out, w.cfg.Tuples)
	writeTable(&out, w.cfg.Splits)
	writeTable(&out, w.cfg.Automata)
	writeTable(&out, w.cfg.Cells)
	writeTable(&out, w.cfg.Accepts)
	writeTable(&out, w.cfg.AcceptedValues)
	writeTable(&out, w.cfg.Hosts)
	writeTable(&out, w.cfg.VHosts)
	writeAs(&out, w.cfg.PathTexts, maps.FirstPathRoutes)
	writeTable(&out, w.cfg.Paths)
	writeTable(&out, w.cfg.Buckets)
	writeTable(&out, w.cfg.BucketLists)
	writeTable(&out, w.cfg.Fields)
	writeTable(&out, w.cfg.Values)
	writeTable(&out, w.cfg.Prefixes)
	if out.err != nil {
		return out.err
	}
	return os.WriteFile(name, out.Bytes(), 0o644)
}

// entry is a key and its value, as they lie in the map.
type entry struct{ key, value []byte }

// tableNumbers are the route tables' numbers in the maps, by the first byte of an input.
func (w *world) tableNumbers() ([]entry, error) {
	var found []entry
	for i := range tables {
		number, _, err := w.cfg.VIPs.Lookup(maps.KeyOf(addressOf(i)))
		if err != nil {
			return nil, err
		}
		listener, _, err := w.cfg.Listeners.Lookup(w.cfg.Sizes.ListenerIndex(number))
		if err != nil {
			return nil, err
		}
		found = append(found, entry{
			key:   binary.NativeEndian.AppendUint32(nil, uint32(i)),
			value: binary.NativeEndian.AppendUint32(nil, listener.Table),
		})
	}
	return found, nil
}

// dump is the file, and the first error.
type dump struct {
	bytes.Buffer
	err error
}

// add writes a map with at least one entry.
func (d *dump) add(entries []entry) {
	slices.SortFunc(entries, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	for _, n := range []int{len(entries[0].key), len(entries[0].value), len(entries)} {
		d.Write(binary.NativeEndian.AppendUint32(nil, uint32(n)))
	}
	for _, e := range entries {
		d.Write(e.key)
		d.Write(e.value)
	}
}

// writeTable writes a map. One that is empty would be a kind of match that no table has: it is an error.
func writeTable[K comparable, V any](d *dump, t bpfmap.Table[K, V]) {
	writeAs(d, t, func(v V) V { return v })
}

// writeAs writes a map in which programs see the values in another form.
func writeAs[K comparable, V, W any](d *dump, t bpfmap.Table[K, V], form func(V) W) {
	var entries []entry
	err := t.Each(func(k K, v V) bool {
		entries = append(entries, entry{d.encode(k), d.encode(form(v))})
		return true
	})
	switch {
	case d.err != nil:
	case err != nil:
		d.err = err
	case len(entries) == 0:
		d.err = fmt.Errorf("no table has an entry of type %T", *new(V))
	default:
		d.add(entries)
	}
}

func (d *dump) encode(v any) []byte {
	b, err := binary.Append(nil, binary.NativeEndian, v)
	if err != nil {
		d.err = err
	}
	return b
}
