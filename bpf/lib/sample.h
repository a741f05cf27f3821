/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How long programs run for the requests of each slot, estimated. What the kernel does behind a program, such as to move the bytes, is no part of it: that is
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

/* Counts the run for a slot, or for none. */
static __always_inline void sample_end(__u64 began, struct slot *s)
{
	__u64 ran;

	if (!began || !s)
		return;
	ran = bpf_ktime_get_ns() - began;
	if (ran > SAMPLE_MOST_NS)
		ran = SAMPLE_MOST_NS;
	__sync_fetch_and_add(&s->traffic.program_ns, ran * PROGRAM_SAMPLE);
}

#endif
