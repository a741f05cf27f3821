// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"github.com/xlb-project/xlb/internal/maps"
	"github.com/xlb-project/xlb/internal/maps/bpfmap"
	"github.com/xlb-project/xlb/internal/reconcile/writes"
)

// pseudo are the fields that lie in the table itself, by their names in tables.Table.
var pseudo = map[string]maps.PseudoHeader{":method": maps.PseudoMethod, ":path": maps.PseudoPath}

func (r *Reconciler) writeFields(v *Version) error {
	for i, f := range v.table.Fields {
		v.fields++
		if _, is := pseudo[f.Name]; is {
			continue
		}
		if err := writes.Put(&r.stats.Fields, r.cfg.Fields, v.fieldKey(f.Name), v.askedField(i)); err != nil {
			return err
		}
	}
	return nil
}

func (v *Version) askedField(i int) maps.AskedField {
	f := &v.table.Fields[i]
	automaton, automata := v.automata[i].span()
	return maps.AskedField{
		Bits: f.Present, Missing: f.Missing, Number: v.fieldNumbers.First + uint32(i), Flags: uint32(f.Flags),
		Slot: f.Slot, Class: f.Class, Automaton: automaton, Automata: automata,
	}
}

// setPseudo fills in what the table itself says of the fields.
func (v *Version) setPseudo(t *maps.RouteTable) {
	for i, f := range v.table.Fields {
		if at, is := pseudo[f.Name]; is {
			t.Pseudo[at] = v.askedField(i)
		}
	}
}

func (v *Version) fieldKey(name string) maps.FieldKey {
	key := maps.FieldKey{Table: v.index.First, Len: uint32(len(name))}
	copy(key.Name[:], name)
	return key
}

func (r *Reconciler) writeValues(v *Version) error {
	return v.writeValues(&r.stats.Values, r.cfg.Values, v.values)
}

func (r *Reconciler) writePrefixes(v *Version) error {
	return v.writeValues(&r.stats.Prefixes, r.cfg.Prefixes, v.prefixes)
}

func (v *Version) writeValues(count *int, into bpfmap.Table[maps.ValueKey, maps.Value], list []valueEntry) error {
	var w batch[maps.ValueKey, maps.Value]
	for _, e := range list {
		w.add(v.valueKey(e), e.value)
	}
	return w.put(count, into)
}

func (v *Version) valueKey(e valueEntry) maps.ValueKey {
	key := maps.ValueKey{PrefixLen: scopeBits + 8*uint32(len(e.text)), Field: v.fieldNumbers.First + e.field}
	copy(key.Value[:], e.text)
	return key
}

// eraseValues deletes values of an unlinked version.
func (v *Version) eraseValues(count *int, from bpfmap.Table[maps.ValueKey, maps.Value], list *[]valueEntry) error {
	for n := len(*list); n > 0; n-- {
		if err := writes.Remove(count, from, v.valueKey((*list)[n-1])); err != nil {
			return err
		}
		*list = (*list)[:n-1]
	}
	return nil
}

// eraseFields deletes what is known of an unlinked version's headers.
func (r *Reconciler) eraseFields(v *Version) error {
	for ; v.fields > 0; v.fields-- {
		name := v.table.Fields[v.fields-1].Name
		if _, is := pseudo[name]; is {
			continue
		}
		if err := writes.Remove(&r.stats.Fields, r.cfg.Fields, v.fieldKey(name)); err != nil {
			return err
		}
	}
	if err := v.eraseValues(&r.stats.Values, r.cfg.Values, &v.values); err != nil {
		return err
	}
	return v.eraseValues(&r.stats.Prefixes, r.cfg.Prefixes, &v.prefixes)
}
