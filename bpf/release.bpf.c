// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* cgroup/sock_release: runs when a socket's last descriptor closes. A client that leaves with a request in flight
 * breaks its lease at once; without this a silent endpoint would hold the i-sock until its time was up. One that leaves before
 * the daemon has accepted it, and has nothing to say to the daemon, is forgotten: the daemon then closes what it accepts
 * without a look.
 * The socket's lock is not held: the lease number tells a lease that ended meanwhile.
 */
#include "lib/account.h"
#include "lib/config.h"
#include "lib/lease.h"
#include "lib/maps.h"
#include "lib/plain.h"

/* Whether the daemon ends the lease, a tunnel's: it has the last bytes, or is about to read the end. It forgets the entry when it
 * closes its end of the connection, and has ended the lease by then. */
static __always_inline int lease_is_daemons(const struct bpf_sock *sk, const struct psock *ps, const struct slot *s)
{
	if (!lease_is_tunnel(s))
		return 0;
	return slow_conn_of(ps->cookie) || (ps->flags & PSOCK_SLOW && sk->state != TCP_CLOSE);
}

/* Ends the client's lease, unless it is the daemon's to end, which is returned. */
static __always_inline int release_lease(const struct bpf_sock *sk, const struct psock *ps)
{
	struct slot *s = slot_at(ps->slot);

	if (!lease_holds(s, ps->lease))
		return 0;
	if (lease_is_daemons(sk, ps, s))
		return 1;
	lease_cancel(s, ps->slot, ps->lease);
	count(VERDICT_CLIENT_LEFT);
	return 0;
}

/* Bytes that were handed over must reach an endpoint even if their sender does not wait for the answer. */
static __always_inline int release_is_silent(const struct psock *ps)
{
	return ps->flags & PSOCK_JOINED && !(ps->flags & (PSOCK_SLOW | PSOCK_ANNOUNCED)) && !slow_conn_of(ps->cookie);
}

/* Whether the server, which reads nothing more, may have seen some of the request: it has called receive since the lease began. That a request
 * lies there whole does not tell, since it may have been looked at (MSG_PEEK), nor of one that does not whether the call came before the
 * bytes. Where the server has ended its sending side the time may be that of a segment: then it has not called receive before that, and
 * nobody looks at a request behind it and leaves it there. */
static __always_inline int request_may_be_seen(struct bpf_sock *sk, const struct ssock *ss, const struct slot *s,
					       int held)
{
	if (!reads_stamped)
		return 1;
	if (nothing_read_since_lease(sk, s))
		return 0;
	return !held || !ss->read_ns || ss->read_ns >= s->begun_ns;
}

/* The server reads nothing more; nor does it see a request of which the lease begins from here on. */
static __always_inline void server_closes(struct bpf_sock *sk, const struct ssock *ss)
{
	struct slot *s = slot_at(ss->slot);
	__u64 lease, broken, read, unseen = 0;
	int held;

	if (!s || !ss->generation || s->generation != ss->generation)
		return;
	lease = *(volatile __u64 *)&s->lease;
	asm volatile("" ::: "memory");
	/* One that the FIN of this server has broken meanwhile has counted on: it is the last of this i-sock. */
	broken = *(volatile __u64 *)&s->broken_lease;
	if (broken && lease == broken + 1)
		lease = broken;
	/* Nothing of this lease, unless it is found below. */
	read = lease ? lease - 1 : 0;
	/* While the response is that of the lease before, the lease is not filled, and its request not moved. */
	if (*(volatile __u32 *)&s->response.phase != PHASE_DONE) {
		held = request_lies_unread(sk, s);
		if (request_may_be_seen(sk, ss, s, held))
			read = lease;
		else if (held)
			unseen = lease;
	}
	s->read_lease = read;
	s->held_lease = unseen;
	asm volatile("" ::: "memory");
	s->closed = ss->generation;
}

static __always_inline void release_server(struct bpf_sock *sk)
{
	struct ssock *ss = bpf_sk_storage_get(&ssock_states, sk, 0, 0);

	if (!ss)
		return;
	server_closes(sk, ss);
	sequence_drop(bpf_get_socket_cookie(sk));
}

SEC("cgroup/sock_release")
int xlb_release(struct bpf_sock *sk)
{
	struct psock *ps = psock_of(sk);
	int left;

	plain_forget(sk);
	if (!ps) {
		release_server(sk);
		return 1;
	}
	account_end(ps);
	ps->flags |= PSOCK_CLOSED;
	left = release_lease(sk, ps);
	sequence_drop(ps->cookie);
	/* The daemon has closed its end, and forgets nothing more of this connection. Of a tunnel it may have ended one side: it needs
	 * the entry to find the lease. */
	if (!left && (sk->state == TCP_CLOSE || sk->state == TCP_CLOSE_WAIT))
		slow_conn_drop(ps->cookie);
	if (release_is_silent(ps))
		bpf_map_delete_elem(&conns, &ps->key);
	return 1;
}
