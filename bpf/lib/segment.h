/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A segment that was sent again may begin before the end of what has come already: a receiver without memory drops segments, and the
 * sender joins and splits those that it sends again. TCP's own receive call reads on from the right byte; a verdict program is
 * given the whole segment, and its beginning would reach the application twice.
 */
#ifndef XLB_SEGMENT_H
#define XLB_SEGMENT_H

#include "maps.h"

/* Marks a sequence number as known. */
#define SEQUENCE_KNOWN (1ULL << 32)

/* Most that one call takes from a segment's beginning. */
#define MAX_TRIM 0xfff

/* A segment is at most 64 KiB with its headers, unless the sender has been told of larger ones: then 512. */
#define MAX_TRIMS 128

struct segment_trim {
	struct __sk_buff *skb;
	__u32 left;
	__u32 failed;
};

static long segment_trim_step(__u32 i, void *ctx)
{
	struct segment_trim *t = ctx;
	__u32 n = t->left < MAX_TRIM ? t->left : MAX_TRIM;

	(void)i;
	if (!n)
		return 1;
	if (bpf_skb_adjust_room(t->skb, -(__s32)n, 0, 0)) {
		t->failed = 1;
		return 1;
	}
	t->left -= n;
	return 0;
}

/* Takes from the segment's beginning what came before. `next` is the sequence number behind the last segment of this socket, with
 * SEQUENCE_KNOWN, and becomes that behind this one. Packet pointers must be read anew. False: it cannot be done. */
static __always_inline int segment_trim(struct __sk_buff *skb, __u64 *next)
{
	struct tcp_skb_cb *tcp = skb_tcp(skb);
	struct segment_trim t = { .skb = skb };
	__u64 known = *next;
	__s32 overlap = (__u32)known - tcp->seq;

	*next = SEQUENCE_KNOWN | (tcp->seq + skb->len);
	if (!(known & SEQUENCE_KNOWN) || overlap <= 0 || (__u32)overlap >= skb->len)
		return 1;
	t.left = overlap;
	bpf_loop(MAX_TRIMS, segment_trim_step, &t, 0);
	count(VERDICT_SEGMENT_TRIMMED);
	return !t.failed && !t.left;
}

#endif
