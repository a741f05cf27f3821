// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* libFuzzer: from a head to a cluster, over the maps of many route tables. What is decided is right by the model of route tables, which
 * is asked as an oracle. The first byte of the input chooses the table, the next eight are the random number; then comes the head.
 */
#include <stdint.h>
#include <string.h>

#include "../lib/abi.h"
#include "check.h"
#include "oracle.h"
#include "router.h"

#define PREAMBLE 9

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static unsigned long read_heads, routed;

static void report(void)
{
	fprintf(stderr, "stat::heads_read: %lu\nstat::heads_routed: %lu\n", read_heads, routed);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	atexit(report);
	return 0;
}

struct word {
	size_t from;
	size_t to;
};

#define MAX_WORDS 16

/* The words of a head that may become anything: what follows a space, up to the next or the line's end, but for the protocol.
 * Returns how many there are. */
static size_t find_words(const uint8_t *head, size_t size, struct word words[MAX_WORDS])
{
	size_t n = 0;

	for (size_t at = 0; at < size && n < MAX_WORDS; at++) {
		struct word w = { .from = at + 1, .to = at + 1 };

		if (head[at] != ' ')
			continue;
		while (w.to < size && head[w.to] != ' ' && head[w.to] != '\r')
			w.to++;
		if (!contains(head + w.from, w.to - w.from, "HTTP/1.", 7))
			words[n++] = w;
	}
	return n;
}

/* Changes a word to another one. Returns the new size of the input. */
static size_t change_word(uint8_t *data, size_t size, size_t max_size, struct word w)
{
	size_t len = w.to - w.from, room = max_size - size + len;
	uint8_t text[128];

	if (len > sizeof(text))
		return size;
	memcpy(text, data + w.from, len);
	len = LLVMFuzzerMutate(text, len, room < sizeof(text) ? room : sizeof(text));
	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] >= 0x7f)
			text[i] = "abA/?&=;.:"[text[i] % 10];
	memmove(data + w.from + len, data + w.to, size - w.to);
	memcpy(data + w.from, text, len);
	return size - (w.to - w.from) + len;
}

/* Nearly all that libFuzzer makes of a head is none: mostly only a word changes, or the table. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	struct word words[MAX_WORDS], w;
	size_t n = size > PREAMBLE ? find_words(data + PREAMBLE, size - PREAMBLE, words) : 0;

	if (!n || seed % 16 == 0)
		return LLVMFuzzerMutate(data, size, max_size);
	if (seed % 16 == 1) {
		data[0] = seed >> 16;
		return size;
	}
	w = words[(seed >> 8) % n];
	return change_word(data, size, max_size, (struct word){ PREAMBLE + w.from, PREAMBLE + w.to });
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct decision d;
	struct input head;
	uint64_t draw;

	if (size < PREAMBLE)
		return 0;
	memcpy(&draw, data + 1, sizeof(draw));
	head = input_copy(data + PREAMBLE, size - PREAMBLE);
	decide(data[0], draw, head.data, head.size, &d);
	if (d.outcome == OUTCOME_ROUTED) {
		read_heads++;
		routed += !d.verdict;
		oracle_agrees(ORACLE_ROUTE, data, size, d.head, (uint64_t)d.verdict << 32 | d.cluster);
	}
	input_free(&head);
	return 0;
}
