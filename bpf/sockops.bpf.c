// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* sock_ops: at the end of a handshake, client sockets to a service address become p-socks, and accepted sockets whose
 * other end is an i-sock become s-socks. Other sockets are left alone. Of a p-sock it also sees that the client has ended its side, and of
 * both that no segment comes any more.
 */
#include "lib/account.h"
#include "lib/addr.h"
#include "lib/config.h"
#include "lib/lease.h"
#include "lib/maps.h"

/* VERIFIER: without this the compiler reads both branches through one computed context pointer: "dereference of
 * modified ctx ptr disallowed". */
#define KEEP_BRANCH(value) asm volatile("" : "+r"(value))

static __always_inline void local_addr(struct bpf_sock_ops *ops, __u8 *addr)
{
	__u32 ip;

	if (ops->family == AF_INET) {
		ip = ops->local_ip4;
		KEEP_BRANCH(ip);
		addr_set4(addr, ip);
		return;
	}
	addr_set6(addr, ops->local_ip6[0], ops->local_ip6[1], ops->local_ip6[2], ops->local_ip6[3]);
}

static __always_inline void remote_addr(struct bpf_sock_ops *ops, __u8 *addr)
{
	__u32 ip;

	if (ops->family == AF_INET) {
		ip = ops->remote_ip4;
		KEEP_BRANCH(ip);
		addr_set4(addr, ip);
		return;
	}
	addr_set6(addr, ops->remote_ip6[0], ops->remote_ip6[1], ops->remote_ip6[2], ops->remote_ip6[3]);
}

/* The daemon accepts connections when they need it, and now and then: most have closed by then. Only so many may wait for that. */
static __always_inline void count_arrival(void)
{
	struct control *c = control_at(0);

	if (c && __sync_fetch_and_add(&c->arrived, 1) + 1 == c->accept_at)
		raise_event(EVENT_ARRIVED, 0, 0, 0);
}

static __always_inline void watch_states(struct bpf_sock_ops *ops)
{
	bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
}

/* A connection that was reset, or disconnected (AF_UNSPEC), before the daemon accepted it: nobody takes its record, nor what it has
 * left on the slow path. Its port is not another's yet. */
static __always_inline void forget_unaccepted(const struct psock *ps)
{
	struct slot *s = slot_at(ps->slot);

	if (bpf_map_delete_elem(&conns, &ps->key))
		return;
	slow_conn_drop(ps->cookie);
	/* A tunnel's, which the release program has left to the daemon. */
	if (lease_holds(s, ps->lease))
		lease_cancel(s, ps->slot, ps->lease);
}

/* A server that has ended its sending side alone gets a segment that acknowledges this, behind which the socket does not tell any more when
 * receive was called. */
static __always_inline void note_reads(struct bpf_sock *sk)
{
	struct ssock *ss = bpf_sk_storage_get(&ssock_states, sk, 0, 0);

	if (ss)
		ss->read_ns = sock_tcp(sk)->tcp_clock_cache;
}

/* A client that has ended its sending side alone waits for the daemon to end the other one. */
static __always_inline void state_changed(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct psock *ps = sk ? psock_of(sk) : 0;
	__u32 state = ops->args[1], closed = ps && ps->flags & PSOCK_CLOSED;

	/* The socket gets no segment any more, or no program sees it. The release program has been here before; but a segment that came between it
	 * and the close has made the entry anew. The flag that calls this stays: another program may have set it, too. */
	if (closed || state == BPF_TCP_CLOSE)
		sequence_drop(bpf_get_socket_cookie(ops));
	if (ps && state == BPF_TCP_CLOSE)
		account_end(ps);
	if (ps && state == BPF_TCP_CLOSE && ops->args[0] == BPF_TCP_ESTABLISHED)
		forget_unaccepted(ps);
	if (sk && !ps && state == BPF_TCP_FIN_WAIT1)
		note_reads(sk);
	if (!ps || closed || state != BPF_TCP_FIN_WAIT1 || ps->flags & PSOCK_ANNOUNCED)
		return;
	ps->flags |= PSOCK_ANNOUNCED;
	raise_event(EVENT_HANDOVER, 0, 0, 0);
}

/* The daemon waits for no bytes of it, or they go over TCP, to the slow path. It takes the record when the handshake has ended, which is behind
 * this. */
static __always_inline void psock_is_unseen(const struct psock *ps, struct conn_record *rec)
{
	rec->flags |= CONN_UNSEEN;
	bpf_map_update_elem(&conns, &ps->key, rec, BPF_ANY);
	raise_event(EVENT_HANDOVER, 0, 0, 0);
}

/* A member of a socket map has room for what it sends. */
static __always_inline void widen(struct bpf_sock_ops *ops, struct bpf_sock *sk)
{
	int size = NARROW_ROOM;

	if (sock_is_narrow(sock_kernel(sk)))
		bpf_setsockopt(ops, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

static __always_inline void join_psock(struct bpf_sock_ops *ops, struct bpf_sock *sk, struct psock *ps,
				       struct conn_record *rec)
{
	int size = psock_rcvbuf;

	if (!fast_path)
		return;
	if (ps->flags & PSOCK_PLAIN) {
		psock_is_unseen(ps, rec);
		return;
	}
	if (sock_wants_completions(sk) || sock_is_lean(sock_kernel(sk))) {
		count(VERDICT_PSOCK_NOT_JOINED);
		psock_is_unseen(ps, rec);
		return;
	}
	ps->read_base = ops->rcv_nxt;
	ps->write_base = ops->snd_nxt;
	if (bpf_sock_hash_update(ops, &psocks, &ps->cookie, BPF_NOEXIST)) {
		count(VERDICT_PSOCK_NOT_JOINED);
		psock_is_unseen(ps, rec);
		return;
	}
	ps->flags |= PSOCK_JOINED;
	count_arrival();
	widen(ops, sk);
	if (size)
		bpf_setsockopt(ops, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	count(VERDICT_PSOCK_JOINED);
}

/* Before the first segment. A connection counts already, unless its states alone tell of its end. */
static __always_inline void connect_begins(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct psock *ps = sk ? psock_of(sk) : 0;

	if (!ps || !ps->vip_port || ps->in_account)
		return;
	watch_states(ops);
	account_begin(ps);
}

static __always_inline void active_established(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct psock *ps = sk ? psock_of(sk) : 0;
	struct conn_record rec = {};
	struct conn_key *key;

	if (!ps || !ps->vip_port)
		return;
	watch_states(ops);
	ps->cookie = bpf_get_socket_cookie(ops);
	key = &ps->key;
	local_addr(ops, key->addr);
	key->port = ops->local_port;
	key->anchor_port = bpf_ntohl(ops->remote_port);
	key->netns = bpf_get_netns_cookie(ops);
	rec.cookie = ps->cookie;
	__builtin_memcpy(rec.vip, ps->vip, sizeof(rec.vip));
	rec.vip_port = ps->vip_port;
	rec.listener = ps->listener;
	__builtin_memcpy(rec.tenant, ps->tenant, sizeof(rec.tenant));
	if (ps->flags & PSOCK_PLAIN)
		rec.flags = CONN_PLAIN;
	/* Before the socket may send: the daemon must know it when its first bytes arrive. */
	bpf_map_update_elem(&conns, key, &rec, BPF_ANY);
	join_psock(ops, sk, ps, &rec);
}

/* Whether requests to a server have to pass all that is in its network namespace, because the daemon leaves that alone. */
static __always_inline int server_is_left_alone(struct bpf_sock_ops *ops)
{
	struct anchor a;

	anchor_read(bpf_get_netns_cookie(ops), &a);
	return is_left_alone(&a);
}

/* The daemon has announced the i-sock before it connected, so the key is there if this is the other end
 * of one: a socket that merely has the same addresses, in another namespace, is not found. */
static __always_inline void passive_established(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct peer_key key = {};
	struct ssock *ss;
	struct slot *s;
	__u32 index;

	local_addr(ops, key.local);
	remote_addr(ops, key.remote);
	key.local_port = ops->local_port;
	key.remote_port = bpf_ntohl(ops->remote_port);
	key.sequence = ops->rcv_nxt;
	if (addr_is_loopback(key.local))
		key.netns = bpf_get_netns_cookie(ops);
	if (!fast_path || same_host_tcp || !sk || !peers_read(&key, &index))
		return;
	s = slot_at(index);
	/* Too late to become local: requests already go over TCP, and must go on so (see docs/decisions). */
	if (!s || s->state != SLOT_CONNECTING)
		return;
	/* Requests go over TCP then, as to a server on another host. */
	if (sock_wants_completions(sk) || server_is_left_alone(ops)) {
		count(VERDICT_SSOCK_NOT_JOINED);
		return;
	}
	ss = bpf_sk_storage_get(&ssock_states, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!ss)
		return;
	ss->slot = index;
	ss->generation = s->generation;
	if (bpf_sock_hash_update(ops, &ssocks, &index, BPF_ANY)) {
		count(VERDICT_SSOCK_NOT_JOINED);
		return;
	}
	watch_states(ops);
	widen(ops, sk);
	__sync_fetch_and_or(&s->flags, SLOT_LOCAL);
	count(VERDICT_SSOCK_JOINED);
}

SEC("sockops")
int xlb_sockops(struct bpf_sock_ops *ops)
{
	switch (ops->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		connect_begins(ops);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		active_established(ops);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		passive_established(ops);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		state_changed(ops);
		break;
	}
	return 1;
}
