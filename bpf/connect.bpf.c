// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* cgroup/connect4 and connect6: run at connect(). A connection to a service address goes to the anchor listener of its
 * network namespace instead, and remembers where it meant to go. cgroup/getpeername: gives that address back.
 * Nothing is ever refused here: what is not ours passes unchanged.
 */
#include "lib/addr.h"
#include "lib/config.h"
#include "lib/lease.h"
#include "lib/maps.h"

#define SOCK_STREAM 1
#define IPPROTO_TCP 6
#define PROCEED 1

/* Whether the daemon lives and takes new connections. */
static __always_inline enum verdict connect_allowed(void)
{
	struct control *c = control_at(0);
	__u64 tgid = bpf_get_current_pid_tgid() >> 32;

	if (!c || c->daemon_tgid == tgid)
		return VERDICT_CONNECT_OTHER;
	if (c->draining || bpf_ktime_get_ns() - c->heartbeat_ns > heartbeat_limit_ns)
		return VERDICT_CONNECT_STALE_DAEMON;
	return VERDICT_CONNECT_INTERCEPTED;
}

static __always_inline struct anchor_ports *connect_anchor(struct bpf_sock_addr *ctx)
{
	__u64 netns = bpf_get_netns_cookie(ctx);

	return bpf_map_lookup_elem(&anchors, &netns);
}

static __always_inline __u32 any_anchor(void)
{
	return bpf_get_prandom_u32() & (ANCHOR_PORTS - 1);
}

/* A socket that was connected before, and disconnected: nothing of its first connection may reach it in the second. */
static __always_inline void connect_forget(struct bpf_sock *sk)
{
	struct psock *ps = psock_of(sk);
	struct slot *s = ps ? slot_at(ps->slot) : 0;

	if (!ps || !ps->vip_port)
		return;
	ps->vip_port = 0;
	ps->body = 0;
	if (s && lease_holds(s, ps->lease))
		lease_break(s, ps->slot);
	ps->lease = 0;
}

/* Decides whether this connection is ours; if so the socket's state is ready and `ports` says where to send it. */
static __always_inline enum verdict connect_decide(struct bpf_sock_addr *ctx, const struct listener_key *key,
						   struct anchor_ports **ports)
{
	__u32 *listener = bpf_map_lookup_elem(&vips, key);
	struct bpf_sock *sk = ctx->sk;
	struct psock *ps;
	enum verdict v;

	if (sk)
		connect_forget(sk);
	if (!listener || ctx->type != SOCK_STREAM || ctx->protocol != IPPROTO_TCP || !sk)
		return VERDICT_CONNECT_OTHER;
	v = connect_allowed();
	if (v != VERDICT_CONNECT_INTERCEPTED)
		return v;
	*ports = connect_anchor(ctx);
	if (!*ports || !(addr_is_v4(key->addr) ? (*ports)->port4[0] : (*ports)->port6[0]))
		return VERDICT_CONNECT_NO_ANCHOR;
	ps = bpf_sk_storage_get(&psock_states, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!ps)
		return VERDICT_CONNECT_NO_MEMORY;
	__builtin_memcpy(ps->vip, key->addr, sizeof(ps->vip));
	ps->vip_port = key->port;
	ps->listener = *listener;
	ps->flags = 0;
	return VERDICT_CONNECT_INTERCEPTED;
}

SEC("cgroup/connect4")
int xlb_connect4(struct bpf_sock_addr *ctx)
{
	struct listener_key key = { .port = bpf_ntohs(ctx->user_port) };
	struct anchor_ports *ports = 0;
	enum verdict v;

	addr_set4(key.addr, ctx->user_ip4);
	v = connect_decide(ctx, &key, &ports);
	if (v == VERDICT_CONNECT_OTHER)
		return PROCEED;
	if (v == VERDICT_CONNECT_INTERCEPTED && ports) {
		ctx->user_ip4 = LOOPBACK4;
		ctx->user_port = bpf_htons(ports->port4[any_anchor()]);
	}
	count(v);
	return PROCEED;
}

SEC("cgroup/connect6")
int xlb_connect6(struct bpf_sock_addr *ctx)
{
	struct listener_key key = { .port = bpf_ntohs(ctx->user_port) };
	struct anchor_ports *ports = 0;
	enum verdict v;
	int v4;

	addr_set6(key.addr, ctx->user_ip6[0], ctx->user_ip6[1], ctx->user_ip6[2], ctx->user_ip6[3]);
	v4 = addr_is_v4(key.addr);
	v = connect_decide(ctx, &key, &ports);
	if (v == VERDICT_CONNECT_OTHER)
		return PROCEED;
	if (v == VERDICT_CONNECT_INTERCEPTED && ports && v4) {
		ctx->user_ip6[3] = LOOPBACK4;
		ctx->user_port = bpf_htons(ports->port4[any_anchor()]);
	}
	if (v == VERDICT_CONNECT_INTERCEPTED && ports && !v4) {
		ctx->user_ip6[0] = 0;
		ctx->user_ip6[1] = 0;
		ctx->user_ip6[2] = 0;
		ctx->user_ip6[3] = LOOPBACK6;
		ctx->user_port = bpf_htons(ports->port6[any_anchor()]);
	}
	count(v);
	return PROCEED;
}

static __always_inline struct psock *peername_psock(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct psock *ps = sk ? psock_of(sk) : 0;

	return ps && ps->vip_port ? ps : 0;
}

SEC("cgroup/getpeername4")
int xlb_getpeername4(struct bpf_sock_addr *ctx)
{
	struct psock *ps = peername_psock(ctx);

	if (!ps)
		return PROCEED;
	ctx->user_ip4 = ((__u32 *)ps->vip)[3];
	ctx->user_port = bpf_htons(ps->vip_port);
	return PROCEED;
}

SEC("cgroup/getpeername6")
int xlb_getpeername6(struct bpf_sock_addr *ctx)
{
	struct psock *ps = peername_psock(ctx);
	__u32 *w;

	if (!ps)
		return PROCEED;
	w = (__u32 *)ps->vip;
	ctx->user_ip6[0] = w[0];
	ctx->user_ip6[1] = w[1];
	ctx->user_ip6[2] = w[2];
	ctx->user_ip6[3] = w[3];
	ctx->user_port = bpf_htons(ps->vip_port);
	return PROCEED;
}
