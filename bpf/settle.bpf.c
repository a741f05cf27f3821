// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Tracepoint sock_send_length: runs when a send returns, in the task that sent, and says how many bytes the kernel took. Until
 * then what the request and response programs decided is a claim (lib/send.h): here it becomes true, or is taken back, and the
 * lease ends, if it was the last part of it.
 *
 * The kernel calls it for every send of the machine. Sockets in no socket map leave by the first test.
 *
 * The socket's lock is not held. Of a send this program has a copy, and has made sure that it is of its task (lib/send.h); the lease is the
 * one that the bytes were claimed for, and is named. A lease whose PENDING_SEND or PENDING_REPLY stands cannot end but by breaking, and a
 * broken slot is not used again before an RCU grace period, which this program holds up: so what was claimed and not taken can be taken out
 * of the slot, for no other send clears that bit.
 */
#include <linux/errno.h>

#include "lib/config.h"
#include "lib/lease.h"
#include "lib/maps.h"
#include "lib/rollback.h"

/* Whether what was claimed of a send can be taken back to the byte: the kernel made one message of it, all of which the lease
 * claimed as the client sent it, and nothing went to the daemon behind it. */
static __always_inline int claim_is_exact(const struct psock *ps, const struct settled *was, const struct slot *s,
					  __u64 bytes)
{
	return was->messages == 1 && !(ps->flags & (PSOCK_EDITED | PSOCK_SLOW)) && bytes <= s->sent &&
	       !slow_conn_of(ps->cookie);
}

/* How much of a request must have been moved before what its client sends again may be anything else: the head has been judged
 * as it was, and a chunked body too. */
static __always_inline int request_can_go_on(const struct psock *ps, __u64 sent)
{
	return !(ps->scan.flags & SCAN_CHUNKED) && sent >= ps->scan.off;
}

/* The client may send the last bytes of its request again, for which no lease runs: what comes next is no request. Its PENDING_SEND stands
 * for good, which tells the daemon.
 */
static __always_inline void client_is_amid(struct psock *ps, __u64 bytes)
{
	ps->unproven = 0;
	if (!ps->body)
		ps->body = bytes;
}

/* Errors that are not the kernel's own for applications to see, as include/linux/errno.h has them: a signal came. */
#define ERESTARTSYS 512
#define ERESTART_RESTARTBLOCK 516

/* Whether TCP refuses such a send whatever becomes of it: MSG_FASTOPEN on a connection that stands, also where the machine has switched that
 * off (tcp_fastopen). On a connection without the fast path it fails likewise. */
static __always_inline int send_was_refused(__s32 sent)
{
	return sent == -EISCONN || sent == -EOPNOTSUPP;
}

/* Whether a send that took nothing leaves its application a connection that works. Otherwise, as with EPIPE, that takes the connection for over,
 * or the error for nothing, and waits for an answer. */
static __always_inline int client_may_try_again(__s32 sent)
{
	if (sent >= 0 || (sent <= -ERESTARTSYS && sent >= -ERESTART_RESTARTBLOCK))
		return 1;
	return sent == -EAGAIN || sent == -EINTR || sent == -ENOMEM || sent == -ENOBUFS || send_was_refused(sent);
}

/* The last bytes of a request were not taken. The client knows, and sends them again, or others. */
static __always_inline void client_is_short(struct psock *ps, const struct settled *was, struct slot *s, __u64 bytes,
					    __s32 returned)
{
	__u64 sent = s->sent - bytes;

	if (!send_was_refused(returned))
		guard(GUARD_SHORT, s, ps->slot);
	/* Nobody sends the copy as well. */
	s->kept = 0;
	s->retry = 0;
	if (!claim_is_exact(ps, was, s, bytes) || (sent && !request_can_go_on(ps, sent))) {
		lease_fail(s, ps->slot, ps->lease);
		client_is_amid(ps, bytes);
		return;
	}
	/* The daemon answers, and closes. */
	if (!sent && !client_may_try_again(returned)) {
		lease_fail(s, ps->slot, ps->lease);
		client_is_amid(ps, bytes);
		return;
	}
	/* Nothing of it went: what comes next is a request like any other. */
	if (!sent) {
		lease_cancel(s, ps->slot, ps->lease);
		ps->lease = 0;
		ps->body = 0;
		return;
	}
	s->sent = sent;
	s->traffic.bytes_sent -= bytes;
	ps->body += bytes;
	lease_part_open(s, PENDING_REQUEST);
}

/* The connection's other fields are the send's as well: nobody takes over from a client's task. */
static __always_inline void client_sent(struct psock *ps, const struct settled *was, __s32 sent)
{
	struct slot *s = slot_at(ps->slot);
	__u64 missing = send_short(was, sent);

	/* Otherwise PENDING_SEND is another lease's. */
	if (!s || !ps->unproven || ps->unproven != ps->lease)
		return;
	if (missing && lease_holds(s, ps->lease)) {
		client_is_short(ps, was, s, missing, sent);
		return;
	}
	if (missing) {
		client_is_amid(ps, missing);
		return;
	}
	if (ps->body)
		return;
	ps->unproven = 0;
	/* Of a lease that was broken, too: the daemon waits for it before it takes what comes next for a request. */
	lease_part_done(s, ps->slot, ps->lease, PENDING_SEND);
}

/* The last bytes of a response were not taken: the client's memory is at its limit. The server knows, and sends them again, or
 * others: of a body with a length that does not matter. */
static __always_inline void server_is_short(const struct settled *was, struct slot *s, __u32 index, __u64 lease,
					    __u64 bytes)
{
	guard(GUARD_SHORT, s, index);
	if (was->messages != 1 || bytes > s->moved) {
		lease_fail(s, index, lease);
		return;
	}
	s->moved -= bytes;
	s->traffic.bytes_received -= bytes;
	if (response_can_go_on(s))
		response_take_back(s, bytes);
	else
		lease_fail(s, index, lease);
}

/* `lease`: for which the last bytes were claimed. */
static __always_inline void server_sent(struct ssock *ss, const struct settled *was, __u64 lease, __s32 sent)
{
	struct slot *s = slot_at(ss->slot);
	__u64 missing = send_short(was, sent);

	if (!s || s->generation != ss->generation || !lease_holds(s, lease))
		return;
	/* A tunnel has no end that anybody frames. */
	if (s->response.phase == PHASE_TUNNEL)
		missing = 0;
	if (missing) {
		server_is_short(was, s, ss->slot, lease, missing);
		return;
	}
	/* What spills is the daemon's to end: no program moves more of it. */
	if (s->response.phase != PHASE_DONE && s->response.phase != PHASE_TUNNEL && !s->spill)
		return;
	/* Unless another task has taken over, for the next lease. */
	__sync_val_compare_and_swap(&ss->lease, lease, 0);
	lease_part_done(s, ss->slot, lease, PENDING_REPLY);
}

SEC("tp_btf/sock_send_length")
int xlb_sent(__u64 *ctx)
{
	__u64 task = bpf_get_current_pid_tgid();
	struct sock *sk = (void *)ctx[0];
	__s32 sent = ctx[1];
	struct settled was;
	struct psock *ps;
	struct ssock *ss;
	__u64 lease;

	if (!((unsigned long)sk->sk_user_data & USER_DATA_PSOCK))
		return 0;
	ps = bpf_sk_storage_get(&psock_states, sk, 0, 0);
	if (ps && send_settle(&ps->send, task, &was)) {
		client_sent(ps, &was, sent);
		send_leave(&ps->send, task);
		return 0;
	}
	ss = bpf_sk_storage_get(&ssock_states, sk, 0, 0);
	if (!ss)
		return 0;
	lease = *(volatile __u64 *)&ss->lease;
	if (!send_settle(&ss->send, task, &was))
		return 0;
	server_sent(ss, &was, lease, sent);
	send_leave(&ss->send, task);
	return 0;
}
