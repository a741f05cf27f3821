// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* cgroup/connect4 and connect6: run at connect(). A connection to a service address goes to the anchor listener of its
 * network namespace instead, or, without HTTP, to an endpoint, and remembers where it meant to go. cgroup/getpeername: gives
 * that address back.
 * What is not ours passes unchanged. A connection to a service address is refused only if the operator
 * asks for that while the daemon drains or is silent (refuse_when_down).
 */
#include <linux/errno.h>

#include "lib/account.h"
#include "lib/addr.h"
#include "lib/config.h"
#include "lib/lease.h"
#include "lib/maps.h"
#include "lib/plain.h"

#define SOCK_STREAM 1
#define IPPROTO_TCP 6
#define PROCEED 1

/* Whether the daemon has given no sign of life for too long. Its last one may be later than the clock was when this processor read
 * it, so the difference has a sign. */
static __always_inline int heartbeat_is_stale(struct control *c)
{
	__s64 silence = (__s64)(bpf_ktime_get_ns() - c->heartbeat_ns);

	return silence > (__s64)heartbeat_limit_ns;
}

/* Whether the daemon lives and takes new connections. */
static __always_inline enum verdict connect_allowed(void)
{
	struct control *c = control_at(0);
	__u64 tgid = bpf_get_current_pid_tgid() >> 32;

	if (!c || c->daemon_tgid == tgid)
		return VERDICT_CONNECT_OTHER;
	if (c->draining || heartbeat_is_stale(c))
		return VERDICT_CONNECT_STALE_DAEMON;
	return VERDICT_CONNECT_INTERCEPTED;
}

/* A namespace is reported at most so often: the daemon may have tried in vain to serve it. */
#define STRANGER_EVENT_NS 1000000000ULL

/* All together are reported at most so often: a process that makes namespaces wakes the daemon no more. */
#define NAMESPACE_EVENT_NS 1000000ULL

/* Reports a network namespace that the daemon does not know, and a thread by which it gets there. */
static __always_inline void connect_report(__u64 netns)
{
	struct event e = { .kind = EVENT_NAMESPACE, .detail = bpf_get_current_pid_tgid(), .cookie = netns };
	__u64 now, *reported;
	struct control *c;

	if (!report_namespaces)
		return;
	now = bpf_ktime_get_ns();
	reported = bpf_map_lookup_elem(&strangers, &netns);
	if (reported && now - *reported < STRANGER_EVENT_NS)
		return;
	c = control_at(0);
	if (!c || !event_is_due(&c->namespace_ns, NAMESPACE_EVENT_NS))
		return;
	/* An event that is lost is raised again with the next connection. */
	if (!bpf_ringbuf_output(&events, &e, sizeof(e), 0))
		bpf_map_update_elem(&strangers, &netns, &now, BPF_ANY);
}

/* A socket that was connected before, and disconnected: nothing of its first connection may reach it in the second. */
static __always_inline void connect_forget(struct bpf_sock *sk)
{
	struct psock *ps = psock_of(sk);
	struct slot *s = ps ? slot_at(ps->slot) : 0;

	plain_forget(sk);
	if (!ps || !ps->vip_port)
		return;
	account_end(ps);
	ps->vip_port = 0;
	ps->body = 0;
	ps->unproven = 0;
	if (lease_holds(s, ps->lease))
		lease_cancel(s, ps->slot, ps->lease);
	ps->lease = 0;
}

/* A p-sock that was disconnected stays in its map, and what was redirected to it stays in its queue: read behind the next
 * handshake, it would be taken for what the new peer says. So would be what is on its way there: with a worker, which leaves a segment
 * in its own queue until that is readable, or with a server's send, which may wait for the lock that this connect has. */
static __always_inline int connect_is_stale(struct bpf_sock *sk)
{
	struct psock *ps = sk ? psock_of(sk) : 0;

	if (!ps || !(ps->flags & PSOCK_JOINED))
		return 0;
	/* In this order: each leaves one place when it is seen in the next. */
	if (sock_foreign_references(sk) > 0 || sock_redirected_segments(sk))
		return 1;
	asm volatile("" ::: "memory");
	return !sock_queue_is_empty(sock_kernel(sk));
}

/* The table of a listener without HTTP. */
static __always_inline struct route_table *connect_plain_table(__u32 listener)
{
	__u32 table = listener_table(listener);
	struct route_table *t = table ? route_table_at(table) : 0;

	return t && t->flags & TABLE_PLAIN ? t : 0;
}

static __always_inline int connect_is_excluded(const struct listener_key *key)
{
	struct exclusion_key k = { .prefix_len = 8 * sizeof(k.addr) };

	__builtin_memcpy(k.addr, key->addr, sizeof(k.addr));
	return bpf_map_lookup_elem(&exclusions, &k) != 0;
}

/* The listener that takes connections to destinations that are no service address: that of the port, or else of any port. */
static __always_inline int connect_captured(const struct listener_key *key, __u32 *listener)
{
	struct capture_key k = {
		.prefix_len = 8 * (sizeof(k) - sizeof(k.prefix_len)),
		.view = key->view,
		.port = bpf_htons(key->port),
		.family = bpf_htons(addr_is_v4(key->addr) ? 4 : 6),
	};
	__u32 *found;

	__builtin_memcpy(k.addr, key->addr, sizeof(k.addr));
	found = bpf_map_lookup_elem(&captures, &k);
	if (!found) {
		k.port = 0;
		found = bpf_map_lookup_elem(&captures, &k);
	}
	if (!found)
		return 0;
	*listener = *(volatile __u32 *)found;
	return *listener && !connect_is_excluded(key);
}

/* Finds the listener of a destination in one view, in Envoy's order: the one at the address, then those at 0.0.0.0 or ::. */
static __always_inline int connect_listener_in(const struct listener_key *key, const struct control *c, __u32 *listener)
{
	if (vips_read(key, listener))
		return 1;
	return c->captures && connect_captured(key, listener);
}

/* Whoever connects is whose work the connection makes. */
static __always_inline void connect_note_tenant(struct psock *ps)
{
	__u32 i;

#pragma unroll
	for (i = 0; i < TENANT_LEVELS; i++)
		ps->tenant[i] = bpf_get_current_ancestor_cgroup_id(i + 1);
}

/* Where a connection of ours goes. */
struct connect_target {
	/* Of the network namespace. */
	__u64 netns;
	struct anchor anchor;
	/* Instead of its ports, unless it is NULL. */
	struct endpoint_address *endpoint;
};

static __always_inline void connect_find_anchors(struct bpf_sock_addr *ctx, struct connect_target *to)
{
	to->netns = bpf_get_netns_cookie(ctx);
	anchor_read(to->netns, &to->anchor);
}

/* Finds the listener of a destination where network namespaces have views: that of the namespace's view. A namespace that is not known, or is left
 * alone, has no view: what is found for it is whether any view has the destination, by which it is reported, counted or refused. */
static __always_inline int connect_listener_seen(struct listener_key *key, const struct control *c,
						 const struct anchor *anchor, __u32 *listener)
{
	int is_served = anchor->is_known && !is_left_alone(anchor), is_found;

	if (is_served)
		key->view = anchor->view;
	is_found = connect_listener_in(key, c, listener);
	if (is_found || is_served)
		return is_found;
	key->view = VIEW_ANY;
	return connect_listener_in(key, c, listener);
}

/* Finds the listener of a destination. The target has the namespace's anchors in any case if there is one: they are read once, since they may
 * come, or go, meanwhile. */
static __always_inline int connect_listener(struct bpf_sock_addr *ctx, struct listener_key *key,
					    struct connect_target *to, __u32 *listener)
{
	struct control *c = control_at(0);

	if (!c)
		return 0;
	if (c->views) {
		connect_find_anchors(ctx, to);
		return connect_listener_seen(key, c, &to->anchor, listener);
	}
	/* Most connections of a host are to no service address: they are spared the look-up. */
	if (!connect_listener_in(key, c, listener))
		return 0;
	connect_find_anchors(ctx, to);
	return 1;
}

/* Decides whether this connection is ours; if so the socket's state is ready and the target says where to send it. */
static __always_inline enum verdict connect_decide(struct bpf_sock_addr *ctx, struct listener_key *key,
						   struct connect_target *to)
{
	struct bpf_sock *sk = ctx->sk;
	struct route_table *plain;
	__u32 listener, again;
	struct psock *ps;
	enum verdict v;

	/* First: behind this no program finds the lease, and begins to move more. */
	if (sk)
		connect_forget(sk);
	if (fast_path && connect_is_stale(sk)) {
		bpf_set_retval(-ECONNABORTED);
		return VERDICT_CONNECT_OTHER;
	}
	if (ctx->type != SOCK_STREAM || ctx->protocol != IPPROTO_TCP || !sk)
		return VERDICT_CONNECT_OTHER;
	if (!connect_listener(ctx, key, to, &listener))
		return VERDICT_CONNECT_OTHER;
	v = connect_allowed();
	if (v == VERDICT_CONNECT_OTHER)
		return v;
	/* That one is also when the daemon is down, and connections of others are refused. */
	if (is_left_alone(&to->anchor))
		return VERDICT_CONNECT_LEFT_ALONE;
	if (v != VERDICT_CONNECT_INTERCEPTED)
		return v;
	if (!to->anchor.is_known) {
		connect_report(to->netns);
		return VERDICT_CONNECT_NO_ANCHOR;
	}
	/* A namespace without IPv6 has no listener for it. */
	if (!(addr_is_v4(key->addr) ? to->anchor.port4 : to->anchor.port6))
		return VERDICT_CONNECT_NO_ANCHOR;
	plain = connect_plain_table(listener);
	if (plain && !(plain->flags & TABLE_SLOW) && fast_path)
		to->endpoint = plain_begin(sk, plain, key);
	if (to->endpoint)
		return VERDICT_CONNECT_PLAIN;
	if (!account_allows(to->anchor.account, sk))
		return VERDICT_CONNECT_OVER_QUOTA;
	ps = bpf_sk_storage_get(&psock_states, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!ps)
		return VERDICT_CONNECT_NO_MEMORY;
	__builtin_memcpy(ps->vip, key->addr, sizeof(ps->vip));
	ps->vip_port = key->port;
	ps->listener = listener;
	ps->workload = to->anchor.workload;
	ps->account = to->anchor.account;
	account_connect(ps, sk);
	connect_note_tenant(ps);
	ps->requests = 0;
	ps->held = 0;
	/* A response to its first connection may still be under way: nothing else is moved there. */
	again = ps->flags & PSOCK_JOINED;
	ps->flags = (plain ? PSOCK_PLAIN : 0) | (again ? PSOCK_JOINED | PSOCK_SLOW : 0);
	return VERDICT_CONNECT_INTERCEPTED;
}

/* A service address has nobody to serve it: whoever listens there himself must not get what is meant for
 * it, if the operator says so. */
static __always_inline void connect_refuse(void)
{
	if (refuse_when_down)
		bpf_set_retval(-ECONNREFUSED);
}

/* The kernel runs the programs of all daemons in turn. One that drains, or is silent, has refused what
 * this one serves; what another program refuses stays refused: that is EPERM, unless it chooses. */
static __always_inline void connect_admit(void)
{
	if (refuse_when_down && bpf_get_retval() == -ECONNREFUSED)
		bpf_set_retval(0);
}

/* Whether this connection is sent somewhere else. If not, and it is ours, it may be refused. */
static __always_inline int connect_takes(enum verdict v, const struct connect_target *to)
{
	if ((v == VERDICT_CONNECT_INTERCEPTED || v == VERDICT_CONNECT_PLAIN) && to->anchor.is_known) {
		connect_admit();
		return 1;
	}
	if (v == VERDICT_CONNECT_STALE_DAEMON || v == VERDICT_CONNECT_NO_MEMORY || v == VERDICT_CONNECT_OVER_QUOTA)
		connect_refuse();
	return 0;
}

/* The port to connect to, network order. */
static __always_inline __u16 target_port(const struct connect_target *to, int v4)
{
	if (to->endpoint)
		return bpf_htons(to->endpoint->port);
	return bpf_htons(v4 ? to->anchor.port4 : to->anchor.port6);
}

static __always_inline __u32 target_addr4(const struct connect_target *to)
{
	return to->endpoint ? ((__u32 *)to->endpoint->addr)[3] : LOOPBACK4;
}

SEC("cgroup/connect4")
int xlb_connect4(struct bpf_sock_addr *ctx)
{
	struct listener_key key = { .port = bpf_ntohs(ctx->user_port) };
	struct connect_target to = {};
	enum verdict v;

	addr_set4(key.addr, ctx->user_ip4);
	v = connect_decide(ctx, &key, &to);
	if (v == VERDICT_CONNECT_OTHER)
		return PROCEED;
	if (connect_takes(v, &to)) {
		ctx->user_ip4 = target_addr4(&to);
		ctx->user_port = target_port(&to, 1);
	}
	count(v);
	return PROCEED;
}

SEC("cgroup/connect6")
int xlb_connect6(struct bpf_sock_addr *ctx)
{
	struct listener_key key = { .port = bpf_ntohs(ctx->user_port) };
	struct connect_target to = {};
	enum verdict v;
	__u32 *w;
	int v4;

	addr_set6(key.addr, ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3]);
	v4 = addr_is_v4(key.addr);
	v = connect_decide(ctx, &key, &to);
	if (v == VERDICT_CONNECT_OTHER)
		return PROCEED;
	count(v);
	if (!connect_takes(v, &to))
		return PROCEED;
	ctx->user_port = target_port(&to, v4);
	if (to.endpoint) {
		w = (__u32 *)to.endpoint->addr;
		ctx->user_ip6[0] = w[0];
		ctx->user_ip6[1] = w[1];
		ctx->user_ip6[2] = w[2];
		ctx->user_ip6[3] = w[3];
	} else if (v4) {
		ctx->user_ip6[3] = LOOPBACK4;
	} else {
		ctx->user_ip6[0] = 0;
		ctx->user_ip6[1] = 0;
		ctx->user_ip6[2] = 0;
		ctx->user_ip6[3] = LOOPBACK6;
	}
	return PROCEED;
}

/* What the application connected to, and its port; NULL where that is what the kernel says. */
static __always_inline const __u8 *peername_of(struct bpf_sock_addr *ctx, __u16 *port)
{
	struct bpf_sock *sk = ctx->sk;
	struct plain_conn *plain;
	struct psock *ps;

	if (!sk)
		return 0;
	ps = psock_of(sk);
	if (ps && ps->vip_port) {
		*port = ps->vip_port;
		return ps->vip;
	}
	plain = plain_conn_of(sk);
	if (!plain || !plain->vip_port)
		return 0;
	*port = plain->vip_port;
	return plain->vip;
}

SEC("cgroup/getpeername4")
int xlb_getpeername4(struct bpf_sock_addr *ctx)
{
	__u16 port = 0;
	const __u32 *w = (const __u32 *)peername_of(ctx, &port);

	if (!w)
		return PROCEED;
	ctx->user_ip4 = w[3];
	ctx->user_port = bpf_htons(port);
	return PROCEED;
}

SEC("cgroup/getpeername6")
int xlb_getpeername6(struct bpf_sock_addr *ctx)
{
	__u16 port = 0;
	const __u32 *w = (const __u32 *)peername_of(ctx, &port);

	if (!w)
		return PROCEED;
	ctx->user_ip6[0] = w[0];
	ctx->user_ip6[1] = w[1];
	ctx->user_ip6[2] = w[2];
	ctx->user_ip6[3] = w[3];
	ctx->user_port = bpf_htons(port);
	return PROCEED;
}
