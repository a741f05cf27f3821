/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The routing of bpf/lib as an ordinary function, for the fuzzer.
 */
#ifndef XLB_TEST_ROUTER_H
#define XLB_TEST_ROUTER_H

#include <linux/types.h>
#include <stddef.h>

/* What became of a request. */
enum outcome {
	/* Not a head that the parser takes, or a table that the kernel does not look at. */
	OUTCOME_UNREAD,
	OUTCOME_ROUTED,
};

struct decision {
	enum outcome outcome;
	/* enum verdict */
	__u32 verdict;
	/* Bytes of the head. */
	__u32 head;
	/* When the verdict is 0. */
	__u32 cluster;
};

/* Decides about a request head by a table, given by its place in the file of maps, and a random number. */
void decide(__u32 table, __u64 draw, const __u8 *data, size_t size, struct decision *d);

#endif
