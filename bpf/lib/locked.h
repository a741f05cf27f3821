/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether a process holds the lock of the socket that a message is redirected to.
 *
 * On one host the kernel moves a message in the task that sends it, and takes the lock of the socket that receives (bpf_tcp_ingress). It waits
 * for that lock, and no signal ends the wait. Whoever has the lock may sleep with it: a send() that copies from memory which has
 * to be read from a disk, from FUSE, or comes by userfaultfd. So a message goes over TCP where the lock is taken and stays so.
 *
 * That is for accidents: between this look and the kernel's own lie microseconds, and who wants to wins them (docs/reference/threats.md).
 */
#ifndef XLB_LOCKED_H
#define XLB_LOCKED_H

#include "config.h"
#include "kernel.h"

/* Looks at a lock before it counts as taken: some microseconds, for which a call of a process that runs may have it. */
#define LOCK_LOOKS 1000

struct lock_look {
	struct sock *target;
	int taken;
};

static long lock_step(__u32 i, void *ctx)
{
	struct lock_look *look = ctx;

	(void)i;
	look->taken = *(volatile int *)&look->target->sk_lock.owned;
	return !look->taken;
}

static __noinline int lock_stays_taken(struct sk_msg_md *msg)
{
	struct lock_look look = { .target = msg_target(msg) };

	if (!look.target)
		return 0;
	bpf_loop(LOCK_LOOKS, lock_step, &look, 0);
	return look.taken;
}

/* Called with a target on this host. */
static __always_inline int target_is_locked(struct sk_msg_md *msg)
{
	struct sock *target = msg_target(msg);

	return !wait_for_locks && target && target->sk_lock.owned && lock_stays_taken(msg);
}

#endif
