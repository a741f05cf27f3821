// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "maps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a key of a trie begins with, its length in bits, and the bytes behind it that every look-up has. */
#define PREFIX_LEN sizeof(__u32)

struct map {
	__u32 key_size;
	__u32 value_size;
	__u32 count;
	/* Entries by hash, 0 where there is none: more than twice as many places as entries. */
	__u32 places;
	__u8 **entries;
};

static struct map maps[MAP_COUNT];

static void die(const char *what)
{
	fprintf(stderr, "fuzz: maps: %s\n", what);
	abort();
}

/* FNV-1a. */
static __u32 hash(const __u8 *key, size_t size)
{
	__u32 h = 2166136261U;

	for (size_t i = 0; i < size; i++)
		h = (h ^ key[i]) * 16777619U;
	return h;
}

/* The bytes of a stored key that tell it from others: in a trie what lies behind its length is anything. */
static size_t significant(enum map_number number, const __u8 *key)
{
	__u32 bits;

	if (number != MAP_HOSTS && number != MAP_PATHS && number != MAP_VALUE_PREFIXES)
		return maps[number].key_size;
	memcpy(&bits, key, sizeof(bits));
	return PREFIX_LEN + bits / 8;
}

static __u8 **place(enum map_number number, const __u8 *key, size_t size)
{
	struct map *m = &maps[number];
	__u32 at = hash(key, size) % m->places;

	for (; m->entries[at]; at = (at + 1) % m->places)
		if (significant(number, m->entries[at]) == size && !memcmp(m->entries[at], key, size))
			break;
	return &m->entries[at];
}

/* Behind its key, aligned as in the kernel's maps. */
static void *value_of(const struct map *m, __u8 *entry)
{
	return entry + (m->key_size + 7) / 8 * 8;
}

/* Each entry has a block of its own, so that the sanitizer sees a read beyond its end. */
static void read_map(FILE *from, enum map_number number)
{
	struct map *m = &maps[number];
	__u8 *entry;

	if (fread(m, sizeof(__u32), 3, from) != 3)
		die("the file ends early");
	m->places = m->count * 2 + 1;
	m->entries = calloc(m->places, sizeof(*m->entries));
	for (__u32 i = 0; i < m->count; i++) {
		entry = malloc((m->key_size + 7) / 8 * 8 + m->value_size);
		if (!m->entries || !entry)
			die("no memory");
		if (fread(entry, m->key_size, 1, from) != 1 || fread(value_of(m, entry), m->value_size, 1, from) != 1)
			die("an entry is missing");
		*place(number, entry, significant(number, entry)) = entry;
	}
}

void maps_read(void)
{
	const char *name = getenv("XLB_MAPS");
	FILE *from;

	if (maps[0].places)
		return;
	from = name ? fopen(name, "r") : NULL;
	if (!from)
		die("XLB_MAPS names no file that can be read");
	for (int i = 0; i < MAP_COUNT; i++)
		read_map(from, i);
	if (fgetc(from) != EOF)
		die("the file goes on behind the last map");
	fclose(from);
}

/* Tries all lengths: the kernel's trie is not what is tested. */
static void *longest(enum map_number number, const __u8 *wanted, size_t size)
{
	__u8 key[512], *entry;
	__u32 bits;

	if (size > sizeof(key))
		die("a key is too long");
	memcpy(key, wanted, size);
	for (; size > PREFIX_LEN; size--) {
		bits = (size - PREFIX_LEN) * 8;
		memcpy(key, &bits, sizeof(bits));
		entry = *place(number, key, size);
		if (entry)
			return value_of(&maps[number], entry);
	}
	return NULL;
}

void *map_lookup(enum map_number number, const void *key)
{
	size_t size = significant(number, key);
	__u8 *entry;

	if (size > maps[number].key_size)
		die("a key is longer than the map's");
	if (size != maps[number].key_size || number == MAP_PATHS || number == MAP_HOSTS || number == MAP_VALUE_PREFIXES)
		return longest(number, key, size);
	entry = *place(number, key, size);
	return entry ? value_of(&maps[number], entry) : NULL;
}
