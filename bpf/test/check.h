/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Small helpers of the fuzz targets.
 */
#ifndef XLB_TEST_CHECK_H
#define XLB_TEST_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the fuzzer, which then saves the input. */
#define CHECK(condition, what)                                      \
	do {                                                        \
		if (!(condition)) {                                 \
			fprintf(stderr, "fuzz: wrong: %s\n", what); \
			abort();                                    \
		}                                                   \
	} while (0)

/* The input in a block of just its size, so that the sanitizer sees a read beyond its end. */
struct input {
	uint8_t *data;
	size_t size;
};

static inline struct input input_copy(const uint8_t *data, size_t size)
{
	struct input in = { .data = malloc(size ? size : 1), .size = size };

	if (!in.data)
		abort();
	memcpy(in.data, data, size);
	return in;
}

static inline void input_free(struct input *in)
{
	free(in->data);
}

static inline int contains(const uint8_t *data, size_t size, const char *what, size_t len)
{
	return memmem(data, size, what, len) != NULL;
}

#endif
