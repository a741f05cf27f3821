// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	gomaps "maps"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/maps"
)

// valueName is a value of a header, or the beginning of one, across reloads.
type valueName struct {
	field    string
	isPrefix bool
	text     string
}

// valueEntry is what the maps know of a value.
type valueEntry struct {
	// field is the header's place in the table's fields.
	field uint32
	text  string
	value maps.Value
}

func compareValues(a, b valueEntry) int {
	return cmp.Or(cmp.Compare(a.field, b.field), strings.Compare(a.text, b.text))
}

// numberValues gives the values of a table's headers the classes they have in the live version, or new ones: so that what is in an index
// stays when a value comes or goes. A class that was given is never given to another value.
func (d *draft) numberValues(s *source) {
	var known map[valueName]uint32
	if d.live != nil {
		known = d.live.classes
	}
	d.classes = make(map[valueName]uint32, len(d.table.Values)+len(d.table.Prefixes))
	number := func(list []compile.Value, isPrefix bool) []valueEntry {
		entries := make([]valueEntry, 0, len(list))
		for _, v := range list {
			e := valueEntry{field: v.Field, text: v.Text, value: maps.Value{Bits: v.Bits}}
			if v.Class != 0 {
				f := &d.table.Fields[v.Field]
				name := valueName{f.Name, isPrefix, v.Text}
				class, is := known[name]
				if !is {
					class = d.r.nextClass
					d.r.nextClass++
				}
				d.classes[name] = class
				s.setClass(f.Slot, v.Class, class)
				e.value.Class = class
			}
			entries = append(entries, e)
		}
		return entries
	}
	d.values, d.prefixes = number(d.table.Values, false), number(d.table.Prefixes, true)
}

func (s *source) setClass(slot, from, to uint32) {
	for uint32(len(s.classes[slot])) <= from {
		s.classes[slot] = append(s.classes[slot], uint32(len(s.classes[slot])))
	}
	s.classes[slot][from] = to
}

// classOf is the class in the maps; of those that no value has it is the compiled one.
func (s *source) classOf(slot uint8, class uint32) uint32 {
	if class < compile.FirstClass {
		return class
	}
	return s.classes[slot][class]
}

// valueEdits are the differences between lists of values, which are sorted.
type valueEdits struct {
	added, deleted []valueEntry
	// isReplaced says that some value stays with other conditions.
	isReplaced bool
}

func valueEditsOf(have, want []valueEntry) (e valueEdits) {
	merge(have, want, compareValues,
		func(gone *valueEntry) { e.deleted = append(e.deleted, *gone) },
		func(added *valueEntry) { e.added = append(e.added, *added) },
		func(from, to *valueEntry) { e.isReplaced = e.isReplaced || *from != *to })
	return e
}

func (e *valueEdits) empty() bool { return len(e.added)+len(e.deleted) == 0 && !e.isReplaced }

// switchOneLookUp reports whether values alone decide over the switch: a request looks up one value of a header. What an index has for the
// values that come is then found by nobody before, and what it has for those that go by nobody afterwards. No record is replaced in a hash: a
// look-up could miss both.
func (e *valueEdits) switchOneLookUp(changes []*indexChange) bool {
	if e.isReplaced {
		return false
	}
	fields := map[uint32]bool{}
	for _, v := range slices.Concat(e.added, e.deleted) {
		fields[v.field] = true
	}
	come, leave := classesOf(e.added), classesOf(e.deleted)
	isFoundBy := func(classes map[uint32]bool) func(bucket) bool {
		return func(b bucket) bool {
			return slices.ContainsFunc(b.classes[:], func(c uint32) bool { return classes[c] })
		}
	}
	for _, c := range changes {
		if len(c.replaced) > 0 || !isTrueOfAll(c.added, isFoundBy(come)) || !isTrueOfAll(c.deleted, isFoundBy(leave)) {
			return false
		}
	}
	return len(fields) == 1
}

// classesOf are those by which indexes find the values.
func classesOf(list []valueEntry) map[uint32]bool {
	classes := map[uint32]bool{}
	for _, v := range list {
		if v.value.Class != 0 {
			classes[v.value.Class] = true
		}
	}
	return classes
}

func isTrueOfAll[E any](list []E, holds func(E) bool) bool {
	return !slices.ContainsFunc(list, func(e E) bool { return !holds(e) })
}

// changeIndexes changes what is known of values and the indexes in place.
func (d *draft) changeIndexes() error {
	if d.edits.empty() && len(d.changes) == 0 {
		return nil
	}
	r, v := d.r, d.live
	// The memory of deleted entries of a hash may be used again at once, while programs read it.
	if r.unlinked.unsettled {
		if err := r.settle(); err != nil {
			return err
		}
	}
	v.classes = gomaps.Clone(v.classes)
	gomaps.Copy(v.classes, d.classes)
	return inOrder(
		func() error { return d.eachChange((*indexChange).add) },
		func() error { return d.addValues() },
		func() error { return d.eachChange((*indexChange).replace) },
		func() error { return d.deleteValues() },
		func() error { return d.eachChange((*indexChange).remove) },
	)
}

func (d *draft) eachChange(do func(*indexChange, *unlinked) error) error {
	for _, c := range d.changes {
		if err := do(c, &d.r.unlinked); err != nil {
			return err
		}
	}
	return nil
}

func (d *draft) addValues() error {
	r, v := d.r, d.live
	var w batch[maps.ValueKey, maps.Value]
	for _, e := range d.edits.added {
		w.add(v.valueKey(e), e.value)
	}
	n, err := r.cfg.Values.PutAll(w.keys, w.values)
	r.stats.Values += n
	r.unlinked.unsettled = r.unlinked.unsettled || n > 0
	v.values = append(slices.Clone(v.values), d.edits.added[:n]...)
	slices.SortFunc(v.values, compareValues)
	return err
}

// deleteValues also waits for the programs that have found them, and look into an index next.
func (d *draft) deleteValues() error {
	v := d.live
	for _, e := range d.edits.deleted {
		if err := remove(&d.r.stats.Values, d.r.cfg.Values, v.valueKey(e)); err != nil {
			return err
		}
		d.r.unlinked.unsettled = true
		i, _ := slices.BinarySearchFunc(v.values, e, compareValues)
		v.values = slices.Delete(v.values, i, i+1)
	}
	if len(d.edits.deleted) == 0 || len(d.changes) == 0 {
		return nil
	}
	return d.r.settle()
}
