// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* HEELS, iterators: listeners that are older than the agent, handshakes under way, and the live connections.
 */
#include <bpf/bpf_core_read.h>

#include "lib/heels_sockops.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};

struct bpf_iter__bpf_sk_storage_map {
	struct bpf_iter_meta *meta;
	struct bpf_map *map;
	struct sock *sk;
	struct heels_flow *value;
};

#pragma clang attribute pop

/* Cgroups may be so deep. */
#define HEELS_CGROUP_LEVELS 128

/* Whether the cgroup that a socket was made in is the agent's, or below it: those of others are asked for nothing by
 * sock_ops, and a SYN that came to them would be committed to in vain. */
static __always_inline int is_of_cgroup(struct tcp_sock *tp)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	struct cgroup *at = BPF_CORE_READ(sk, sk_cgrp_data.cgroup), *above;
	void *ancestors = (void *)at + bpf_core_field_offset(at->ancestors);
	struct heels_control *c = heels_control_get();
	int level = BPF_CORE_READ(at, level);

	if (!c || !c->cgroup)
		return 1;
	for (int i = 0; i < HEELS_CGROUP_LEVELS && i <= level; i++) {
		if (bpf_probe_read_kernel(&above, sizeof(above), ancestors + i * sizeof(above)))
			return 0;
		if (BPF_CORE_READ(above, kn, id) == c->cgroup)
			return 1;
	}
	return 0;
}

/* Listeners of the agent's network namespace and cgroup: as server_listen. */
SEC("iter/tcp")
int heels_listening(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	struct tcp_sock *tp;
	int one = 1, flags = 0;
	__u32 *ready;
	__u16 port;

	if (!skc || skc->skc_state != BPF_TCP_LISTEN)
		return 0;
	port = bpf_htons(skc->skc_num);
	if (!bpf_map_lookup_elem(&heels_ports, &port))
		return 0;
	tp = bpf_skc_to_tcp_sock(skc);
	if (!tp)
		return 0;
	/* An agent before may have had another cgroup. */
	if (!is_of_cgroup(tp)) {
		bpf_sk_storage_delete(&heels_listeners, tp);
		return 0;
	}
	if (bpf_sk_storage_get(&heels_listeners, tp, 0, 0))
		return 0;
	if (bpf_setsockopt(tp, HEELS_SOL_TCP, TCP_SAVE_SYN, &one, sizeof(one)) ||
	    bpf_getsockopt(tp, HEELS_SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags))) {
		heels_count(HEELS_LISTENER_REFUSED);
		return 0;
	}
	flags |= BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG;
	if (bpf_setsockopt(tp, HEELS_SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags))) {
		heels_count(HEELS_LISTENER_REFUSED);
		return 0;
	}
	ready = bpf_sk_storage_get(&heels_listeners, tp, 0, BPF_SK_STORAGE_GET_F_CREATE);
	heels_count(ready ? HEELS_LISTENER_READY : HEELS_LISTENER_REFUSED);
	if (ready)
		*ready = 1;
	return 0;
}

/* One byte for each handshake at a port of ours, in the agent's network namespace, that has not ended. */
SEC("iter/tcp")
int heels_half_open(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	__u8 one = 1;
	__u16 port;

	if (!skc || skc->skc_state != BPF_TCP_NEW_SYN_RECV)
		return 0;
	port = bpf_htons(skc->skc_num);
	if (bpf_map_lookup_elem(&heels_ports, &port))
		bpf_seq_write(ctx->meta->seq, &one, sizeof(one));
	return 0;
}

static __always_inline void conn_ends(struct sock *sk, struct heels_conn *c)
{
	struct sock_common *skc = &sk->__sk_common;

	heels_end_set4(&c->local, skc->skc_rcv_saddr, bpf_htons(skc->skc_num));
	heels_end_set4(&c->remote, skc->skc_daddr, skc->skc_dport);
	/* An IPv6 socket that talks IPv4 has the same in its other form. */
	if (skc->skc_family == HEELS_AF_INET6 && bpf_core_field_exists(skc->skc_v6_daddr)) {
		struct in6_addr local = skc->skc_v6_rcv_saddr, remote = skc->skc_v6_daddr;

		__builtin_memcpy(c->local.addr, &local, sizeof(local));
		__builtin_memcpy(c->remote.addr, &remote, sizeof(remote));
	}
}

static __always_inline void report(struct seq_file *to, struct tcp_sock *tp, const struct heels_flow *f)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	struct heels_conn out = {};

	conn_ends(sk, &out);
	out.vip = f->vip;
	out.peer = f->peer;
	out.state = f->state;
	out.foreign = !is_of_cgroup(tp);
	out.tcp_state = sk->__sk_common.skc_state;
	out.sent = tp->bytes_acked;
	out.sent -= !!out.sent;
	out.received = tp->bytes_received;
	bpf_seq_write(to, &out, sizeof(out));
}

/* One struct heels_conn for each connection of the storage that it runs over. */
SEC("iter/bpf_sk_storage_map")
int heels_connections(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct heels_flow *f = ctx->value;
	struct sock *sk = ctx->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;

	if (tp && f)
		report(ctx->meta->seq, tp, f);
	return 0;
}

/* The same for a connection of one network namespace. Kernels that let no iterator run over what a map holds have these two instead. */
static __always_inline int report_socket(struct bpf_iter__tcp *ctx, void *flows)
{
	struct sock_common *skc = ctx->sk_common;
	struct tcp_sock *tp = skc ? bpf_skc_to_tcp_sock(skc) : 0;
	struct heels_flow *f = tp ? bpf_sk_storage_get(flows, tp, 0, 0) : 0;

	if (f)
		report(ctx->meta->seq, tp, f);
	return 0;
}

SEC("iter/tcp")
int heels_connections_client(struct bpf_iter__tcp *ctx)
{
	return report_socket(ctx, &heels_client_flows);
}

SEC("iter/tcp")
int heels_connections_server(struct bpf_iter__tcp *ctx)
{
	return report_socket(ctx, &heels_server_flows);
}
