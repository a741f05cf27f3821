// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The parser of bpf/lib as a filter: reads messages from standard input, and writes what it finds in each to standard output. For the tests of
 * internal/slowpath, which hold the two readers to each other.
 *
 * A message is struct reader_message and its bytes; the answer is struct reader_answer. All numbers are in this machine's order.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/abi.h"
#include "parser.h"

/* enum scan_flags */
#define CHUNKED 8

enum reader_kind {
	READER_REQUEST = 1,
	READER_RESPONSE = 2,
	/* To a HEAD. */
	READER_HEAD_RESPONSE = 3,
};

struct reader_message {
	__u32 kind;
	__u32 size;
};

struct reader_answer {
	struct found head;
	/* Of a chunked body, otherwise 0. */
	struct followed body;
};

static void read_message(const struct reader_message *m, const __u8 *data, struct reader_answer *a)
{
	int chunked;

	memset(a, 0, sizeof(*a));
	if (m->kind == READER_REQUEST)
		parse_request(data, m->size, &a->head);
	else
		parse_response(data, m->size, m->kind == READER_HEAD_RESPONSE, &a->head);
	if (a->head.verdict)
		return;
	chunked = m->kind == READER_REQUEST ? a->head.flags & CHUNKED : a->head.phase == PHASE_CHUNK_SIZE;
	if (chunked)
		follow_chunks(data + a->head.head, m->size - a->head.head, &a->body);
}

int main(void)
{
	struct reader_message m;
	struct reader_answer a;
	__u8 *data;

	while (fread(&m, sizeof(m), 1, stdin) == 1) {
		/* Of its own size, so that a sanitizer sees a read beyond its end. */
		data = malloc(m.size ? m.size : 1);
		if (!data || fread(data, 1, m.size, stdin) != m.size)
			return EXIT_FAILURE;
		read_message(&m, data, &a);
		free(data);
		if (fwrite(&a, sizeof(a), 1, stdout) != 1 || fflush(stdout))
			return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
