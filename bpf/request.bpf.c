// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* sk_msg of p-socks: runs on every send() of a client. Frames the request, routes it, takes an i-sock and moves the
 * message there, or declines: the bytes then reach the anchor whole, and the slow path. Drops only where the socket is of no
 * further use: SK_DROP may stick to it for good.
 */
#include "lib/account.h"
#include "lib/balance.h"
#include "lib/breaker.h"
#include "lib/config.h"
#include "lib/dispatch.h"
#include "lib/edit.h"
#include "lib/locked.h"
#include "lib/http1.h"
#include "lib/lease.h"
#include "lib/maps.h"
#include "lib/router.h"
#include "lib/sample.h"
#include "lib/walk.h"

/* Lets the message go to the anchor, by a redirect to the p-sock itself. A plain pass would repeat the redirect before it in the
 * same sendmsg(), and while it waits for room the kernel would pass what other tasks send without showing it to the program.
 * Where the redirect cannot be had, the socket listens or leaves its map: what follows a redirect then must go nowhere.
 */
static __always_inline int request_pass(struct sk_msg_md *msg, struct psock *ps)
{
	struct bpf_sock *sk = msg->sk;

	/* Of the task alone that `send` is of: others send beside it, and are not recorded. */
	if (sk && send_is_of_this_task(&ps->send))
		ps->pass_end = sock_tcp(sk)->write_seq + msg->size;
	if (bpf_msg_redirect_hash(msg, &psocks, &ps->cookie, 0) == SK_PASS)
		return SK_PASS;
	return msg_target(msg) ? SK_DROP : SK_PASS;
}

/* Whether what is declined for that reason are bytes amid a message, which nobody may take for a request. */
static __always_inline int is_amid(enum verdict why)
{
	return why == HANDOVER_LEASE_BROKEN || why == HANDOVER_BODY_MALFORMED || why == HANDOVER_BODY_SPILLED;
}

/* There is no room to tell the daemon what the bytes are. It asks each i-sock whether a lease runs that they are of. */
static __noinline int request_unstated(struct sk_msg_md *msg, struct psock *ps, enum verdict why)
{
	struct slot *s = slot_at(ps->slot);

	count(HANDOVER_NO_STATE);
	if (!is_amid(why) || (why == HANDOVER_BODY_SPILLED && lease_holds(s, ps->lease))) {
		ps->body = 0;
		ps->flags |= PSOCK_SLOW;
		return request_pass(msg, ps);
	}
	/* They would be taken for a request. So they go nowhere, nor does anything else that the socket sends: the daemon resets it when it
	 * tells the client how its lease has ended. */
	ps->body = CHUNKED_BODY;
	if (lease_holds(s, ps->lease))
		lease_fail(s, ps->slot, ps->lease);
	return SK_DROP;
}

/* Declines: from here on, until the daemon gives the connection back, every byte goes to the anchor. */
static __always_inline int request_decline(struct sk_msg_md *msg, struct psock *ps, enum verdict why, __u32 endpoint)
{
	struct slow_conn *known = slow_conn_of(ps->cookie);
	struct slow_conn fresh = {
		.reason = why, .endpoint = endpoint + 1, .draw = ps->scan.draw, .requests = ps->requests
	};
	struct slot *s = slot_at(ps->slot);

	ps->scan.draw = 0;

	if (s && (lease_holds(s, ps->lease) || lease_was_broken(s, ps->lease))) {
		fresh.slot = ps->slot;
		fresh.lease = ps->lease;
		fresh.has_lease = 1;
		fresh.begun = s->moved != 0;
	}
	count(why);
	if (!(ps->flags & PSOCK_ANNOUNCED)) {
		ps->flags |= PSOCK_ANNOUNCED;
		raise_event(EVENT_HANDOVER, 0, endpoint, 0);
	}
	if (known) {
		/* A spill got here first; the daemon reads these fields after it has read the bytes. */
		known->reason = fresh.reason;
		known->endpoint = fresh.endpoint;
		known->slot = fresh.slot;
		known->lease = fresh.lease;
		known->has_lease = fresh.has_lease;
		known->begun = fresh.begun;
		known->draw = fresh.draw;
		known->requests = fresh.requests;
	} else if (slow_conn_put(ps->cookie, &fresh, BPF_ANY)) {
		return request_unstated(msg, ps, why);
	}
	ps->body = 0;
	return request_pass(msg, ps);
}

/* Whether the daemon has given the connection back and nothing has moved since: every byte that went over TCP was read
 * as whole requests, and every byte that came was read by the application, so a redirected response cannot overtake it. The
 * counts are the connection's own: a program never learns how much of a send the socket took. */
static __always_inline int request_given_back(struct sk_msg_md *msg, const struct psock *ps, const struct slow_conn *c)
{
	__u32 read = c->offer, written = c->offer >> 32;
	struct bpf_sock *sk = msg->sk;
	struct tcp_sock *tp;

	if (!c->offered || !sk)
		return 0;
	tp = sock_tcp(sk);
	return tp->write_seq - ps->write_base == read && tp->copied_seq - ps->read_base == written;
}

/* Whether the client waits for an answer, from an endpoint or from the daemon. The daemon offers a connection as soon as it has sent on
 * the rest of a request: the next one must not overtake the answer to that. */
static __always_inline int request_is_unanswered(const struct psock *ps, const struct slot *s,
						 const struct slow_conn *c)
{
	if (lease_holds(s, ps->lease))
		return 1;
	return c->offered != OFFER_ANSWERED && lease_was_broken(s, ps->lease);
}

/* A redirect to another host that finds the send buffer full takes a part, and the kernel does not tell the client when there
 * is room again. */
static __always_inline int remote_has_room(const struct sock *t, __u64 bytes)
{
	__u64 cost = sock_send_cost(t, bytes);

	return tcp_may_charge(t, cost) && (__u64)t->sk_wmem_queued + cost <= (__u32)t->sk_sndbuf;
}

static __always_inline int target_has_room(struct sk_msg_md *msg, __u32 local, __u64 bytes)
{
	struct sock *t = msg_target(msg);

	if (!t || t->__sk_common.skc_state != TCP_ESTABLISHED)
		return 0;
	if (!local)
		return remote_has_room(t, bytes);
	return !ingress_charged || (__u64)t->sk_backlog.rmem_alloc.counter + bytes <= 2 * (__u64)request_limit;
}

/* Counts one more message that a server on this host may not have read. False: they are too many. A message has a byte at least, so
 * that where few bytes are unread few messages are. */
static __always_inline int message_fits(const struct sock *t, struct slot *s)
{
	__u32 unread = t->sk_backlog.rmem_alloc.counter;

	if (++s->messages <= MAX_MESSAGES)
		return 1;
	if (ingress_charged ? unread >= MAX_MESSAGES / 2 : !sock_queue_is_empty(t))
		return 0;
	s->messages = ingress_charged ? unread : 0;
	return 1;
}

/* Whether a byte that went before was urgent data: then the server is short of it, and reads what follows otherwise than the
 * program. */
static __always_inline int request_is_urgent(struct sk_msg_md *msg, const struct slot *s)
{
	struct sock *t = msg_target(msg);

	if (s->flags & SLOT_LOCAL || !t)
		return 0;
	return tcp_is_urgent(sock_as_tcp(t)) || *(volatile __u32 *)&s->flags & SLOT_URGENT;
}

static __always_inline long redirect_to_slot(struct sk_msg_md *msg, const struct slot *s, __u32 index)
{
	if (s->flags & SLOT_LOCAL)
		return bpf_msg_redirect_hash(msg, &ssocks, &index, BPF_F_INGRESS);
	return bpf_msg_redirect_hash(msg, &isocks, &index, 0);
}

static __always_inline void request_sent(struct slot *s, __u32 bytes)
{
	s->sent += bytes;
	s->traffic.bytes_sent += bytes;
}

/* The request is complete. Its timeout, if there is one, begins now, in place of the time that the request itself had. */
static __always_inline void request_ended(struct slot *s, __u32 index, __u64 lease)
{
	s->deadline_ns = s->timeout_ns ? bpf_ktime_get_coarse_ns() + s->timeout_ns : 0;
	lease_part_done(s, index, lease, PENDING_REQUEST);
}

/* The i-sock is lost in the midst of a request; the daemon tells the client. */
static __always_inline int request_lost(struct sk_msg_md *msg, struct psock *ps, struct slot *s)
{
	if (lease_holds(s, ps->lease))
		lease_fail(s, ps->slot, ps->lease);
	/* What was taken of the request is not known. */
	ps->unproven = 0;
	return request_decline(msg, ps, HANDOVER_LEASE_BROKEN, NO_ENDPOINT);
}

/* How many of the bytes an endpoint has room for that may read more slowly than they come. 0: the rest is the daemon's, which has flow
 * control. Those to another host go all or not at all: to split them would stall. */
static __always_inline __u64 long_body_room(struct sk_msg_md *msg, const struct slot *s, __u64 n)
{
	struct sock *t = msg_target(msg);
	__u64 unread;

	if (!t || t->__sk_common.skc_state != TCP_ESTABLISHED)
		return 0;
	if (!(s->flags & SLOT_LOCAL))
		return remote_has_room(t, n) ? n : 0;
	/* Without charging by the kernel only the request's own bytes are known. */
	unread = ingress_charged ? (__u64)t->sk_backlog.rmem_alloc.counter : s->sent;
	if (unread >= request_window)
		return 0;
	return n < request_window - unread ? n : request_window - unread;
}

/* The same of any. What a body takes of a server's memory was reserved when its head was moved, unless it is long; its messages
 * were not. */
static __always_inline __u64 body_room(struct sk_msg_md *msg, struct slot *s, __u64 left, __u64 n)
{
	struct sock *t = msg_target(msg);

	if (!t)
		return 0;
	if (!(s->flags & SLOT_LOCAL) || s->sent + left > request_limit)
		n = long_body_room(msg, s, n);
	if (s->flags & SLOT_LOCAL && (!message_fits(t, s) || !sock_may_charge(t, n) || target_is_locked(msg)))
		return 0;
	return n;
}

/* The rest of a body goes through the daemon. */
static __always_inline int request_spill(struct sk_msg_md *msg, struct psock *ps, struct slot *s)
{
	if (ps->body != CHUNKED_BODY) {
		s->upload.phase = PHASE_LENGTH;
		s->upload.remaining = ps->body;
	}
	s->request |= REQUEST_SPILLED;
	return request_decline(msg, ps, HANDOVER_BODY_SPILLED, NO_ENDPOINT);
}

/* The rest of a body whose head was moved. */
static __always_inline int request_body(struct sk_msg_md *msg, struct psock *ps)
{
	struct slot *s = slot_at(ps->slot);
	__u64 size = msg->size, n;

	if (!s || !lease_holds(s, ps->lease) || redirect_to_slot(msg, s, ps->slot) != SK_PASS ||
	    request_is_urgent(msg, s))
		return request_lost(msg, ps, s);
	n = body_room(msg, s, ps->body, size < ps->body ? size : ps->body);
	if (!n)
		return request_spill(msg, ps, s);
	/* There is no room for more, or the next request rides in the same send: the program runs again. */
	if (n < size)
		bpf_msg_apply_bytes(msg, n);
	send_claim(msg, &ps->send, n);
	ps->body -= n;
	request_sent(s, n);
	count(VERDICT_REQUEST_BODY);
	if (!ps->body)
		request_ended(s, ps->slot, ps->lease);
	return SK_PASS;
}

/* The body of a request that has begun cannot be framed. Nothing more of it reaches the endpoint; the daemon answers, unless the
 * endpoint has begun to. */
static __always_inline int request_malformed(struct sk_msg_md *msg, struct psock *ps, struct slot *s)
{
	int passed = request_decline(msg, ps, HANDOVER_BODY_MALFORMED, NO_ENDPOINT);

	/* Behind the look at what the client has of the response. */
	lease_break(s, ps->slot, ps->lease);
	return passed;
}

/* Longest message that is made one piece: the kernel copies it, to pages that lie side by side. */
#define MAX_PIECE 65536

/* Whether one of the request's pieces may end within what frames it. */
static __always_inline int request_must_be_whole(const struct sk_msg_md *msg, const struct psock *ps)
{
	return ps->scan.flags & SCAN_CHUNKED || ps->scan.off >= msg->data_end - msg->data;
}

/* Makes a message one piece, if it is none. As urgent data (MSG_OOB) a send to another host loses the last byte of each of
 * its pieces: inside of what frames the body that would give the server another body, and what follows in the same send follows
 * at once. Not 0: it cannot be had. */
static __always_inline long message_join(struct sk_msg_md *msg)
{
	__u32 size = msg->size;

	if (msg->data_end - msg->data >= size)
		return 0;
	return size > MAX_PIECE ? -1 : bpf_msg_pull_data(msg, 0, size, 0);
}

/* Whether the rest of a chunked body may be moved: room for the limit was reserved when the head was. */
static __always_inline int chunks_have_room(struct sk_msg_md *msg, struct slot *s)
{
	struct sock *t = msg_target(msg);
	__u32 size = msg->size;

	if (!t || s->sent + size > request_limit)
		return 0;
	if (!(s->flags & SLOT_LOCAL))
		return remote_has_room(t, size) && !message_join(msg);
	return message_fits(t, s) && sock_may_charge(t, size) && !target_is_locked(msg);
}

/* The rest of a chunked body. What the kernel does not move is the daemon's, which goes on where the slot's scan stands. */
static __always_inline int request_chunks(struct sk_msg_md *msg, struct psock *ps)
{
	struct slot *s = slot_at(ps->slot);
	__u32 size = msg->size;
	struct body_scan before;
	long at;

	if (!s || !lease_holds(s, ps->lease) || redirect_to_slot(msg, s, ps->slot) != SK_PASS ||
	    request_is_urgent(msg, s))
		return request_lost(msg, ps, s);
	if (!chunks_have_room(msg, s))
		return request_spill(msg, ps, s);
	before = s->upload;
	at = chunk_walk(msg, &s->upload, 0);
	if (at >= WALK_LEFT) {
		/* To move what is before that would split the send, which stalls requests to other hosts. */
		s->upload = before;
		return request_spill(msg, ps, s);
	}
	if (at <= 0)
		return request_malformed(msg, ps, s);
	if (redirect_to_slot(msg, s, ps->slot) != SK_PASS)
		return request_lost(msg, ps, s);
	if (at < size)
		bpf_msg_apply_bytes(msg, at);
	send_claim(msg, &ps->send, at);
	request_sent(s, at);
	count(VERDICT_REQUEST_BODY);
	if (s->upload.phase == PHASE_DONE) {
		ps->body = 0;
		request_ended(s, ps->slot, ps->lease);
	}
	return SK_PASS;
}

static __always_inline struct span message_span(struct sk_msg_md *msg)
{
	struct span span = { .data = msg->data, .end = msg->data_end };

	return span;
}

/* Reads the head. A head that straddles two fragments is made linear, once. */
static __always_inline enum verdict request_read(struct sk_msg_md *msg, struct psock *ps, __u32 table, __u32 flags)
{
	__u32 linear = msg->data_end - msg->data, size = msg->size;
	enum verdict v;

	request_scan_begin(&ps->scan, table, flags);
	v = request_scan(&ps->scan, message_span(msg));
	if (v != HANDOVER_PARTIAL_HEAD || linear >= size || linear >= MAX_HEAD)
		return v;
	if (bpf_msg_pull_data(msg, 0, size < MAX_HEAD ? size : MAX_HEAD, 0))
		return v;
	request_scan_begin(&ps->scan, table, flags);
	return request_scan(&ps->scan, message_span(msg));
}

/* One whole request, or the head and first part of one; nothing behind it. `room` is what it may take at once. */
static __always_inline enum verdict request_fits(struct psock *ps, __u32 size, __u64 *room)
{
	__u64 total = ps->scan.off + ps->scan.content_length;

	ps->body = 0;
	if (ps->scan.flags & SCAN_CHUNKED) {
		*room = request_limit;
		ps->body = CHUNKED_BODY;
		return size > request_limit ? HANDOVER_BODY_TOO_LONG : 0;
	}
	*room = total < request_limit ? total : request_limit;
	if (size > total)
		return HANDOVER_PIPELINED;
	ps->body = total - size;
	return 0;
}

/* How much of the first message goes to the i-sock that has been found: all of it, but for what exceeds the room, if the endpoint is on this
 * host; the program runs again for that. 0: it cannot go there, whole, as it would have to. */
static __always_inline __u32 request_first(struct sk_msg_md *msg, struct psock *ps, const struct slot *s)
{
	__u32 size = msg->size;

	if (size <= request_limit)
		return size;
	if (!(s->flags & SLOT_LOCAL))
		return target_has_room(msg, 0, size) ? size : 0;
	bpf_msg_apply_bytes(msg, request_limit);
	ps->body += size - request_limit;
	return request_limit;
}

/* Reads what the first send holds of a chunked body. Not read to its end, it would have to be split, which stalls requests to other
 * hosts: MSG_MORE is added to all parts but the last. */
static __always_inline enum verdict request_chunks_begin(struct sk_msg_md *msg, struct psock *ps)
{
	__u32 size = msg->size;
	long at;

	body_begin_chunks(&ps->upload);
	at = chunk_walk(msg, &ps->upload, ps->scan.off);
	if (at < 0)
		return HANDOVER_MALFORMED;
	if (at >= WALK_LEFT)
		return ps->upload.phase == PHASE_TRAILER_START ? HANDOVER_TRAILERS : HANDOVER_MALFORMED;
	if (at < size)
		return ps->upload.phase == PHASE_DONE ? HANDOVER_PIPELINED : HANDOVER_TRANSFER_CODING;
	if (ps->upload.phase == PHASE_DONE)
		ps->body = 0;
	return 0;
}

/* Notes where the i-sock to another host stands before the request. */
static __always_inline void request_mark(struct sk_msg_md *msg, struct slot *s)
{
	struct sock *t = msg_target(msg);

	if (!t)
		return;
	s->owed = sock_owed(t);
	s->first_sequence = sock_as_tcp(t)->write_seq;
}

/* Notes that one more message lies in the server's queue. */
static __always_inline void request_count(struct sk_msg_md *msg, struct slot *s)
{
	struct sock *t = msg_target(msg);

	if (t)
		message_fits(t, s);
}

struct lease_try {
	struct sk_msg_md *msg;
	struct pool *pool;
	struct endpoint *endpoint;
	struct slot *slot;
	struct pool_key of;
	/* Bytes that the i-sock must have room for. */
	__u64 room;
	__u64 lease;
	__u32 index;
	/* enum verdict: 0 while the next i-sock is worth a try. */
	__u32 failure;
	__u32 done;
	__u32 reserved;
};

/* Whether the target may find no memory for what it is sent or, on this host, for what it answers. */
static __always_inline int target_is_lean(struct sk_msg_md *msg, const struct slot *s, __u64 bytes)
{
	struct sock *t = msg_target(msg);
	__u64 cost;

	if (!t)
		return 0;
	if (s->flags & SLOT_LOCAL)
		return sock_is_lean(t) || !sock_may_charge(t, bytes);
	cost = sock_send_cost(t, bytes);
	return !tcp_may_charge(t, cost > NARROW_ROOM ? cost : NARROW_ROOM);
}

static long lease_try_step(__u32 i, void *ctx)
{
	struct lease_try *t = ctx;
	struct slot *s;
	__u64 lease = 0;
	__u32 index;

	(void)i;
	s = lease_begin(t->pool, &t->of, t->endpoint, &index, &lease);
	if (index == NO_SLOT)
		return 1;
	if (!s)
		return 0;
	/* A server that is closing leaves the map a moment later. */
	if (redirect_to_slot(t->msg, s, index) != SK_PASS || *(volatile __u32 *)&s->closed == s->generation) {
		lease_break(s, index, lease);
		return 0;
	}
	/* The look at the target comes first: when its urgent byte is acknowledged the slot has been marked. */
	if (request_is_urgent(t->msg, s) || *(volatile __u32 *)&s->flags & SLOT_UNFIT) {
		lease_break(s, index, lease);
		return 0;
	}
	/* It is well, but memory is short, for all of what is admitted at once: TCP waits for it. */
	if (target_is_lean(t->msg, s, t->room)) {
		lease_release(s, index, lease);
		t->failure = HANDOVER_NO_ROOM;
		return 1;
	}
	if (s->flags & SLOT_LOCAL && target_is_locked(t->msg)) {
		lease_release(s, index, lease);
		t->failure = HANDOVER_ENDPOINT_LOCKED;
		return 1;
	}
	if (target_has_room(t->msg, s->flags & SLOT_LOCAL, t->room)) {
		t->slot = s;
		t->lease = lease;
		t->index = index;
		t->done = 1;
		return 1;
	}
	/* Full, or closing: either way not one to wait for. */
	lease_break(s, index, lease);
	return 0;
}

/* Whether a request can be kept, as it must where the route's retry policy may want it again: whole in this message, and in one piece. */
static __always_inline enum verdict request_keeps(struct sk_msg_md *msg, const struct psock *ps,
						  const struct routing *to)
{
	__u32 size = msg->size;

	if (!(to->flags >> ROUTE_RETRY_SHIFT))
		return 0;
	if (ps->body || size > MAX_COPY)
		return HANDOVER_RETRY_COPY;
	if (msg->data_end - msg->data < size && bpf_msg_pull_data(msg, 0, size, 0))
		return HANDOVER_RETRY_COPY;
	return 0;
}

static __always_inline __u32 request_flags(const struct request_scan *r)
{
	__u32 flags = r->flags & SCAN_HEAD ? REQUEST_HEAD : 0;

	return r->flags & SCAN_UPGRADE ? flags | REQUEST_UPGRADE : flags;
}

/* Keeps a request that is whole in this message and lies in one piece. */
static __always_inline __u32 request_keep(struct sk_msg_md *msg, const struct psock *ps, __u32 index)
{
	struct request_copy *copy = request_copy_at(index);
	void *data = msg->data, *end = msg->data_end;
	__u64 size = msg->size;

	/* 0 is not asked for: with it the compiler makes of both bounds one that the verifier of 6.12 does not see. */
	if (!copy || ps->body || size > MAX_COPY || end - data < size)
		return 0;
	/* A kernel that is locked down refuses: then nothing is sent again. */
	return bpf_probe_read_kernel(copy->bytes, size, data) ? 0 : size;
}

/* What the response is to be looked at for, by the route as it is now. False: the request could not be kept. */
static __always_inline int request_retries(struct slot *s, __u32 index, __u32 flags)
{
	struct request_copy *copy = request_copy_at(index);
	struct retry_set *set;

	s->retry = 0;
	if (!(flags >> ROUTE_RETRY_SHIFT))
		return 1;
	set = retry_set_at(flags >> ROUTE_RETRY_SHIFT);
	if (!set || !copy || !s->kept)
		return 0;
	for (__u32 i = 0; i < STATUS_WORDS; i++)
		copy->statuses[i] = set->statuses[i];
	s->retry = set->flags;
	return 1;
}

/* When the response is overdue, or a request that is not whole. */
static __always_inline __u64 lease_deadline(const struct routing *to, __u32 whole)
{
	__u64 within = whole ? to->timeout_ns : (__u64)to->request_ms * 1000000;

	return within ? bpf_ktime_get_coarse_ns() + within : 0;
}

static __always_inline void lease_fill(const struct lease_try *t, struct psock *ps, const struct routing *to,
				       __u32 counted)
{
	struct bpf_sock *sk = t->msg->sk;
	struct slot *s = t->slot;
	__u32 whole = !ps->body;

	s->cookie = ps->cookie;
	/* The daemon looks for a client's lease: where nothing is pending, the cookie is the one of the lease before. */
	asm volatile("" ::: "memory");
	lease_parts_begin(s, t->lease,
			  PENDING_RESPONSE | PENDING_SEND | (whole ? 0 : PENDING_REQUEST) |
				  (s->flags & SLOT_LOCAL ? PENDING_REPLY : 0));
	s->spill = SPILL_NONE;
	s->passed = 0;
	s->status = 0;
	s->sent = 0;
	s->moved = 0;
	s->waiting = 0;
	s->largest = 0;
	s->head.interims = 0;
	s->counted = counted;
	s->draw = ps->scan.draw;
	s->request = request_flags(&ps->scan);
	s->timeout_ns = to->timeout_ns;
	s->idle_ms = to->idle_ms;
	s->begun_ns = bpf_ktime_get_ns();
	s->deadline_ns = lease_deadline(to, whole);
	if (ps->body == CHUNKED_BODY)
		s->upload = ps->upload;
	if (!(s->flags & SLOT_LOCAL) && sk && sock_lacks_room(sock_kernel(sk)))
		s->request |= REQUEST_LEAN;
	/* Last: what comes before it is nobody's. */
	asm volatile("" ::: "memory");
	s->response.phase = PHASE_HEAD;
	ps->flags &= ~PSOCK_REMOTE;
	if (!(s->flags & SLOT_LOCAL))
		ps->flags |= PSOCK_REMOTE;
	ps->slot = t->index;
	/* Not slot.lease: the daemon may have broken it by now. */
	ps->lease = t->lease;
	ps->unproven = t->lease;
	ps->requests++;
	ps->scan.draw = 0;
}

/* The last request that the i-sock may serve: it closes when the lease ends. */
static __always_inline void lease_wear(struct slot *s)
{
	if (s->max_requests && s->traffic.requests >= s->max_requests)
		__sync_fetch_and_or(&s->flags, SLOT_RETIRE);
}

/* Takes an i-sock of the endpoint and moves the message there, with another path if the route says so. */
static __always_inline enum verdict request_move(struct sk_msg_md *msg, struct psock *ps, const struct routing *to,
						 const struct edit *edit, __u32 chosen, __u64 room, __u32 counted)
{
	struct endpoint *e = endpoint_at(chosen);
	struct lease_try t = {
		.msg = msg, .endpoint = e, .room = room, .of = { .workload = ps->workload, .endpoint = chosen }
	};
	struct pool *pool;
	__u64 claimed;
	__u32 first;

	if (!e)
		return HANDOVER_NO_ENDPOINT;
	/* i-socks of before, when it was not so, may still lie in its stack. */
	if (e->flags & ENDPOINT_TLS)
		return HANDOVER_ENDPOINT_TLS;
	if (e->flags & ENDPOINT_GUARDED)
		return HANDOVER_GUARDED;
	pool = pool_of(&t.of);
	if (!pool) {
		pool_low(&t.of, 1);
		return HANDOVER_POOL_EMPTY;
	}
	t.pool = pool;
	bpf_loop(MAX_LEASE_TRIES, lease_try_step, &t, 0);
	if (t.failure)
		return t.failure;
	if (!t.done || !t.slot) {
		__sync_fetch_and_add(&pool->missed, 1);
		pool_want(pool, &t.of);
		return HANDOVER_POOL_EMPTY;
	}
	if (!(__u32)pool->idle || (pool->ask_at && pool->leased >= pool->ask_at))
		pool_want(pool, &t.of);
	/* As the client has sent it: the daemon, should it send it again, edits it itself. */
	t.slot->kept = request_keep(msg, ps, t.index);
	if (!request_retries(t.slot, t.index, to->flags)) {
		/* As it was: nothing has been moved. */
		lease_release(t.slot, t.index, t.lease);
		return HANDOVER_RETRY_COPY;
	}
	first = request_first(msg, ps, t.slot);
	if (!(t.slot->flags & SLOT_LOCAL) && request_must_be_whole(msg, ps) && message_join(msg)) {
		lease_release(t.slot, t.index, t.lease);
		return HANDOVER_TRANSFER_CODING;
	}
	if (!first) {
		lease_release(t.slot, t.index, t.lease);
		return HANDOVER_BODY_TOO_LONG;
	}
	if (t.slot->flags & SLOT_LOCAL)
		request_count(msg, t.slot);
	else
		request_mark(msg, t.slot);
	/* Before the edit, which changes the message's size: a send returns how many of the client's own bytes it took. */
	claimed = send_position(msg, &ps->send) + first;
	if (edit->before && !edit_message(msg, &ps->scan, edit, !(t.slot->flags & SLOT_LOCAL))) {
		t.slot->kept = 0;
		lease_break(t.slot, t.index, t.lease);
		return HANDOVER_REWRITE;
	}
	lease_fill(&t, ps, to, counted);
	ps->send.claimed = claimed;
	ps->flags &= ~PSOCK_EDITED;
	if (edit->before)
		ps->flags |= PSOCK_EDITED;
	t.slot->traffic.requests++;
	lease_wear(t.slot);
	/* An edited message is moved whole. */
	request_sent(t.slot, edit->before ? msg->size : first);
	count(VERDICT_REQUEST_LEASED);
	return 0;
}

/* Whether the daemon serves the request by the choice that was made: a turn is taken once. */
static __always_inline int request_keeps_choice(enum verdict v, __u32 chosen)
{
	return v == HANDOVER_POOL_EMPTY || v == HANDOVER_NO_ROOM || v == HANDOVER_ENDPOINT_LOCKED ||
	       v == HANDOVER_ENDPOINT_TLS || v == HANDOVER_GUARDED || chosen == FAILING_ENDPOINT;
}

/* Chooses an endpoint, and moves the message there, if the cluster's circuit breaker allows one more request. */
static __always_inline int request_send(struct sk_msg_md *msg, struct psock *ps, const struct routing *to,
					const struct edit *edit, __u64 room)
{
	struct cluster *c = cluster_at(to->cluster), *whole = c ? cluster_whole(c) : 0;
	__u32 chosen, counted;
	enum verdict v;

	if (!c || !whole)
		return request_decline(msg, ps, HANDOVER_NO_CLUSTER, NO_ENDPOINT);
	if (cluster_is_slow(c, to->hash))
		return request_decline(msg, ps, HANDOVER_CLUSTER_SLOW, NO_ENDPOINT);
	if (!cluster_enter(whole, ps->account, &counted))
		return request_decline(msg, ps, HANDOVER_OVERFLOW, NO_ENDPOINT);
	chosen = balance_pick(c, to->hash);
	v = chosen >= FAILING_ENDPOINT ? HANDOVER_NO_ENDPOINT : request_move(msg, ps, to, edit, chosen, room, counted);
	if (!v)
		return SK_PASS;
	cluster_leave(counted);
	return request_decline(msg, ps, v, request_keeps_choice(v, chosen) ? chosen : NO_ENDPOINT);
}

/* Whether the answer to the request is to close the connection: a matter of the daemon's. */
static __always_inline int request_is_last(const struct psock *ps, const struct route_table *t)
{
	return ps->held || (t->max_requests && ps->requests + 1 >= t->max_requests);
}

/* Whether the path is to be changed, and how. Only in a request that is whole, and moved at once: should the redirect fail behind this program, because the
 * i-sock closes in that moment or memory is out, then send() takes as many bytes for unsent as the message has now, and if it became shorter, the
 * application sends the last of its own once more. They must meet a request that has ended, behind which they are not the endpoint's
 * but the daemon's. If it became longer, send() fails. */
static __always_inline enum verdict request_plan_edit(const struct psock *ps, __u32 size, __u32 rewrite,
						      struct edit *edit, __u64 *room)
{
	if (!rewrite)
		return 0;
	if (ps->body || size > request_limit || !edit_plan(&ps->scan, rewrite, edit))
		return HANDOVER_REWRITE;
	*room += edit_growth(edit);
	return 0;
}

/* The first bytes of a request. */
static __always_inline int request_begin(struct sk_msg_md *msg, struct psock *ps)
{
	__u32 table = listener_table(ps->listener);
	struct control *control = control_at(0);
	struct routing to = {};
	struct route_table *t;
	struct edit edit = {};
	enum verdict v;
	__u64 room;

	if (!table)
		return request_decline(msg, ps, HANDOVER_LISTENER_GONE, NO_ENDPOINT);
	if (!control || control->guarded)
		return request_decline(msg, ps, HANDOVER_GUARDED, NO_ENDPOINT);
	t = route_table_at(table);
	if (!t || t->flags & (TABLE_SLOW | TABLE_PLAIN))
		return request_decline(msg, ps, HANDOVER_TABLE_SLOW, NO_ENDPOINT);
	if (ps->held == HOLD_GUARD)
		return request_decline(msg, ps, HANDOVER_GUARDED, NO_ENDPOINT);
	if (request_is_last(ps, t))
		return request_decline(msg, ps, HANDOVER_CONNECTION_LIMIT, NO_ENDPOINT);
	to.request_ms = t->request_ms;
	v = request_read(msg, ps, table, t->flags);
	if (!v)
		v = request_fits(ps, msg->size, &room);
	if (msg->family == AF_INET)
		to.source = msg->local_ip4;
	if (!v)
		v = route_request(&ps->scan, t, message_span(msg), &to);
	if (!v)
		v = route_upgrade(&ps->scan, &to);
	/* Last: it moves the message's span. */
	if (!v && ps->scan.flags & SCAN_CHUNKED)
		v = request_chunks_begin(msg, ps);
	if (!v)
		v = request_keeps(msg, ps, &to);
	if (!v)
		v = request_plan_edit(ps, msg->size, to.rewrite, &edit, &room);
	if (v)
		return request_decline(msg, ps, v, NO_ENDPOINT);
	if (!to.hashed)
		to.hash = route_draw();
	return request_send(msg, ps, &to, &edit, room);
}

/* Whether a response that has ended is still on its way to the application: from another host it passes a worker's queue, which
 * one from this host would overtake. Only a client that pipelines can see it so. */
static __always_inline int request_overtakes(struct sk_msg_md *msg, const struct psock *ps)
{
	struct bpf_sock *sk = msg->sk;

	return ps->flags & PSOCK_REMOTE && sk && sock_redirected_segments(sk);
}

/* Whether the client has called receive since its last response ended, and nobody is about to put bytes into its queue. If not, it
 * cannot have read that response: it pipelines, and the response may not even have reached its queue, if the process that sent it was
 * interrupted on the way, or waits for this very lock. Another endpoint's answer could overtake it. A slot that has ended a later
 * response has delivered this one. */
static __always_inline int request_is_unread(struct sk_msg_md *msg, const struct psock *ps, const struct slot *s)
{
	struct bpf_sock *sk = msg->sk;

	if (!sk)
		return 0;
	/* Bytes of an earlier response lie there: how many messages they are is not known any more. */
	if (!sock_queue_is_empty(sock_kernel(sk)))
		return 1;
	if (!reads_stamped || !s || s->ended_cookie != ps->cookie)
		return 0;
	if (sock_foreign_references(sk) > 0)
		return 1;
	return sock_tcp(sk)->tcp_clock_cache < s->ended_ns;
}

static __always_inline int tunnel_has_room(struct sk_msg_md *msg, struct slot *s, __u32 size)
{
	__u32 local = s->flags & SLOT_LOCAL;
	struct sock *t = msg_target(msg);

	if (!t || !target_has_room(msg, local, size) || target_is_lean(msg, s, size))
		return 0;
	if (!local)
		return 1;
	/* Without charging by the kernel only the tunnel's own bytes are known. */
	return message_fits(t, s) && (ingress_charged || s->sent + size <= request_limit) && !target_is_locked(msg);
}

/* A further send of a tunnel. It has no length that could be admitted: what the endpoint has not read bounds it, and from the first
 * send for which there is no room all go through the daemon, in order. `alone`: no other task's send is under way; where one is, its
 * order is the application's to keep, as on any connection. */
static __always_inline int request_tunnel(struct sk_msg_md *msg, struct psock *ps, struct slot *s, int alone)
{
	__u32 size = msg->size;

	if (redirect_to_slot(msg, s, ps->slot) != SK_PASS)
		return request_lost(msg, ps, s);
	if (!tunnel_has_room(msg, s, size)) {
		ps->flags |= PSOCK_SLOW;
		return request_decline(msg, ps, HANDOVER_BODY_SPILLED, NO_ENDPOINT);
	}
	if (alone)
		send_claim(msg, &ps->send, size);
	request_sent(s, size);
	count(VERDICT_REQUEST_BODY);
	return SK_PASS;
}

/* Between requests: is the connection the fast path's? */
static __always_inline int request_idle(struct sk_msg_md *msg, struct psock *ps)
{
	struct slow_conn *c = slow_conn_of(ps->cookie);
	struct slot *s = slot_at(ps->slot);
	int tunnel = s && lease_holds(s, ps->lease) && lease_is_tunnel(s);

	if (c) {
		/* Nor in the midst of a send of which the daemon has a part. */
		if (tunnel || send_position(msg, &ps->send) || request_is_unanswered(ps, s, c) ||
		    !request_given_back(msg, ps, c)) {
			/* A tunnel that has spilled in one direction goes through the daemon in both, to its end. */
			if (tunnel)
				ps->flags |= PSOCK_SLOW;
			count(VERDICT_REQUEST_ON_SLOW_PATH);
			return request_pass(msg, ps);
		}
		if (c->requests > ps->requests)
			ps->requests = c->requests;
		slow_conn_drop(ps->cookie);
		/* However the last lease ended, its client has been answered. */
		ps->lease = 0;
		count(VERDICT_REQUEST_RETURNED);
	}
	if (s && tunnel)
		return request_tunnel(msg, ps, s, 1);
	if (lease_holds(s, ps->lease) || lease_was_broken(s, ps->lease) || request_overtakes(msg, ps))
		return request_decline(msg, ps, HANDOVER_PIPELINED, NO_ENDPOINT);
	if (request_is_unread(msg, ps, s))
		return request_decline(msg, ps, HANDOVER_UNREAD, NO_ENDPOINT);
	return request_begin(msg, ps);
}

/* Another task's send is under way. Which of the two reaches its target first is not known: in the midst of a request the
 * endpoint could read this one's bytes for a head, so the lease ends; between requests these wait in the daemon. Two tasks that
 * send at once on one connection keep to the daemon from here on. */
static __always_inline int request_concurrent(struct sk_msg_md *msg, struct psock *ps)
{
	struct slot *s = slot_at(ps->slot);
	int slow = ps->flags & PSOCK_SLOW || slow_conn_of(ps->cookie);

	if (!slow && s && lease_holds(s, ps->lease) && lease_is_tunnel(s))
		return request_tunnel(msg, ps, s, 0);
	/* For good, whatever else: of this task's send nothing is recorded, so that a later part of it could not be told from its
	 * beginning. */
	ps->flags |= PSOCK_SLOW;
	if (slow) {
		count(VERDICT_REQUEST_ON_SLOW_PATH);
		return request_pass(msg, ps);
	}
	if (!ps->body)
		return request_decline(msg, ps, HANDOVER_PIPELINED, NO_ENDPOINT);
	if (s && lease_holds(s, ps->lease))
		guard(GUARD_CONCURRENT, s, ps->slot);
	return request_lost(msg, ps, s);
}

/* The kernel has not moved the first bytes of this message, which the run before claimed: their receiver is out of memory. Of a
 * body with a length the daemon sends them on. A head, or a chunked body, was judged as it stands here, and what is passed to the
 * daemon may be cut short as well: then the client sends it again, and may send something else. */
static __always_inline int request_cut(struct sk_msg_md *msg, struct psock *ps, __u64 cut)
{
	struct slot *s = slot_at(ps->slot);

	ps->send.claimed = send_position(msg, &ps->send);
	/* Nobody sends the copy as well. */
	if (s && (lease_holds(s, ps->lease) || lease_was_broken(s, ps->lease))) {
		s->kept = 0;
		s->retry = 0;
	}
	if (!s || !lease_holds(s, ps->lease))
		return request_lost(msg, ps, s);
	guard(GUARD_CUT, s, ps->slot);
	s->sent -= cut;
	s->traffic.bytes_sent -= cut;
	if (lease_is_tunnel(s)) {
		ps->flags |= PSOCK_SLOW;
		return request_decline(msg, ps, HANDOVER_BODY_SPILLED, NO_ENDPOINT);
	}
	if (ps->scan.flags & SCAN_CHUNKED || s->sent < ps->scan.off)
		return request_lost(msg, ps, s);
	/* The request may have been taken for complete: PENDING_SEND keeps its lease. */
	lease_part_open(s, PENDING_REQUEST);
	ps->body += cut;
	return request_spill(msg, ps, s);
}

/* A send of a client whose socket is balanced. */
static __always_inline int request_serve(struct sk_msg_md *msg, struct bpf_sock *sk, struct psock *ps, int again)
{
	__u64 cut;

	if (!send_enter(msg, &ps->send, 0, again))
		return request_concurrent(msg, ps);
	cut = send_cut(msg, &ps->send);
	if (cut)
		return request_cut(msg, ps, cut);
	/* One side has ended the connection: TCP knows what to answer to a send behind that, and what comes behind the daemon's end is
	 * nobody's (RFC 9112, section 9.6). */
	if (sk->state != TCP_ESTABLISHED)
		return request_pass(msg, ps);
	if (ps->flags & PSOCK_SLOW) {
		count(VERDICT_REQUEST_ON_SLOW_PATH);
		return request_pass(msg, ps);
	}
	if (ps->body == CHUNKED_BODY)
		return request_chunks(msg, ps);
	if (ps->body)
		return request_body(msg, ps);
	return request_idle(msg, ps);
}

/* Counts the run for the cluster of the lease that it is of, else for the client alone. */
static __always_inline void request_charge(const struct psock *ps, __u64 ran)
{
	struct slot *s = slot_at(ps->slot);
	struct account *a;

	if (s && s->cookie == ps->cookie && lease_holds(s, ps->lease)) {
		sample_count(&s->traffic.program_ns, ran);
		return;
	}
	a = account_at(ps->account);
	if (a)
		sample_count(&a->program_ns, ran);
}

SEC("sk_msg")
int xlb_request(struct sk_msg_md *msg)
{
	struct bpf_sock *sk = msg->sk;
	struct psock *ps = sk ? psock_of(sk) : 0;
	__u64 began, ran;
	int verdict, again = msg_runs_again(msg);

	/* Both survive from the run before, and from the send before. */
	bpf_msg_apply_bytes(msg, 0);
	bpf_msg_cork_bytes(msg, 0);
	/* Without a service: the socket was disconnected, and connected elsewhere. */
	if (!ps)
		return SK_PASS;
	if (!ps->vip_port)
		return msg_target(msg) ? request_pass(msg, ps) : SK_PASS;
	began = sample_begin();
	verdict = request_serve(msg, sk, ps, again);
	ran = sample_end(began);
	if (ran)
		request_charge(ps, ran);
	return verdict;
}

SEC("sk_msg")
int xlb_request_dispatch(struct sk_msg_md *msg)
{
	bpf_tail_call(msg, &msg_logic, MSG_REQUEST);
	return SK_PASS;
}
