/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Other parsers as judges. Each is a program, named in XLB_ORACLES (separated by colons), that reads records from standard input and
 * answers each on standard output, in the machine's byte order:
 *
 *   record: u32 kind, u32 size, u32 head, u64 body, then `size` bytes that begin with a message
 *   answer: u8, 1: it is a message whose head and body have these lengths (a body that the input cuts short counts whole); 0: not
 *
 * Without XLB_ORACLES nobody is asked.
 */
#ifndef XLB_TEST_ORACLE_H
#define XLB_TEST_ORACLE_H

#include <stddef.h>
#include <stdint.h>

enum oracle_kind {
	ORACLE_REQUEST = 1,
	ORACLE_RESPONSE = 2,
	/* The body stands for a decision, and the input is that of fuzz_route.c: the answer says whether it is right. */
	ORACLE_ROUTE = 3,
};

/* Ends the fuzzer when an oracle disagrees. */
void oracle_agrees(enum oracle_kind kind, const uint8_t *data, size_t size, uint32_t head, uint64_t body);

#endif
