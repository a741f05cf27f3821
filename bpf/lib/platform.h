/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What parsing code needs of its surroundings: the kernel's helpers, or, in the native harness (bpf/test), their equivalents.
 */
#ifndef XLB_PLATFORM_H
#define XLB_PLATFORM_H

#include <linux/types.h>

#ifndef XLB_NATIVE

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#else

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))

static inline long bpf_loop(__u32 n, long (*step)(__u32, void *), void *ctx, __u64 flags)
{
	__u32 i = 0;

	(void)flags;
	while (i < n)
		if (step(i++, ctx))
			break;
	return i;
}

#endif

#endif
