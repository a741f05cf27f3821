// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* libFuzzer: requests, head and chunked body. Whatever the parser accepts is a whole head by the plainest reading, and other parsers
 * find the same message in it (oracle.h); runs of bytes change nothing.
 */
#include <stdint.h>
#include <string.h>

#include "../lib/abi.h"
#include "check.h"
#include "oracle.h"
#include "parser.h"

/* enum scan_flags */
#define HAS_LENGTH 1
#define CHUNKED 8

static void check_message(const struct input *in, const struct found *f)
{
	struct followed body;

	if (!(f->flags & CHUNKED)) {
		oracle_agrees(ORACLE_REQUEST, in->data, in->size, f->head, f->length);
		return;
	}
	CHECK(!(f->flags & HAS_LENGTH), "length and chunks");
	follow_chunks(in->data + f->head, in->size - f->head, &body);
	CHECK(body.bytes <= in->size - f->head, "body is longer than the input");
	if (body.phase == PHASE_DONE && !body.malformed)
		oracle_agrees(ORACLE_REQUEST, in->data, in->size, f->head, body.bytes);
}

/* Whether the name of some field has a "_". */
static uint32_t has_underscore(const uint8_t *head, size_t size)
{
	int line = 0, name = 0;

	for (size_t i = 0; i < size; i++) {
		if (head[i] == '_' && name)
			return 1;
		if (head[i] == ':')
			name = 0;
		if (head[i] == '\n')
			name = ++line > 0;
	}
	return 0;
}

/* The marks tell what the path has, and the names of fields; of a path that does not fit, its end may have more. */
static void check_marks(const uint8_t *head, const struct found *f)
{
	const char *path = (const char *)f->path;
	uint32_t marks = has_underscore(head, f->head) ? TABLE_UNDERSCORES : 0;

	marks |= strchr(path, '%') ? TABLE_ESCAPES : 0;
	marks |= strchr(path, ';') ? TABLE_PARAMETERS : 0;
	marks |= strstr(path, "/.") ? TABLE_DOTS : 0;
	marks |= strstr(path, "//") ? TABLE_SLASHES : 0;
	CHECK((f->path_marks & marks) == marks, "a mark is missing");
	CHECK(f->path_len == MAX_PATH || f->path_marks == marks, "a mark too many");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct found words, bytes;
	struct input in = input_copy(data, size);

	parse_request(in.data, size, &words);
	parse_request_bytewise(in.data, size, &bytes);
	CHECK(!memcmp(&words, &bytes, sizeof(words)), "runs of bytes change the result");
	if (!words.verdict) {
		CHECK(words.head <= size && words.head <= MAX_HEAD, "head is longer than the input");
		CHECK(words.head >= 4 && !memcmp(in.data + words.head - 4, "\r\n\r\n", 4),
		      "head does not end in an empty line");
		CHECK(!contains(in.data, words.head - 4, "\r\n\r\n", 4), "an empty line inside the head");
		CHECK(!memchr(in.data, 0, words.head), "NUL in the head");
		CHECK(words.host_len && words.host_len <= MAX_HOST, "host");
		CHECK(words.path_len && words.path_len <= MAX_PATH && words.path[0] == '/', "path");
		check_marks(in.data, &words);
		CHECK(words.flags & HAS_LENGTH || !words.length, "a length that was not given");
		check_message(&in, &words);
	}
	input_free(&in);
	return 0;
}
