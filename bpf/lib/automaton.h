/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Deterministic automata as tables, made by internal/dfa: one look-up for each byte. Whoever walks one begins at
 * automaton.start, asks automaton_next() for each byte, may stop at AUTOMATON_DEAD, and asks automaton_accepts() at the end for the
 * number of a list: 0 is the empty one, what the others hold is the owner's.
 */
#ifndef XLB_AUTOMATON_H
#define XLB_AUTOMATON_H

#include "maps.h"

/* The state that no byte leaves, and that accepts nothing. */
#define AUTOMATON_DEAD 0

/* Cell `index` of those that begin with block `first`. Outside of the map all cells are 0: dead, or the empty list. */
static __always_inline __u32 automaton_cell(__u32 first, __u32 index)
{
	struct cells *block = cells_at(first + index / CELLS);

	return block ? block->of[index & (CELLS - 1)] : 0;
}

static __always_inline __u32 automaton_next(const struct automaton *a, __u32 state, __u8 c)
{
	return automaton_cell(a->next, state * a->class_count + a->classes[c]);
}

static __always_inline __u32 automaton_accepts(const struct automaton *a, __u32 state)
{
	return automaton_cell(a->accept, state);
}

#endif
