// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* cgroup/setsockopt: runs before setsockopt(). A socket in a socket map has its bytes copied, and the kernel sends no completion
 * for MSG_ZEROCOPY: whoever waits for one before it uses its memory again would wait for ever. So such a socket refuses SO_ZEROCOPY, as
 * sockets do that cannot; applications then send without. Who asks before the connection is made keeps an ordinary socket
 * (sockops.bpf.c) and gets completions.
 * A send buffer for which its owner asks behind that has the room that it gets when the socket joins (sock_is_narrow).
 * TCP_ULP is refused likewise. TLS in the kernel runs the programs on its own, and its send() returns more than a redirect took.
 */
#include "lib/config.h"
#include "lib/maps.h"

#define SO_ZEROCOPY 60
#define SOL_TCP 6
#define TCP_ULP 31
#define ENOENT 2
#define EOPNOTSUPP 95
#define REFUSE 0
#define ALLOW 1

/* Whether the option, set, would take the socket's bytes out of the programs' sight: without completions, or by a protocol of its
 * own, whose send() does not return what the redirect took. */
static __always_inline int sockopt_is_ours(const struct bpf_sockopt *ctx)
{
	return (ctx->level == SOL_SOCKET && ctx->optname == SO_ZEROCOPY) ||
	       (ctx->level == SOL_TCP && ctx->optname == TCP_ULP);
}

/* A p-sock that is on the slow path for good has joined all the same. */
static __always_inline int sockopt_is_joined(struct bpf_sock *sk)
{
	struct psock *ps = psock_of(sk);

	return (ps && ps->flags & PSOCK_JOINED) || bpf_sk_storage_get(&ssock_states, sk, 0, 0);
}

/* Less than nothing is as much as there may be. */
static __always_inline void sockopt_widen(struct bpf_sockopt *ctx, struct bpf_sock *sk)
{
	int *room = ctx->optval;

	if ((void *)(room + 1) > ctx->optval_end || *room < 0 || *room >= NARROW_ROOM || !sockopt_is_joined(sk))
		return;
	*room = NARROW_ROOM;
}

SEC("cgroup/setsockopt")
int xlb_setsockopt(struct bpf_sockopt *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	int *on = ctx->optval;

	if (sk && ctx->level == SOL_SOCKET && ctx->optname == SO_SNDBUF)
		sockopt_widen(ctx, sk);
	if (!sk || !sockopt_is_ours(ctx))
		return ALLOW;
	if (ctx->level == SOL_SOCKET && ((void *)(on + 1) > ctx->optval_end || !*on))
		return ALLOW;
	if (!sockopt_is_joined(sk))
		return ALLOW;
	/* As where the protocol is not there. */
	bpf_set_retval(ctx->level == SOL_TCP ? -ENOENT : -EOPNOTSUPP);
	return REFUSE;
}
