// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"slices"

	"github.com/xlb-project/xlb/internal/compile/tables"
	"github.com/xlb-project/xlb/internal/maps"
)

// automataFrom returns the interned list of the compiled automata first to first+count, which lie in a row as one path, or one
// header, is given to them.
func (s *source) automataFrom(first, count uint32) (*interned[maps.Automaton], error) {
	content := make([]maps.Automaton, 0, count)
	var children []refCounted
	for i := first; i < first+count; i++ {
		a, more, err := s.automaton(&s.table.Automata[i])
		children = append(children, more...)
		if err != nil {
			dropAll(children)
			return nil, err
		}
		content = append(content, a)
	}
	return s.r.interners.automata.get(content, children...)
}

// automaton returns an entry and what it points to, which after an error is what was held until then.
func (s *source) automaton(from *tables.Automaton) (to maps.Automaton, children []refCounted, err error) {
	to = maps.Automaton{ClassCount: from.ClassCount, Start: uint32(from.Start), Classes: from.Classes}
	next, err := s.r.interners.cells.get(cellsOf(from.Next))
	if err != nil {
		return to, nil, err
	}
	children = append(children, next)
	accept, err := s.r.interners.cells.get(cellsOf(from.Accept))
	if err != nil {
		return to, children, err
	}
	children = append(children, accept)
	to.Next, _ = next.span()
	to.Accept, _ = accept.span()
	if len(from.Values) > 0 {
		values, err := s.r.interners.acceptedValues.get(acceptedValues(from.Values))
		if err != nil {
			return to, children, err
		}
		to.Lists, _ = values.span()
		return to, append(children, values), nil
	}
	lists, err := s.accepts(from.Lists)
	if err != nil {
		return to, children, err
	}
	to.Lists, _ = lists.span()
	return to, append(children, lists), nil
}

// accepts returns the numbers of the pages that hold the lists.
func (s *source) accepts(lists []tables.List) (*interned[maps.Cells], error) {
	numbers := make([]uint16, 0, tables.Pages(len(lists)))
	children := make([]refCounted, 0, cap(numbers))
	for list := range slices.Chunk(lists, int(maps.ListsPerPage)) {
		page, err := s.page(list)
		if err != nil {
			dropAll(children)
			return nil, err
		}
		// All that is ever taken of the map are pages, so each begins at a multiple of their length.
		numbers = append(numbers, uint16(page.First/uint32(maps.ListsPerPage)))
		children = append(children, page)
	}
	return s.r.interners.pages.get(cellsOf(numbers), children...)
}

// page is as long with fewer lists.
func (s *source) page(lists []tables.List) (*interned[maps.Candidates], error) {
	content := make([]maps.Candidates, maps.ListsPerPage)
	var children []refCounted
	for i, l := range lists {
		e, err := s.entry(tables.Path{List: l}, nil, 0)
		if err != nil {
			dropAll(children)
			return nil, err
		}
		content[i] = e.value
		children = append(children, e.routes, e.tuples)
	}
	return s.r.interners.accepts.get(content, children...)
}

func cellsOf(list []uint16) []maps.Cells {
	blocks := make([]maps.Cells, tables.Blocks(len(list)))
	for i := range blocks {
		list = list[copy(blocks[i].Of[:], list):]
	}
	return blocks
}

func acceptedValues(bits []uint64) []maps.Value {
	values := make([]maps.Value, len(bits))
	for i := range bits {
		values[i].Bits = bits[i]
	}
	return values
}
