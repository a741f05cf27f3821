/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What one send() of a socket has shown to its program, and what the program claimed of it.
 *
 * A program decides before the kernel moves anything. The kernel may then move all of it, a part of it (and run the program
 * again for the rest), or nothing (and fail the send), and it may do so after another processor has seen the program's
 * decision. So a decision is a claim. It counts when the send has returned and says how much it took (settle.bpf.c).
 *
 * Positions count from the first byte of the send. The fields belong to the task that sends: `sender` is set under the
 * socket's lock by the first program run of a send, and cleared by that task when the send returns.
 */
#ifndef XLB_SEND_H
#define XLB_SEND_H

#include "platform.h"

#ifndef XLB_NATIVE
#include "kernel.h"
#endif

struct send {
	/* The task, as bpf_get_current_pid_tgid() has it; 0: no send is under way. */
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
 * these. The kernel lets go of the socket's lock while it redirects. */
static __always_inline int send_enter(struct sk_msg_md *msg, struct send *w)
{
	__u64 task = bpf_get_current_pid_tgid();

	if (w->sender && w->sender != task)
		return 0;
	w->sender = task;
	/* With a target the program runs again for the rest of a message that it has been shown. */
	if (!msg_target(msg)) {
		w->offered += msg->size;
		w->messages++;
	}
	return 1;
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

static __always_inline void send_forget(struct send *w)
{
	w->offered = 0;
	w->claimed = 0;
	w->messages = 0;
	/* Last: another task's program reads the rest only when there is no sender. */
	asm volatile("" ::: "memory");
	w->sender = 0;
}

/* How many of the claimed bytes a send that returned `sent` did not take. */
static __always_inline __u64 send_short(const struct send *w, __s32 sent)
{
	__u64 taken = sent > 0 ? sent : 0;

	return w->claimed > taken ? w->claimed - taken : 0;
}

#endif

#endif
