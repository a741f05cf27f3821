// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* libFuzzer: responses, head and chunked body. The first byte of the input says whether the request was a HEAD.
 */
#include <stdint.h>
#include <string.h>

#include "../lib/abi.h"
#include "check.h"
#include "oracle.h"
#include "parser.h"

static void check_body(const struct input *in, const struct found *f)
{
	struct followed body;

	/* An interim response: the next head is scanned on its own. */
	if (f->phase == PHASE_HEAD)
		return;
	if (f->phase != PHASE_CHUNK_SIZE) {
		oracle_agrees(ORACLE_RESPONSE, in->data, in->size, f->head, f->length);
		return;
	}
	follow_chunks(in->data + f->head, in->size - f->head, &body);
	CHECK(body.bytes <= in->size - f->head, "body is longer than the input");
	if (body.phase == PHASE_DONE && !body.malformed)
		oracle_agrees(ORACLE_RESPONSE, in->data, in->size, f->head, body.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct found words, bytes;
	struct input in;
	int to_head;

	if (!size)
		return 0;
	to_head = data[0] & 1;
	in = input_copy(data + 1, size - 1);
	parse_response(in.data, in.size, to_head, &words);
	parse_response_bytewise(in.data, in.size, to_head, &bytes);
	CHECK(!memcmp(&words, &bytes, sizeof(words)), "runs of bytes change the result");
	if (!words.verdict) {
		CHECK(words.head <= in.size, "head is longer than the input");
		CHECK(words.head >= 4 && !memcmp(in.data + words.head - 4, "\r\n\r\n", 4),
		      "head does not end in an empty line");
		CHECK(!contains(in.data, words.head - 4, "\r\n\r\n", 4), "an empty line inside the head");
		CHECK(words.status >= 100 && words.status <= 599, "status");
		CHECK((words.status < 200) == (words.phase == PHASE_HEAD), "interim");
		CHECK(words.phase == PHASE_HEAD || words.phase == PHASE_LENGTH || words.phase == PHASE_CHUNK_SIZE ||
			      words.phase == PHASE_DONE,
		      "phase");
		CHECK(!to_head || words.phase == PHASE_HEAD || words.phase == PHASE_DONE,
		      "a body behind the answer to HEAD");
		if (!to_head)
			check_body(&in, &words);
	}
	input_free(&in);
	return 0;
}
