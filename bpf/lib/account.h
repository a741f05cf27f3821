/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How many connections the clients of an account have: each counts from its connect until its socket closes. One account may have as many as are
 * left free by all, as in the daemon's package quota.
 * Not from its handshake: a client can have any number of sockets wait for theirs, which end all at once (SO_ATTACH_FILTER, TCP_FASTOPEN_CONNECT).
 */
#ifndef XLB_ACCOUNT_H
#define XLB_ACCOUNT_H

#include "config.h"
#include "kernel.h"
#include "maps.h"

static __always_inline struct account *account_at(__u32 number)
{
	return bpf_map_lookup_elem(&accounts, &number);
}

/* Whether a socket would count only when its owner likes: it counts from its first segment on, and sends that later. */
static __always_inline int account_is_deferred(struct bpf_sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	return tp && (!fast_path || tcp_is_multipath(tp)) && tcp_may_defer_connect(tp);
}

/* Whether another connection of an account may be intercepted. Programs that ask at the same moment may all get the last one: there are a few more then.
 * An account that the daemon does not know any more is of a network namespace without processes. */
static __always_inline int account_allows(__u32 number, struct bpf_sock *sk)
{
	struct control *c = control_at(0);
	__u32 most = c ? c->max_connections : 0, open;
	struct account *a;

	if (!most)
		return 1;
	a = account_at(number);
	if (!a)
		return 1;
	open = *(volatile __u32 *)&c->connections;
	if (!account_is_deferred(sk) && open < most && *(volatile __u32 *)&a->connections < most - open)
		return 1;
	__sync_fetch_and_add(&a->refused, 1);
	return 0;
}

static __always_inline void account_add(__u32 number, __s32 count)
{
	struct account *a = account_at(number);
	struct control *c = control_at(0);

	if (a)
		__sync_fetch_and_add(&a->connections, count);
	if (c)
		__sync_fetch_and_add(&c->connections, count);
}

/* Behind this comes account_end: the last one is that of the release program, or that of the end of its states. */
static __always_inline void account_begin(struct psock *ps)
{
	if (!__sync_val_compare_and_swap(&ps->in_account, 0, 1))
		account_add(ps->account, 1);
}

/* In the connect program. A connect that fails counts until the socket closes, or connects again. Without a release program, which there is on the fast path
 * alone, and not for Multipath TCP, no program may see that: the connection counts from its first segment on, behind which a state ends it. */
static __always_inline void account_connect(struct psock *ps, struct bpf_sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (fast_path && tp && !tcp_is_multipath(tp))
		account_begin(ps);
}

/* The connection has ended, the socket connects anew, or its last descriptor has closed, whatever comes first. */
static __always_inline void account_end(struct psock *ps)
{
	if (__sync_val_compare_and_swap(&ps->in_account, 1, 0) == 1)
		account_add(ps->account, -1);
}

#endif
