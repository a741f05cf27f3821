// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* HEELS, confirm mode: applications of the server ask accept() and getpeername() for the client, whom the socket does not know.
 */
#include "lib/heels_confirm.h"

static __always_inline struct heels_flow *peername_flow(struct bpf_sock_addr *ctx)
{
	struct bpf_sock *sk = ctx->sk;
	struct heels_flow *f = sk ? bpf_sk_storage_get(&heels_server_flows, sk, 0, 0) : 0;

	return f && f->confirm ? f : 0;
}

SEC("cgroup/getpeername4")
int heels_server_peername4(struct bpf_sock_addr *ctx)
{
	struct heels_flow *f = peername_flow(ctx);

	if (!f)
		return 1;
	ctx->user_ip4 = heels_ip(&f->client);
	ctx->user_port = f->client.port;
	return 1;
}

/* A socket of IPv6 that takes IPv4, too. */
SEC("cgroup/getpeername6")
int heels_server_peername6(struct bpf_sock_addr *ctx)
{
	struct heels_flow *f = peername_flow(ctx);
	const __u32 *words;

	if (!f)
		return 1;
	words = (const __u32 *)f->client.addr;
	ctx->user_ip6[0] = words[0];
	ctx->user_ip6[1] = words[1];
	ctx->user_ip6[2] = words[2];
	ctx->user_ip6[3] = words[3];
	ctx->user_port = f->client.port;
	return 1;
}
