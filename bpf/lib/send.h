/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What one send() of a socket has shown to its program, and what the program claimed of it.
 *
 * A program decides before the kernel moves anything. The kernel may then move all of it, a part of it (and run the program
 * again for the rest), or nothing (and fail the send), and it may do so after another processor has seen the program's
 * decision. So a decision is a claim. It counts when the send has returned and says how much it took (settle.bpf.c).
 *
 * Positions count from the first byte of the send. `sender` says whose the fields are. A program, under the socket's lock, enters
 * its task when there is none, or takes over from another one, of which nothing counts any more. The task's send returns without
 * that lock: it copies what it needs, and then exchanges its id for the same with SEND_SETTLES. If that fails it has been taken
 * over, and has nothing to settle. If it succeeds the copy is of one piece, as only a taker changes the fields of another task, and
 * only behind its own exchange of `sender`. From there on it goes by the copy alone. So nothing has to be cleared before `sender`
 * is: whoever enters does that.
 */
#ifndef XLB_SEND_H
#define XLB_SEND_H

#include "platform.h"

#ifndef XLB_NATIVE
#include "kernel.h"
#endif

/* In `sender`, beside the task, which is told apart from others that settle: its send has returned. No id has this bit. */
#define SEND_SETTLES (1ULL << 63)

struct send {
	/* The task, as bpf_get_current_pid_tgid() has it, and SEND_SETTLES; 0: no send is under way. */
	__u64 sender;
	/* Bytes that the program has been shown. */
	__u64 offered;
	/* Position behind the last byte that was to be moved; 0: none was. */
	__u64 claimed;
	/* Messages that the kernel has made of the send so far. */
	__u64 messages;
};

/* The native parser (bpf/test) knows of sends no more than what they are. */
#ifndef XLB_NATIVE

/* Begins a run of the program. False: the send of another task is under way, and its bytes may reach their target behind
 * these. The kernel lets go of the socket's lock while it redirects. `over`: that send counts for nothing any more. `again`: the program has
 * been shown the message before (msg_runs_again). */
static __always_inline int send_enter(struct sk_msg_md *msg, struct send *w, int over, int again)
{
	__u64 task = bpf_get_current_pid_tgid(), had = *(volatile __u64 *)&w->sender;

	if (had != task) {
		if (had && !over)
			return 0;
		/* First: what the other task, which does not hold the lock, has copied before this is still its own. */
		__sync_lock_test_and_set(&w->sender, task);
		w->offered = 0;
		w->claimed = 0;
		w->messages = 0;
	}
	if (!again) {
		w->offered += msg->size;
		w->messages++;
	}
	return 1;
}

/* Whether the send that is under way is of the task that runs. */
static __always_inline int send_is_of_this_task(const struct send *w)
{
	return *(volatile __u64 *)&w->sender == bpf_get_current_pid_tgid();
}

/* Whether a program has been shown bytes of a send that has not returned. */
static __always_inline int send_is_under_way(const struct send *w)
{
	__u64 task = *(volatile __u64 *)&w->sender;

	return task && !(task & SEND_SETTLES);
}

/* The position of the message's first byte. */
static __always_inline __u64 send_position(const struct sk_msg_md *msg, const struct send *w)
{
	return w->offered - msg->size;
}

/* Bytes at the beginning of the message that the run before has claimed: the kernel did not move them. */
static __always_inline __u64 send_cut(const struct sk_msg_md *msg, const struct send *w)
{
	__u64 at = send_position(msg, w);

	return w->claimed > at ? w->claimed - at : 0;
}

/* The first bytes of the message are to be moved. Called before the message is edited. */
static __always_inline void send_claim(const struct sk_msg_md *msg, struct send *w, __u64 bytes)
{
	w->claimed = send_position(msg, w) + bytes;
}

/* What a send that has returned had claimed: a copy. */
struct settled {
	__u64 claimed;
	__u64 messages;
};

/* Takes the send of that task, the one that runs, to settle it. False: none of its is under way, or another task has taken it over. What
 * else the caller goes by it copies before the call. */
static __always_inline int send_settle(struct send *w, __u64 task, struct settled *was)
{
	/* Most sends of sockets that programs know are not theirs: no exchange for those. */
	if (*(volatile __u64 *)&w->sender != task)
		return 0;
	was->claimed = *(volatile __u64 *)&w->claimed;
	was->messages = *(volatile __u64 *)&w->messages;
	return __sync_val_compare_and_swap(&w->sender, task, task | SEND_SETTLES) == task;
}

/* Ends what send_settle began. A task that has taken over meanwhile stays. */
static __always_inline void send_leave(struct send *w, __u64 task)
{
	__sync_val_compare_and_swap(&w->sender, task | SEND_SETTLES, 0);
}

/* How many of the claimed bytes a send that returned `sent` did not take. */
static __always_inline __u64 send_short(const struct settled *was, __s32 sent)
{
	__u64 taken = sent > 0 ? sent : 0;

	return was->claimed > taken ? was->claimed - taken : 0;
}

#endif

#endif
