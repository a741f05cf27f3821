/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How long programs run for the requests of each slot, and for what is no request of a slot of each account, estimated. What the kernel does behind a program, such as to move the bytes, is no part of it: that is
 * charged to the task that sends.
 */
#ifndef XLB_SAMPLE_H
#define XLB_SAMPLE_H

#include "maps.h"

/* When this run began, 0 where its time is not taken. */
static __always_inline __u64 sample_begin(void)
{
	return bpf_get_prandom_u32() % PROGRAM_SAMPLE ? 0 : bpf_ktime_get_ns();
}

/* No program runs for longer, but it may be interrupted: one such run would count as 64. */
#define SAMPLE_MOST_NS (1 << 17)

/* What the run counts for, 0 where its time is not taken. */
static __always_inline __u64 sample_end(__u64 began)
{
	__u64 ran;

	if (!began)
		return 0;
	ran = bpf_ktime_get_ns() - began;
	return (ran < SAMPLE_MOST_NS ? ran : SAMPLE_MOST_NS) * PROGRAM_SAMPLE;
}

static __always_inline void sample_count(__u64 *counter, __u64 ran)
{
	if (ran)
		__sync_fetch_and_add(counter, ran);
}

#endif
