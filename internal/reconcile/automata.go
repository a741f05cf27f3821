// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"github.com/xlb-project/xlb/internal/compile"
	"github.com/xlb-project/xlb/internal/maps"
)

// automataNumbers are what a table's automata take of their maps.
func automataNumbers(t *compile.Table) (blocks, accepts, values int) {
	for i := range t.Automata {
		a := &t.Automata[i]
		blocks += compile.Blocks(len(a.Next)) + compile.Blocks(len(a.Accept))
		accepts += len(a.Lists)
		values += len(a.Values)
	}
	return blocks, accepts, values
}

// writeAutomata lays the automata's tables one behind the other.
func (r *Reconciler) writeAutomata(v *version) error {
	block, list, value := v.cells.first, v.accepts.first, v.acceptedValues.first
	for i := range v.table.Automata {
		from := &v.table.Automata[i]
		to := maps.Automaton{ClassCount: from.ClassCount, Start: uint32(from.Start), Classes: from.Classes, Next: block, Lists: list}
		to.Accept = to.Next + uint32(compile.Blocks(len(from.Next)))
		block = to.Accept + uint32(compile.Blocks(len(from.Accept)))
		list += uint32(len(from.Lists))
		if len(from.Values) > 0 {
			to.Lists = value
			value += uint32(len(from.Values))
		}
		if err := r.writeCells(to.Next, from.Next); err != nil {
			return err
		}
		if err := r.writeCells(to.Accept, from.Accept); err != nil {
			return err
		}
		for n, l := range from.Lists {
			if err := put(&r.stats.Accepts, r.cfg.Accepts, to.Lists+uint32(n), v.candidates(l)); err != nil {
				return err
			}
		}
		for n, bits := range from.Values {
			if err := put(&r.stats.AcceptedValues, r.cfg.AcceptedValues, to.Lists+uint32(n), maps.Value{Bits: bits}); err != nil {
				return err
			}
		}
		if err := put(&r.stats.Automata, r.cfg.Automata, v.automata.first+uint32(i), to); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) writeCells(block uint32, cells []uint16) error {
	for len(cells) > 0 {
		var b maps.Cells
		n := copy(b.Of[:], cells)
		if err := put(&r.stats.Cells, r.cfg.Cells, block, b); err != nil {
			return err
		}
		block++
		cells = cells[n:]
	}
	return nil
}
