// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"cmp"
	"slices"
	"strings"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/reconcile/writes"
)

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
func (d *Draft) numberValues(s *source) {
	var values, prefixes []valueEntry
	if d.live != nil {
		values, prefixes = d.live.values, d.live.prefixes
	}
	d.values, d.prefixes = d.numbered(s, d.table.Values, values), d.numbered(s, d.table.Prefixes, prefixes)
}

// numbered are the entries for a list of values, beside those of the live version; both are sorted by field and text.
func (d *Draft) numbered(s *source, list []tables.Value, live []valueEntry) []valueEntry {
	entries := make([]valueEntry, 0, len(list))
	var before []valueEntry // of the field
	for i, v := range list {
		e := valueEntry{field: v.Field, text: v.Text, value: maps.Value{Bits: v.Bits}}
		f := &d.table.Fields[v.Field]
		if i == 0 || list[i-1].Field != v.Field {
			before = d.live.entriesOf(f.Name, live)
		}
		for len(before) > 0 && before[0].text < v.Text {
			before = before[1:]
		}
		if v.Class != 0 {
			e.value.Class = d.r.classFor(v.Text, before)
			s.setClass(f.Slot, v.Class, e.value.Class)
		}
		entries = append(entries, e)
	}
	return entries
}

// entriesOf are those of a version's entries that belong to a field; nil: there is no version.
func (v *Version) entriesOf(name string, entries []valueEntry) []valueEntry {
	if v == nil {
		return nil
	}
	number := slices.IndexFunc(v.table.Fields, func(f tables.Field) bool { return f.Name == name })
	if number < 0 {
		return nil
	}
	compareField := func(e valueEntry, field uint32) int { return cmp.Compare(e.field, field) }
	first, _ := slices.BinarySearchFunc(entries, uint32(number), compareField)
	end, _ := slices.BinarySearchFunc(entries, uint32(number)+1, compareField)
	return entries[first:end]
}

// classFor returns the class of a text if the first of these entries is about it and has one, and a new class otherwise.
func (r *Reconciler) classFor(text string, live []valueEntry) uint32 {
	if len(live) > 0 && live[0].text == text && live[0].value.Class != 0 {
		return live[0].value.Class
	}
	r.nextClass++
	return r.nextClass - 1
}

func (s *source) setClass(slot, from, to uint32) {
	for uint32(len(s.classes[slot])) <= from {
		s.classes[slot] = append(s.classes[slot], uint32(len(s.classes[slot])))
	}
	s.classes[slot][from] = to
}

// classOf is the class in the maps; of those that no value has it is the compiled one.
func (s *source) classOf(slot uint8, class uint32) uint32 {
	if class < tables.FirstClass {
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
func (d *Draft) changeIndexes() error {
	if d.edits.empty() && len(d.changes) == 0 {
		return nil
	}
	r := d.r
	// The memory of deleted entries of a hash may be used again at once, while programs read it.
	if r.pending.hasReaders {
		if err := r.SynchronizeRCU(); err != nil {
			return err
		}
	}
	return inOrder(
		func() error { return d.eachChange((*indexChange).add) },
		func() error { return d.addValues() },
		func() error { return d.eachChange((*indexChange).replace) },
		func() error { return d.deleteValues() },
		func() error { return d.eachChange((*indexChange).remove) },
	)
}

func (d *Draft) eachChange(do func(*indexChange, *pendingReclaim) error) error {
	for _, c := range d.changes {
		if err := do(c, &d.r.pending); err != nil {
			return err
		}
	}
	return nil
}

func (d *Draft) addValues() error {
	r, v := d.r, d.live
	var w batch[maps.ValueKey, maps.Value]
	for _, e := range d.edits.added {
		w.add(v.valueKey(e), e.value)
	}
	n, err := r.cfg.Values.PutAll(w.keys, w.values)
	r.stats.Values += n
	r.pending.hasReaders = r.pending.hasReaders || n > 0
	v.values = append(slices.Clone(v.values), d.edits.added[:n]...)
	slices.SortFunc(v.values, compareValues)
	return err
}

// deleteValues also waits for the programs that have found them, and look into an index next.
func (d *Draft) deleteValues() error {
	v := d.live
	for _, e := range d.edits.deleted {
		if err := writes.Remove(&d.r.stats.Values, d.r.cfg.Values, v.valueKey(e)); err != nil {
			return err
		}
		d.r.pending.hasReaders = true
		i, _ := slices.BinarySearchFunc(v.values, e, compareValues)
		v.values = slices.Delete(v.values, i, i+1)
	}
	if len(d.edits.deleted) == 0 || len(d.changes) == 0 {
		return nil
	}
	return d.r.SynchronizeRCU()
}
