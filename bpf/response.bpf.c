// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The way back. sk_msg of s-socks: runs on every send() of a server on this host. sk_skb verdict of i-socks: runs on
 * what a server elsewhere sent. Both frame the response, move it into the p-sock that holds the lease, and end the lease with its
 * last byte. What should not or cannot be moved spills: it goes on over TCP to the daemon, which has flow control.
 */
#include "lib/config.h"
#include "lib/dispatch.h"
#include "lib/locked.h"
#include "lib/http1.h"
#include "lib/lease.h"
#include "lib/maps.h"
#include "lib/outlier.h"
#include "lib/rollback.h"
#include "lib/sample.h"
#include "lib/segment.h"
#include "lib/walk.h"

/* Marks the client's connection: the daemon writes to it over TCP, so it is not the fast path's until given back. */
static __always_inline int spill_mark(const struct slot *s, __u32 index, enum verdict why)
{
	struct slow_conn fresh = { .reason = why, .slot = index, .lease = s->lease, .has_lease = 1 };
	__u64 cookie = s->cookie;

	if (slow_conn_of(cookie))
		return 1;
	slow_conn_put(cookie, &fresh, BPF_NOEXIST);
	return slow_conn_of(cookie) != 0;
}

/* Begins a spill. A client whose state cannot be kept would mix two paths: its lease breaks instead. */
static __always_inline void spill_begin(struct slot *s, __u32 index, enum spill kind, enum verdict why)
{
	count(why);
	if (!spill_mark(s, index, why)) {
		lease_fail(s, index, s->lease);
		return;
	}
	s->spill = kind;
	/* The daemon does not watch i-socks of other hosts for bytes: it would wake for each that is moved. */
	if (!(s->flags & SLOT_LOCAL))
		raise_event(EVENT_SPILLED, index, s->endpoint, s->lease);
}

/* spill_begin of a response from this host. */
static __always_inline void spill_message(struct sk_msg_md *msg, struct slot *s, __u32 index, enum spill kind,
					  enum verdict why)
{
	struct bpf_sock *sk = msg->sk;

	s->spilled_at = sk ? sock_owed(sock_kernel(sk)) : ~0ULL;
	spill_begin(s, index, kind, why);
}

/* A complete response head: its status is known. */
static __always_inline void response_account(struct slot *s)
{
	__u32 class = s->status / 100 - 1;

	if (class < 5)
		s->traffic.responses[bounded(class, 7)]++;
	/* Interim responses say nothing about how the request went. */
	if (s->response.phase != PHASE_HEAD)
		outlier_account(s->endpoint, s->status);
	if (s->response.phase == PHASE_TUNNEL)
		lease_tunnel(s);
}

/* Bytes that have been moved. Until the final response begins, the daemon may still answer in the endpoint's place: interim ones
 * do not count. */
static __always_inline void response_moved(struct slot *s, __u32 bytes)
{
	s->traffic.bytes_received += bytes;
	if (s->response.phase != PHASE_HEAD)
		s->moved += bytes;
}

/* Whether a head that has been read may send the request again. */
static __always_inline int retry_asked(const struct slot *s, const struct request_copy *copy)
{
	__u32 at = s->status - FIRST_STATUS;

	if (s->head.flags & SCAN_LIMITED)
		return s->retry & RETRY_LIMITED;
	return copy->statuses[bounded(at >> 6, STATUS_WORDS - 1)] >> (at & 63) & 1;
}

/* Whether the daemon is to decide about a response, of which the head was read with that result: another one may take its place. Once the
 * client has any of a response, that one stays. A head that was not read to its end says nothing: `retry` stays. */
static __always_inline enum verdict response_retried(struct slot *s, __u32 index, enum verdict read)
{
	struct request_copy *copy;

	if (!s->retry || s->head.state != SCAN_DONE || s->status - FIRST_STATUS >= STATUS_WORDS * 64)
		return read;
	copy = request_copy_at(index);
	if (copy && (s->status >= 200 || s->status == 101) && retry_asked(s, copy))
		return VERDICT_SPILL_RETRY;
	s->retry = 0;
	return read;
}

/* How much may lie unread before a client with such a receive buffer while more may come from the daemon. An eighth is left for that: a socket
 * whose buffer is full drops it. */
static __always_inline __u32 window_of(__u32 buffer)
{
	__u32 window = buffer - buffer / 8;

	return window < client_window ? window : client_window;
}

/* What a program should do with the bytes it was run for. */
struct framing {
	/* Bytes, from the start, that belong to the response or could be looked at. */
	__u32 bytes;
	/* The response ends with them. */
	__u32 ended;
};

/* ---- same host: sk_msg ---- */

/* Follows a chunked body through the message. Stops early in one of very many tiny chunks, and before what is the daemon's: the rest
 * runs again. */
static __always_inline enum verdict frame_chunked(struct sk_msg_md *msg, struct slot *s, __u32 from, struct framing *f)
{
	long at = chunk_walk(msg, &s->response, from);

	f->bytes = at;
	f->ended = s->response.phase == PHASE_DONE;
	if (at == WALK_LEFT)
		return VERDICT_SPILL_TRAILERS;
	/* 0: nothing could be looked at, so the message cannot be framed. */
	return at <= 0 ? VERDICT_RESPONSE_MALFORMED : 0;
}

static __always_inline void frame_length(struct slot *s, __u32 from, __u32 size, struct framing *f)
{
	f->bytes = from + body_skip(&s->response, size - from);
	f->ended = s->response.phase == PHASE_DONE;
}

/* Reads the head; one that straddles two fragments of the message is made linear, once. */
static __always_inline enum verdict frame_head(struct sk_msg_md *msg, struct slot *s)
{
	struct span span = { .data = msg->data, .end = msg->data_end };
	__u32 linear = span.end - span.data, size = msg->size;
	enum verdict v = response_scan(s, span);

	if (!v || s->head.failure || linear >= size || linear >= MAX_HEAD)
		return v;
	if (bpf_msg_pull_data(msg, 0, size < MAX_HEAD ? size : MAX_HEAD, 0))
		return v;
	span.data = msg->data;
	span.end = msg->data_end;
	return response_scan(s, span);
}

/* Finds out how much of the message is this response. Non-zero: the verdict that says why it cannot be framed. */
static __always_inline enum verdict frame_message(struct sk_msg_md *msg, struct slot *s, __u32 index, struct framing *f)
{
	__u32 from = 0;
	enum verdict v;

	if (s->response.phase == PHASE_HEAD) {
		v = response_retried(s, index, frame_head(msg, s));
		if (v) {
			s->response.phase = PHASE_HEAD;
			return v;
		}
		response_account(s);
		from = s->head.off;
	}
	switch (s->response.phase) {
	case PHASE_HEAD:
		/* An interim response: the final one may begin in the same message, and runs again. */
		f->bytes = from;
		return 0;
	case PHASE_DONE:
		f->bytes = from;
		f->ended = 1;
		return 0;
	case PHASE_TUNNEL:
		f->bytes = msg->size;
		return 0;
	case PHASE_LENGTH:
		frame_length(s, from, msg->size, f);
		return 0;
	}
	return frame_chunked(msg, s, from, f);
}

/* Bytes that answer nothing. The i-sock is closed; a request that takes it at this very moment must not be answered with them. Where
 * a lease has broken they are the rest of its response, and no invariant is. */
static __always_inline void slot_taint(struct slot *s, __u32 index)
{
	__sync_fetch_and_or(&s->flags, SLOT_RETIRE | SLOT_TAINTED);
	if (s->state == SLOT_READY || s->state == SLOT_LEASED)
		guard(GUARD_UNASKED, s, index);
	slot_discard(s, index);
	count(VERDICT_RESPONSE_UNASKED);
}

/* What has no slot any more must not follow the redirect before it in the same sendmsg(): its connection is over, so that a drop,
 * which sticks to the socket, harms nobody. */
static __always_inline int response_stray(struct sk_msg_md *msg)
{
	return msg_target(msg) ? SK_DROP : SK_PASS;
}

/* Lets the message go out over TCP, by a redirect to the s-sock itself: see request_pass. */
static __always_inline int response_pass(struct sk_msg_md *msg, __u32 index)
{
	if (bpf_msg_redirect_hash(msg, &ssocks, &index, 0) == SK_PASS)
		return SK_PASS;
	return response_stray(msg);
}

/* What the kernel keeps beside the bytes of each message that is moved, and charges to nobody: a struct sk_msg. */
#define MESSAGE_COST 1024

/* Bookkeeping of a client's unread bytes. They lie in one message each at most, and in those that were moved since the client was last seen to
 * have read all. */
static __always_inline __u64 messages_cost(struct slot *s, __u64 unread)
{
	__u64 most = unread * MESSAGE_COST;

	if (!unread)
		s->waiting = 0;
	return most < s->waiting ? most : s->waiting;
}

/* Whether what is to come fits beside so many unread bytes, however small the client's receive buffer is: then nothing comes behind it over
 * TCP. The head says how much, once it is read. */
static __always_inline int response_fits(const struct slot *s, __u64 size, __u64 unread)
{
	switch (s->response.phase) {
	case PHASE_HEAD:
		return unread + size <= response_window;
	case PHASE_LENGTH:
		return unread + s->response.remaining <= response_window;
	}
	return unread + size <= response_limit;
}

/* Whether the client's unread bytes leave room. Without charging by the kernel only the response's own bytes are known. */
static __always_inline int client_has_room(struct sk_msg_md *msg, struct slot *s)
{
	struct sock *t = msg_target(msg);
	__u64 size = msg->size, unread;

	if (!t || !sock_may_charge(t, size))
		return 0;
	if (!ingress_charged)
		return s->moved + size <= response_window;
	unread = (__u32)t->sk_backlog.rmem_alloc.counter;
	unread += messages_cost(s, unread);
	return response_fits(s, size, unread) || unread + size <= window_of(t->sk_rcvbuf);
}

/* Whether a message may be moved to the client. Non-zero: the verdict that says why it spills. */
static __always_inline enum verdict client_admits(struct sk_msg_md *msg, struct slot *s)
{
	if (!client_has_room(msg, s))
		return VERDICT_SPILL_FULL;
	return target_is_locked(msg) ? VERDICT_SPILL_LOCKED : 0;
}

/* Moves what belongs to the response; ends the lease with its last byte. */
static __always_inline int response_move(struct sk_msg_md *msg, struct ssock *ss, struct slot *s, __u32 index)
{
	__u64 cookie = s->cookie;
	struct framing f = {};
	enum verdict v;

	if (bpf_msg_redirect_hash(msg, &psocks, &cookie, BPF_F_INGRESS) != SK_PASS) {
		count(VERDICT_RESPONSE_NO_CLIENT);
		lease_break(s, index, s->lease);
		return response_pass(msg, index);
	}
	v = client_admits(msg, s);
	if (v) {
		spill_message(msg, s, index, s->response.phase == PHASE_HEAD ? SPILL_WHOLE : SPILL_REST, v);
		return response_pass(msg, index);
	}
	v = frame_message(msg, s, index, &f);
	if (v == VERDICT_RESPONSE_MALFORMED) {
		count(v);
		lease_fail(s, index, s->lease);
		return response_pass(msg, index);
	}
	if (v) {
		spill_message(msg, s, index, v == VERDICT_SPILL_TRAILERS ? SPILL_REST : SPILL_WHOLE, v);
		return response_pass(msg, index);
	}
	if (f.bytes < msg->size) {
		bpf_msg_apply_bytes(msg, f.bytes);
		/* Bytes behind the end: nobody asked for them, and this i-sock is not to be trusted. */
		if (f.ended)
			__sync_fetch_and_or(&s->flags, SLOT_RETIRE);
	}
	s->waiting += MESSAGE_COST;
	send_claim(msg, &ss->send, f.bytes);
	response_moved(s, f.bytes);
	count(f.ended ? VERDICT_RESPONSE_ENDED : VERDICT_RESPONSE_MOVED);
	if (f.ended)
		lease_response_done(s, index, ss->lease);
	return SK_PASS;
}

/* Two tasks of the server send at once in a tunnel, where nobody frames: in which order their bytes arrive is the server's to keep. */
static __always_inline int tunnel_concurrent(struct sk_msg_md *msg, struct slot *s, __u32 index)
{
	__u64 cookie = s->cookie;
	enum verdict v;

	if (bpf_msg_redirect_hash(msg, &psocks, &cookie, BPF_F_INGRESS) != SK_PASS) {
		count(VERDICT_RESPONSE_NO_CLIENT);
		lease_break(s, index, s->lease);
		return response_pass(msg, index);
	}
	v = client_admits(msg, s);
	if (v) {
		spill_message(msg, s, index, SPILL_REST, v);
		return response_pass(msg, index);
	}
	response_moved(s, msg->size);
	count(VERDICT_RESPONSE_MOVED);
	return SK_PASS;
}

/* Two tasks of the server send at once: in which order their bytes reach the client is not known, and outside of a tunnel it would frame them
 * otherwise than the program. */
static __always_inline int response_concurrent(struct sk_msg_md *msg, struct slot *s, __u32 index)
{
	if (s->state == SLOT_LEASED && s->response.phase == PHASE_TUNNEL && !s->spill)
		return tunnel_concurrent(msg, s, index);
	if (s->spill)
		return response_pass(msg, index);
	guard(GUARD_CONCURRENT, s, index);
	lease_fail(s, index, s->lease);
	slot_taint(s, index);
	return response_pass(msg, index);
}

/* The kernel has not moved the first bytes of this message, which the run before claimed: the client is out of memory. Of a body
 * with a length the daemon sends them on; see request_cut for the others. */
static __always_inline int response_cut(struct sk_msg_md *msg, struct ssock *ss, struct slot *s, __u32 index, __u64 cut)
{
	ss->send.claimed = send_position(msg, &ss->send);
	if (s->state != SLOT_LEASED || !lease_holds(s, ss->lease))
		return response_pass(msg, index);
	guard(GUARD_CUT, s, index);
	s->moved -= cut;
	s->traffic.bytes_received -= cut;
	if (!response_can_go_on(s)) {
		lease_fail(s, index, ss->lease);
		return response_pass(msg, index);
	}
	response_take_back(s, cut);
	spill_message(msg, s, index, SPILL_REST, VERDICT_SPILL_FULL);
	return response_pass(msg, index);
}

/* Whether the server has seen nothing of the request. That all of it lies unread shows only when it has come: the sender may wait for the lock of this
 * socket, which this send holds. */
static __always_inline int response_is_early(struct bpf_sock *sk, const struct slot *s)
{
	return request_lies_unread(sk, s) || (reads_stamped && nothing_read_since_lease(sk, s));
}

/* What the server sends before it has read any of the request is no answer to it: it answers the request before once more. */
static __always_inline int response_early(struct sk_msg_md *msg, struct slot *s, __u32 index)
{
	__u64 lease = s->lease;

	slot_taint(s, index);
	lease_fail(s, index, lease);
	return response_pass(msg, index);
}

/* A send of a server whose connection has a slot. */
static __always_inline int response_serve(struct sk_msg_md *msg, struct bpf_sock *sk, struct ssock *ss, struct slot *s,
					  __u32 index, int again)
{
	__u64 cut;

	/* What the other task claimed was for a lease that has ended since, by way of the daemon: nothing of it is under way. */
	if (!send_enter(msg, &ss->send, ss->lease != s->lease, again))
		return response_concurrent(msg, s, index);
	cut = send_cut(msg, &ss->send);
	if (cut)
		return response_cut(msg, ss, s, index, cut);
	/* A response that is complete before its request is, and one that is to come: behind the one, and before the other, all is nobody's. */
	if (s->state != SLOT_LEASED || s->response.phase == PHASE_DONE) {
		slot_taint(s, index);
		return response_pass(msg, index);
	}
	if (!s->spill && s->response.phase == PHASE_HEAD && response_is_early(sk, s))
		return response_early(msg, s, index);
	ss->lease = s->lease;
	/* Not counted here: a send that is passed may be cut short by a full socket. */
	if (s->spill) {
		count(VERDICT_SPILLED);
		return response_pass(msg, index);
	}
	return response_move(msg, ss, s, index);
}

SEC("sk_msg")
int xlb_response(struct sk_msg_md *msg)
{
	struct bpf_sock *sk = msg->sk;
	struct ssock *ss = sk ? bpf_sk_storage_get(&ssock_states, sk, 0, 0) : 0;
	struct slot *s;
	__u64 began;
	__u32 index;
	int verdict, again = msg_runs_again(msg);

	bpf_msg_apply_bytes(msg, 0);
	bpf_msg_cork_bytes(msg, 0);
	if (!ss || !ss->generation)
		return response_stray(msg);
	index = ss->slot;
	s = slot_at(index);
	/* The slot is another's by now; to pass it on would need this socket's key, which is the other's too. */
	if (!s || s->generation != ss->generation) {
		count(VERDICT_RESPONSE_UNKNOWN_SOCKET);
		return response_stray(msg);
	}
	began = sample_begin();
	verdict = response_serve(msg, sk, ss, s, index, again);
	sample_count(&s->traffic.program_ns, sample_end(began));
	return verdict;
}

SEC("sk_msg")
int xlb_response_dispatch(struct sk_msg_md *msg)
{
	bpf_tail_call(msg, &msg_logic, MSG_RESPONSE);
	return SK_PASS;
}

/* ---- other hosts: sk_skb ---- */

static __always_inline struct slot *isock_slot(struct __sk_buff *skb, __u32 *index)
{
	__u64 cookie = bpf_get_socket_cookie(skb);

	return isock_slots_read(&cookie, index) ? slot_at(*index) : 0;
}

/* Whether a response is longer than what may be moved without looking whether the client reads. */
static __always_inline int response_is_long(const struct slot *s, __u32 head)
{
	return s->moved + head + s->response.remaining > response_limit;
}

/* How much of what the client has not read waits for the worker of its socket, in at most so many segments: it is in none of the socket's
 * counts. */
static __always_inline __u64 segments_waiting(struct slot *s, __u32 segments)
{
	__u64 most = (__u64)segments * s->largest;

	if (!segments) {
		s->waiting = 0;
		s->largest = 0;
	}
	return most < s->waiting ? most : s->waiting;
}

/* Whether the client has read enough for one more segment, and TCP has memory for it. Asked before the redirect, which cannot be taken back. */
static __always_inline int segment_has_room(struct __sk_buff *skb, struct slot *s)
{
	__u64 cookie = s->cookie, size = skb_truesize(skb), unread, window;
	struct bpf_sock *client = bpf_map_lookup_elem(&psocks, &cookie);
	int charged;

	if (!client)
		return 1;
	/* First: what the worker moves in between is counted twice. */
	unread = segments_waiting(s, sock_redirected_segments(client));
	unread += sock_unread_bytes(client);
	window = window_of(sock_receive_buffer(client));
	charged = tcp_may_charge(sock_kernel(client), size);
	bpf_sk_release(client);
	if (!charged || unread + size > window)
		return 0;
	s->waiting += size;
	if (size > s->largest)
		s->largest = size;
	return 1;
}

/* What follows the head of which the segment begins with. */
static __always_inline enum verdict verdict_frame(struct __sk_buff *skb, struct slot *s)
{
	__u32 behind = skb->len - s->head.off;

	switch (s->response.phase) {
	case PHASE_HEAD:
	case PHASE_DONE:
		return behind ? VERDICT_SPILL_FRAMING : 0;
	case PHASE_TUNNEL:
		return 0;
	case PHASE_LENGTH:
		if (response_is_long(s, s->head.off) && !segment_has_room(skb, s))
			return VERDICT_SPILL_FULL;
		return body_skip(&s->response, behind) < behind ? VERDICT_SPILL_FRAMING : 0;
	}
	return VERDICT_SPILL_TOO_LONG;
}

/* The first bytes of a response decide how it goes on: an skb cannot be split, and what would lie before a client that does not read is
 * bounded by the length that the head promises or, of a long one, segment by segment. */
static __always_inline enum verdict verdict_head(struct __sk_buff *skb, struct slot *s, __u32 index)
{
	struct span span = { .data = (void *)(long)skb->data, .end = (void *)(long)skb->data_end };
	enum verdict v;

	if (span.end - span.data < skb->len && span.end - span.data < MAX_HEAD) {
		if (bpf_skb_pull_data(skb, skb->len < MAX_HEAD ? skb->len : MAX_HEAD))
			return VERDICT_SPILL_FRAMING;
		span.data = (void *)(long)skb->data;
		span.end = (void *)(long)skb->data_end;
	}
	v = response_retried(s, index, response_scan(s, span));
	if (v)
		return v;
	v = verdict_frame(skb, s);
	if (!v)
		response_account(s);
	return v;
}

/* Whether the i-sock took exactly the bytes of the request, where all of them are known to have been moved. A tunnel's have no end that is
 * counted: the daemon passes the client's on as a FIN, which takes a sequence number, and the i-sock serves nobody else. */
static __always_inline void isock_check(struct __sk_buff *skb, struct slot *s, __u32 index)
{
	struct sock *sk = skb_socket(skb);

	if (*(volatile __u32 *)&s->pending != PENDING_RESPONSE || s->request & REQUEST_SPILLED ||
	    s->response.phase == PHASE_TUNNEL || !sk)
		return;
	if (sock_as_tcp(sk)->write_seq - s->first_sequence == (__u32)s->sent)
		return;
	__sync_fetch_and_or(&s->flags, SLOT_RETIRE);
	guard(GUARD_SEQUENCE, s, index);
}

static __always_inline int verdict_move(struct __sk_buff *skb, struct slot *s, __u32 index, __u64 lease)
{
	__u64 cookie = s->cookie;
	__u32 len = skb->len;

	if (bpf_sk_redirect_hash(skb, &psocks, &cookie, BPF_F_INGRESS) != SK_PASS) {
		count(VERDICT_RESPONSE_NO_CLIENT);
		lease_break(s, index, s->lease);
		return SK_PASS;
	}
	response_moved(s, len);
	isock_check(skb, s, index);
	if (s->response.phase != PHASE_DONE) {
		count(VERDICT_RESPONSE_MOVED);
		return SK_PASS;
	}
	count(VERDICT_RESPONSE_ENDED);
	lease_response_done(s, index, lease);
	return SK_PASS;
}

/* Leaves a segment for the daemon. Counted before the spill is looked at once more, as the daemon ends it before it looks at the count:
 * one of the two finds bytes behind the end, and nobody takes them for the next response. */
static __always_inline int verdict_pass(struct __sk_buff *skb, struct slot *s, __u32 index, __u64 lease)
{
	__sync_fetch_and_add(&s->passed, skb->len);
	if (*(volatile __u32 *)&s->spill)
		return SK_PASS;
	slot_taint(s, index);
	lease_fail(s, index, lease);
	return SK_PASS;
}

/* Whether a segment was sent before the endpoint's kernel had any of the request: each segment acknowledges what has come. The kernel takes note
 * of that before it runs the program. Sequence numbers would not do: 2 GiB further they say the opposite. */
static __always_inline int segment_is_early(struct __sk_buff *skb, const struct slot *s)
{
	struct sock *sk = skb_socket(skb);

	return sk && sock_as_tcp(sk)->bytes_acked <= s->owed;
}

/* A response goes on, or a tunnel: as far as the client keeps up, unless the whole was admitted by its length. */
static __always_inline int verdict_continue(struct __sk_buff *skb, struct slot *s, __u32 index, __u64 lease)
{
	int tunnel = s->response.phase == PHASE_TUNNEL;

	if (!tunnel && skb->len > s->response.remaining) {
		count(VERDICT_RESPONSE_MALFORMED);
		lease_fail(s, index, lease);
		return SK_PASS;
	}
	if ((tunnel || response_is_long(s, 0)) && !segment_has_room(skb, s)) {
		spill_begin(s, index, SPILL_REST, VERDICT_SPILL_FULL);
		return verdict_pass(skb, s, index, lease);
	}
	if (!tunnel)
		body_skip(&s->response, skb->len);
	return verdict_move(skb, s, index, lease);
}

/* A segment of an endpoint on another host. */
static __always_inline int verdict_serve(struct __sk_buff *skb, struct slot *s, __u32 index)
{
	enum verdict v;
	__u64 lease;

	if (!segment_trim(skb, &s->next_sequence)) {
		lease_fail(s, index, s->lease);
		return SK_PASS;
	}
	if (s->state != SLOT_LEASED) {
		slot_taint(s, index);
		return SK_PASS;
	}
	/* Before its spill is looked at, which the daemon may end at any moment, and the lease with it. */
	lease = *(volatile __u64 *)&s->lease;
	if (s->spill)
		return verdict_pass(skb, s, index, lease);
	switch (s->response.phase) {
	case PHASE_DONE:
		/* Behind an early response, or before the lease is filled: then the cookie is still the last client's. */
		slot_taint(s, index);
		return SK_PASS;
	case PHASE_HEAD:
		if (segment_is_early(skb, s)) {
			slot_taint(s, index);
			lease_fail(s, index, lease);
			return SK_PASS;
		}
		v = s->request & REQUEST_LEAN ? VERDICT_SPILL_FULL : verdict_head(skb, s, index);
		if (!v)
			return verdict_move(skb, s, index, lease);
		s->response.phase = PHASE_HEAD;
		spill_begin(s, index, SPILL_WHOLE, v);
		return verdict_pass(skb, s, index, lease);
	}
	return verdict_continue(skb, s, index, lease);
}

SEC("sk_skb/stream_verdict")
int xlb_verdict(struct __sk_buff *skb)
{
	__u32 index = 0;
	struct slot *s;
	__u64 began;
	int verdict;

	/* The endpoint's FIN: moved on, it would poison the p-sock. */
	if (!skb->len) {
		count(VERDICT_RESPONSE_FIN);
		return SK_PASS;
	}
	s = isock_slot(skb, &index);
	if (!s) {
		count(VERDICT_RESPONSE_UNKNOWN_SOCKET);
		return SK_PASS;
	}
	began = sample_begin();
	verdict = verdict_serve(skb, s, index);
	sample_count(&s->traffic.program_ns, sample_end(began));
	return verdict;
}

SEC("sk_skb/stream_verdict")
int xlb_verdict_dispatch(struct __sk_buff *skb)
{
	bpf_tail_call(skb, &skb_logic, SKB_RESPONSE);
	return SK_PASS;
}

/* What p-socks and s-socks receive over TCP stays theirs. With a verdict program, bytes of both paths lie in one queue in the order of
 * their arrival, FIONREAD counts them all, and edge-triggered readers are woken: without one, nginx, which asks FIONREAD whether there is
 * more, stops in the midst of a body. */
SEC("sk_skb/stream_verdict")
int xlb_receive_verdict(struct __sk_buff *skb)
{
	__u64 cookie = bpf_get_socket_cookie(skb);
	__u64 *next, first = 0;

	if (!skb->len)
		return SK_PASS;
	next = sequence_of(cookie);
	if (next) {
		segment_trim(skb, next);
		return SK_PASS;
	}
	segment_trim(skb, &first);
	sequence_put(cookie, first);
	return SK_PASS;
}
