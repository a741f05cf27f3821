/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts the connections of each account, from connect until the connection ends or its socket closes. One account may have as many as are left free, as
 * in the daemon's package quota.
 * The end of the handshake would be too late: a client can delay it for any number of sockets (SO_ATTACH_FILTER, TCP_FASTOPEN_CONNECT), and then end
 * all handshakes at once.
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

/* Whether the connection could pass the bound uncounted: it counts from its first segment on, and a later send may be what sends that. */
static __always_inline int account_is_deferred(struct bpf_sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	return tp && (!fast_path || tcp_is_multipath(tp)) && tcp_may_defer_connect(tp);
}

/* Whether another connection of an account may be intercepted. Programs on several processors may each take the last free one: the excess is at most one
 * for each processor. An account without an entry belongs to a network namespace that the daemon has left. */
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

/* account_end follows in any case: from the release program, or from sock_ops when the connection's state is TCP_CLOSE. */
static __always_inline void account_begin(struct psock *ps)
{
	if (!__sync_val_compare_and_swap(&ps->in_account, 0, 1))
		account_add(ps->account, 1);
}

/* In the connect program. A connect that fails counts until the socket closes, or connects again. Without the fast path, and for Multipath TCP, no release
 * program runs: such a connection counts from its first segment on (connect_begins), and its state ends the count. */
static __always_inline void account_connect(struct psock *ps, struct bpf_sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (fast_path && tp && !tcp_is_multipath(tp))
		account_begin(ps);
}

/* The connection has ended, the socket connects again, or its last descriptor has closed: the first of these counts. */
static __always_inline void account_end(struct psock *ps)
{
	if (__sync_val_compare_and_swap(&ps->in_account, 1, 0) == 1)
		account_add(ps->account, -1);
}

#endif
