/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The parser of bpf/lib as ordinary functions, for the fuzzer.
 */
#ifndef XLB_TEST_PARSER_H
#define XLB_TEST_PARSER_H

#include <linux/types.h>
#include <stddef.h>

/* What a scan found. Everything but the verdict is 0 unless that is 0. */
struct found {
	/* enum verdict */
	__u32 verdict;
	/* Bytes of the head. */
	__u32 head;
	/* Content-Length of a request, remaining bytes of a response. */
	__u64 length;
	/* enum phase of a response. */
	__u32 phase;
	__u32 status;
	/* enum scan_flags */
	__u32 flags;
	__u32 host_len;
	__u32 path_len;
	/* enum table_flags: what of the path, and of names of fields, tables may want to change. */
	__u32 path_marks;
	__u8 host[256];
	__u8 path[256];
};

/* What following a chunked body found. */
struct followed {
	/* Bytes up to the end of the body, or all. */
	__u64 bytes;
	/* enum phase */
	__u32 phase;
	__u32 malformed;
	/* What stands behind `bytes` is left to the daemon: a trailer, or what of extensions readers differ about. */
	__u32 trailer;
	__u32 reserved;
};

/* Each pair must agree: one takes runs of bytes, the other single bytes. */
void parse_request(const __u8 *data, size_t size, struct found *f);
void parse_request_bytewise(const __u8 *data, size_t size, struct found *f);
void parse_response(const __u8 *data, size_t size, int to_head, struct found *f);
void parse_response_bytewise(const __u8 *data, size_t size, int to_head, struct found *f);

void follow_chunks(const __u8 *data, size_t size, struct followed *f);

#endif
