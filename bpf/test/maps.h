/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* In the place of lib/maps.h: the maps that routing reads, in memory. test/fuzz/oracles/routing writes the file that fills them.
 */
#ifndef XLB_MAPS_H
#define XLB_MAPS_H

#include <linux/types.h>

#include "../lib/abi.h"
#include "../lib/platform.h"

/* In the order of the file. */
enum map_number {
	/* Route tables by the first byte of an input. */
	MAP_TABLES,
	MAP_ROUTE_TABLES,
	MAP_ROUTES,
	MAP_TUPLES,
	MAP_SPLITS,
	MAP_AUTOMATA,
	MAP_CELL_BLOCKS,
	MAP_ACCEPTS,
	MAP_ACCEPTED_VALUES,
	MAP_HOSTS,
	MAP_VHOSTS,
	MAP_PATH_TEXTS,
	MAP_PATHS,
	MAP_BUCKETS,
	MAP_BUCKET_LISTS,
	MAP_FIELDS,
	MAP_VALUES,
	MAP_VALUE_PREFIXES,
	MAP_COUNT,
};

/* Reads the maps from the file that XLB_MAPS names, once. */
void maps_read(void);

/* The value of a key, or 0. In a trie the longest entry that begins the key has it: a key there begins with its length in bits. */
void *map_lookup(enum map_number map, const void *key);

static const enum map_number hosts = MAP_HOSTS, paths = MAP_PATHS, fields = MAP_FIELDS,
			     value_prefixes = MAP_VALUE_PREFIXES;

#define bpf_map_lookup_elem(map, key) map_lookup(*(map), key)

#define HASH(map, name_, key_, value_)                                                       \
	static __always_inline __attribute__((unused)) value_ *name_##_find(const key_ *key) \
	{                                                                                    \
		return map_lookup(map, key);                                                 \
	}

HASH(MAP_PATH_TEXTS, path_texts, struct path_text, struct path_routes)
HASH(MAP_BUCKETS, buckets, struct bucket_key, __u32)
HASH(MAP_VALUES, values, struct value_key, struct value)

#define ARRAY(map, type_)                                                                    \
	static __always_inline __attribute__((unused)) struct type_ *type_##_at(__u32 index) \
	{                                                                                    \
		return map_lookup(map, &index);                                              \
	}

ARRAY(MAP_ROUTE_TABLES, route_table)
ARRAY(MAP_VHOSTS, vhost)
ARRAY(MAP_ROUTES, route)
ARRAY(MAP_TUPLES, tuple)
ARRAY(MAP_SPLITS, split)
ARRAY(MAP_AUTOMATA, automaton)
ARRAY(MAP_CELL_BLOCKS, cells)
ARRAY(MAP_ACCEPTS, candidates)
ARRAY(MAP_ACCEPTED_VALUES, value)
ARRAY(MAP_BUCKET_LISTS, bucket_list)

/* The number is always in the input: see fuzz_route.c. */
static inline __u32 bpf_get_prandom_u32(void)
{
	return 0;
}

#endif
