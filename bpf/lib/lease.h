/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The exclusive use of an i-sock for one request and its response.
 *
 * Idle slots of a pool form a lock-free stack (Treiber) threaded through slot.next. Its head carries a tag that changes with
 * every exchange, so a slot that left and came back between a read and the exchange is noticed. Slots are never freed memory,
 * so reading `next` of one that has just been taken is harmless: the exchange fails.
 *
 * state decides who may touch a slot. READY -> LEASED is the popper's, LEASED -> READY or BROKEN is whoever wins the exchange, and
 * only the winner settles the accounts (outstanding, lease number). Who ends a lease names it (slot.holder, exchanged with the state): however late,
 * nobody ends the next one. BROKEN -> FREE is the daemon's, after an RCU grace period: a
 * program that was at work on the slot has ended by then, so it never writes to, or pushes, the slot's next i-sock.
 */
#ifndef XLB_LEASE_H
#define XLB_LEASE_H

#include "breaker.h"
#include "maps.h"

#define NO_SLOT 0xffffffffu

/* Exchanges tried before contention is taken for emptiness. */
#define STACK_TRIES 16

/* Those of enum pending, and as many that open again. */
#define PENDING_PARTS 8

struct stack_walk {
	struct pool *pool;
	struct slot *slot;
	__u32 index;
	__u32 done;
};

static long stack_pop_step(__u32 i, void *ctx)
{
	struct stack_walk *w = ctx;
	__u64 head = *(volatile __u64 *)&w->pool->idle;
	__u32 top = head;
	struct slot *s;
	__u64 next;

	(void)i;
	if (!top)
		return 1;
	s = slot_at(top - 1);
	if (!s)
		return 1;
	next = ((head >> 32) + 1) << 32 | s->next;
	if (__sync_val_compare_and_swap(&w->pool->idle, head, next) != head)
		return 0;
	w->index = top - 1;
	w->done = 1;
	return 1;
}

/* Takes the top slot; NO_SLOT when there is none. */
static __always_inline __u32 stack_pop(struct pool *p)
{
	struct stack_walk w = { .pool = p };
	struct slot *s;

	bpf_loop(STACK_TRIES, stack_pop_step, &w, 0);
	if (!w.done)
		return NO_SLOT;
	s = slot_at(w.index);
	if (s)
		s->stacked = 0;
	return w.index;
}

static long stack_push_step(__u32 i, void *ctx)
{
	struct stack_walk *w = ctx;
	__u64 head = *(volatile __u64 *)&w->pool->idle;

	(void)i;
	w->slot->next = head;
	if (__sync_val_compare_and_swap(&w->pool->idle, head, ((head >> 32) + 1) << 32 | (w->index + 1)) != head)
		return 0;
	w->done = 1;
	return 1;
}

/* Puts an idle slot on its pool's stack. False: contention; the caller breaks the slot. */
static __always_inline int stack_push(struct pool *p, struct slot *s, __u32 index)
{
	struct stack_walk w = { .pool = p, .slot = s, .index = index };

	s->stacked = 1;
	bpf_loop(STACK_TRIES, stack_push_step, &w, 0);
	if (!w.done)
		s->stacked = 0;
	return w.done;
}

/* A state, and the lease that it is of, if any, as one word. */
static __always_inline __u64 slot_word(enum slot_state state, __u64 lease)
{
	return lease << 32 | state;
}

/* slot_exchange where one of the states, or both, is that of a lease. */
static __always_inline int slot_exchange_word(struct slot *s, __u64 from, __u64 to)
{
	return __sync_val_compare_and_swap((__u64 *)&s->state, from, to) == from;
}

static __always_inline int slot_exchange(struct slot *s, enum slot_state from, enum slot_state to)
{
	return __sync_val_compare_and_swap(&s->state, from, to) == from;
}

/* One lease more, or less, of the slot's pool. */
static __always_inline struct pool *pool_count(const struct slot *s, __s32 n)
{
	struct pool *p = pool_at(s->pool);

	if (p)
		__sync_fetch_and_add(&p->leased, n);
	return p;
}

/* Ends that lease otherwise than with a whole response, and tells whether it ran still. untold: the lease, if the daemon is to tell the client,
 * else 0. */
static __always_inline int lease_end(struct slot *s, __u32 index, __u64 lease, __u64 untold)
{
	struct endpoint *e;

	if (!slot_exchange_word(s, slot_word(SLOT_LEASED, lease), slot_word(SLOT_BROKEN, untold)))
		return 0;
	s->broken_lease = lease;
	s->lease = lease + 1;
	e = endpoint_at(s->endpoint);
	cluster_leave_slot(s);
	pool_count(s, -1);
	if (e) {
		__sync_fetch_and_add(&e->outstanding, -1);
		__sync_fetch_and_add(&e->broken, 1);
	}
	raise_event(EVENT_SLOT_BROKEN, index, s->endpoint, lease);
	return 1;
}

/* Ends a lease that did not run to its end; the daemon closes the i-sock. */
static __always_inline void lease_break(struct slot *s, __u32 index, __u64 lease)
{
	lease_end(s, index, lease, 0);
}

/* The same of a lease that its client ends: the endpoint has failed in nothing. */
static __always_inline void lease_cancel(struct slot *s, __u32 index, __u64 lease)
{
	struct endpoint *e = endpoint_at(s->endpoint);

	if (lease_end(s, index, lease, 0) && e)
		__sync_fetch_and_add(&e->cancelled, 1);
}

/* The same as lease_break, and the daemon tells the client: its sweep sees that it must even if the event is lost. */
static __always_inline void lease_fail(struct slot *s, __u32 index, __u64 lease)
{
	lease_end(s, index, lease, lease);
}

/* An idle slot that is no use any more. */
static __always_inline void slot_discard(struct slot *s, __u32 index)
{
	if (slot_exchange(s, SLOT_READY, SLOT_BROKEN))
		raise_event(EVENT_SLOT_BROKEN, index, s->endpoint, s->lease);
}

/* Ends a lease whose request and response are complete. */
static __always_inline void lease_release(struct slot *s, __u32 index, __u64 lease)
{
	struct endpoint *e = endpoint_at(s->endpoint);
	struct pool *p;

	/* The next lease is LEASED before it is filled: the daemon must not find this one's deadline in it, nor take the one for the other by the
	 * cookie. */
	s->deadline_ns = 0;
	s->pending = 0;
	/* Nor its place in the count: who breaks the lease at this moment finds that it is gone. */
	cluster_leave_slot(s);
	if (!slot_exchange_word(s, slot_word(SLOT_LEASED, lease), slot_word(SLOT_READY, 0)))
		return;
	s->lease = lease + 1;
	p = pool_count(s, -1);
	if (!e)
		return;
	__sync_fetch_and_add(&e->outstanding, -1);
	if (!p || s->flags & SLOT_RETIRE || !stack_push(p, s, index))
		slot_discard(s, index);
}

/* What of a lease that begins has not ended. */
static __always_inline void lease_parts_begin(struct slot *s, __u64 lease, __u32 parts)
{
	*(volatile __u64 *)&s->pending = lease << 32 | parts;
}

/* One part of the exchange is complete; the last one ends the lease. The framing of a message ends before its last bytes are
 * moved: the lease waits for the sends that move them (PENDING_SEND, PENDING_REPLY). The lease is named: by the time that a server's
 * send returns the daemon may have ended it, and another one run. */
static __always_inline void lease_part_done(struct slot *s, __u32 index, __u64 lease, enum pending part)
{
	__u64 *parts = (__u64 *)&s->pending;
	__u64 had = *(volatile __u64 *)parts;

	for (int i = 0; i < PENDING_PARTS; i++) {
		__u64 left = had & ~(__u64)part, seen;

		if (had >> 32 != (__u32)lease || !(had & part))
			return;
		seen = __sync_val_compare_and_swap(parts, had, left);
		if (seen == had) {
			if (!(__u32)left)
				lease_release(s, index, lease);
			return;
		}
		had = seen;
	}
	/* Each failure is another part's end, and there are no more. */
	lease_break(s, index, lease);
}

/* A part of the exchange that a program took for complete is not, because the kernel did not move all of it. The lease runs:
 * its send has not returned. */
static __always_inline void lease_part_open(struct slot *s, enum pending part)
{
	__sync_fetch_and_or(&s->pending, part);
}

/* The response is framed to its end. Its last bytes may not have reached the client's queue yet. */
static __always_inline void lease_response_done(struct slot *s, __u32 index, __u64 lease)
{
	s->ended_cookie = s->cookie;
	s->ended_ns = bpf_ktime_get_ns();
	lease_part_done(s, index, lease, PENDING_RESPONSE);
}

/* Whether the slot still belongs to that lease. */
static __always_inline int lease_holds(const struct slot *s, __u64 lease)
{
	return s && lease && s->lease == lease;
}

/* Whether the lease ended without a whole response, of which the client may not know yet. */
static __always_inline int lease_was_broken(const struct slot *s, __u64 lease)
{
	return s && lease && s->broken_lease == lease;
}

/* The lease becomes a tunnel's: it lasts until both sides have closed, and the i-sock serves nobody else. The route's timeout was for
 * the answer. */
static __always_inline void lease_tunnel(struct slot *s)
{
	s->deadline_ns = 0;
	__sync_fetch_and_or(&s->flags, SLOT_RETIRE);
	__sync_fetch_and_or(&s->pending, PENDING_REQUEST);
}

static __always_inline int lease_is_tunnel(const struct slot *s)
{
	return s->status == 101 && s->request & REQUEST_UPGRADE;
}

/* Whether all of the request lies unread at its server, of which this is the socket. The bytes of a request are the last that were moved there:
 * as many that are unread are those. */
static __always_inline int request_lies_unread(struct bpf_sock *sk, const struct slot *s)
{
	return s->sent && sock_has_unread(sk, s->sent);
}

/* Whether the server has not called receive since the lease began: then it has seen nothing of the request. Ask only where reads_stamped. */
static __always_inline int nothing_read_since_lease(struct bpf_sock *sk, const struct slot *s)
{
	return sock_tcp(sk)->tcp_clock_cache < s->begun_ns;
}

/* A workload's i-socks to an endpoint; NULL: there are none yet. */
static __always_inline struct pool *pool_of(const struct pool_key *of)
{
	__u32 *index = bpf_map_lookup_elem(&pool_indices, of);

	return index ? pool_at(*index) : 0;
}

/* Whether the i-sock is one of that workload's to that endpoint. An entry of `pools` may have become another's behind the look-up. */
static __always_inline int slot_is_of(const struct slot *s, const struct pool_key *of)
{
	return s->workload == of->workload && s->endpoint == of->endpoint;
}

/* Gives up a lease that was taken by mistake, of another workload's or endpoint's i-sock. */
static __noinline int lease_return(struct slot *s, __u32 index, __u64 lease)
{
	struct endpoint *e;

	if (!s)
		return 0;
	pool_count(s, 1);
	e = endpoint_at(s->endpoint);
	if (e)
		__sync_fetch_and_add(&e->outstanding, 1);
	lease_cancel(s, index, lease);
	return 0;
}

/* Leases a slot that has left its stack. NULL: it is broken, or has become another i-sock's behind the look at its owner. */
static __always_inline struct slot *lease_take(struct slot *s, __u32 i, const struct pool_key *of, struct endpoint *e,
					       __u64 *lease)
{
	/* Nobody else takes it; who breaks it at once must find the number of the lease. */
	*lease = s->lease + 1;
	s->lease = *lease;
	/* A broken one lay in the stack: the daemon, which waits for it to leave, may now free it. */
	if (!slot_exchange_word(s, slot_word(SLOT_READY, 0), slot_word(SLOT_LEASED, *lease)))
		return 0;
	/* From here on it stays this i-sock's. */
	if (!slot_is_of(s, of)) {
		lease_return(s, i, *lease);
		return 0;
	}
	pool_count(s, 1);
	__sync_fetch_and_add(&e->outstanding, 1);
	return s;
}

/* Takes an idle i-sock of the pool. The key is that by which the pool was found. */
static __always_inline struct slot *lease_begin(struct pool *p, const struct pool_key *of, struct endpoint *e,
						__u32 *index, __u64 *lease)
{
	__u32 i = stack_pop(p);
	struct slot *s;

	*index = i;
	if (i == NO_SLOT)
		return 0;
	s = slot_at(i);
	if (!s)
		return 0;
	/* The pool is another's by now. */
	if (!slot_is_of(s, of)) {
		slot_discard(s, i);
		return 0;
	}
	return lease_take(s, i, of, e, lease);
}

/* Asks the daemon for i-socks. missed: how many requests have found no pool. */
static __always_inline long pool_low(const struct pool_key *of, __u32 missed)
{
	struct event e = { .kind = EVENT_POOL_LOW,
			   .slot = NO_SLOT,
			   .endpoint = of->endpoint,
			   .detail = of->workload,
			   .lease = missed };

	return bpf_ringbuf_output(&events, &e, sizeof(e), 0);
}

/* The same, once until the daemon has answered. */
static __always_inline void pool_want(struct pool *p, const struct pool_key *of)
{
	if (p->want || __sync_val_compare_and_swap(&p->want, 0, 1))
		return;
	/* An event that is lost must be raised again by the next request. */
	if (pool_low(of, 0))
		p->want = 0;
}

#endif
