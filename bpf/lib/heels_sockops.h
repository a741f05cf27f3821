/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What both roles' sock_ops programs do alike.
 */
#ifndef XLB_HEELS_SOCKOPS_H
#define XLB_HEELS_SOCKOPS_H

#include <linux/in6.h>

#include "heels_maps.h"

#define HEELS_AF_INET 2
#define HEELS_AF_INET6 10
#define HEELS_SOL_TCP 6
#define HEELS_TCP_FIN 0x01
#define HEELS_TCP_SYN 0x02
#define HEELS_TCP_RST 0x04
#define HEELS_TCP_ACK 0x10

/* VERIFIER: without this the compiler reads both branches through one computed context pointer: "dereference of
 * modified ctx ptr disallowed". */
#define HEELS_KEEP_BRANCH(value) asm volatile("" : "+r"(value))

/* The few kernel fields that have no helper, by CO-RE. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock_common {
	unsigned short skc_family;
	volatile unsigned char skc_state;
	__u16 skc_num;
	__u16 skc_dport;
	__u32 skc_daddr;
	__u32 skc_rcv_saddr;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	__u32 skc_tw_rcv_nxt;
};

struct sock {
	struct sock_common __sk_common;
	int sk_err;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u64 bytes_acked;
	__u64 bytes_received;
};

struct tcp_request_sock {
	__u32 rcv_isn;
	__u32 snt_isn;
};

struct inet_timewait_sock {
	struct sock_common __tw_common;
	volatile unsigned char tw_substate;
};

struct tcp_timewait_sock {
	struct inet_timewait_sock tw_sk;
	__u32 tw_ts_recent;
	int tw_ts_recent_stamp;
};

#pragma clang attribute pop

extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym;

static __always_inline void heels_local(struct bpf_sock_ops *ops, struct heels_end *e)
{
	__u32 ip;

	e->port = bpf_htons(ops->local_port);
	e->zero = 0;
	if (ops->family == HEELS_AF_INET) {
		ip = ops->local_ip4;
		HEELS_KEEP_BRANCH(ip);
		addr_set4(e->addr, ip);
		return;
	}
	addr_set6(e->addr, ops->local_ip6[0], ops->local_ip6[1], ops->local_ip6[2], ops->local_ip6[3]);
}

static __always_inline void heels_remote(struct bpf_sock_ops *ops, struct heels_end *e)
{
	__u32 ip;

	e->port = bpf_htons(bpf_ntohl(ops->remote_port));
	e->zero = 0;
	if (ops->family == HEELS_AF_INET) {
		ip = ops->remote_ip4;
		HEELS_KEEP_BRANCH(ip);
		addr_set4(e->addr, ip);
		return;
	}
	addr_set6(e->addr, ops->remote_ip6[0], ops->remote_ip6[1], ops->remote_ip6[2], ops->remote_ip6[3]);
}

/* Other programs of the cgroup may have asked for callbacks too. */
static __always_inline void heels_want(struct bpf_sock_ops *ops, int flags)
{
	bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | flags);
}

static __always_inline void heels_leave(struct bpf_sock_ops *ops, int flags)
{
	bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags & ~flags);
}

/* The states in which something is to be done. */
static __always_inline int heels_is_ending(struct bpf_sock_ops *ops)
{
	__u32 to = ops->args[1];

	return to == BPF_TCP_FIN_WAIT1 || to == BPF_TCP_LAST_ACK || to == BPF_TCP_CLOSE;
}

/* A socket that begins to close, or is reset, may soon be none. From LAST_ACK it sends by itself until the other end has everything: after that nothing is
 * left to say, but in confirm mode to a balancer. */
static __always_inline int heels_is_leaving(struct bpf_sock_ops *ops, int confirm)
{
	__u32 from = ops->args[0], to = ops->args[1];

	if (to == BPF_TCP_FIN_WAIT1 || (confirm && to == BPF_TCP_LAST_ACK))
		return 1;
	return to == BPF_TCP_CLOSE && (from == BPF_TCP_ESTABLISHED || from == BPF_TCP_CLOSE_WAIT);
}

static __always_inline void heels_remember(void *closing, struct bpf_sock_ops *ops, const struct heels_flow *f)
{
	struct heels_tuple key = {};
	struct heels_closing value = { .vip = f->vip, .peer = f->peer, .confirm = f->confirm };

	heels_local(ops, &key.local);
	heels_remote(ops, &key.remote);
	bpf_map_update_elem(closing, &key, &value, BPF_ANY);
}

/* Nearly always there is nothing: a look-up takes no lock, deleting does. */
static __always_inline void heels_forget_ends(void *closing, const struct heels_tuple *key)
{
	if (bpf_map_lookup_elem(closing, key))
		bpf_map_delete_elem(closing, key);
}

static __always_inline void heels_forget(void *closing, struct bpf_sock_ops *ops)
{
	struct heels_tuple key = {};

	heels_local(ops, &key.local);
	heels_remote(ops, &key.remote);
	heels_forget_ends(closing, &key);
}

static __always_inline void heels_count_opened(const struct heels_flow *f, __u32 server)
{
	struct heels_traffic *t = heels_traffic_of(f, server);

	if (t)
		t->opened++;
}

/* TCP has counted already: nothing is counted per packet. It counts SYN and FIN as bytes acknowledged, a SYN always. */
static __always_inline void heels_count_closed(struct bpf_sock_ops *ops, const struct heels_flow *f, __u32 server)
{
	struct heels_traffic *t = heels_traffic_of(f, server);
	__u64 acked = ops->bytes_acked;

	if (!t)
		return;
	t->closed++;
	t->sent += acked ? acked - 1 : 0;
	t->received += ops->bytes_received;
}

#endif
