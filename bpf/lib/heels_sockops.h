/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What both roles' sock_ops programs do alike.
 */
#ifndef XLB_HEELS_SOCKOPS_H
#define XLB_HEELS_SOCKOPS_H

#include <linux/in6.h>

#include <bpf/bpf_core_read.h>

#include "heels_maps.h"

#define HEELS_AF_INET 2
#define HEELS_AF_INET6 10
#define HEELS_SOL_TCP 6
#define HEELS_TCP_FIN 0x01
#define HEELS_TCP_SYN 0x02
#define HEELS_TCP_RST 0x04
#define HEELS_TCP_ACK 0x10
#define HEELS_TCP_HANDSHAKE (HEELS_TCP_FIN | HEELS_TCP_SYN | HEELS_TCP_RST | HEELS_TCP_ACK)

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

struct kernfs_node {
	__u64 id;
};

struct cgroup {
	int level;
	struct kernfs_node *kn;
	/* From the root to this one, by level. */
	struct cgroup *ancestors[];
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct sock {
	struct sock_common __sk_common;
	int sk_err;
	struct sock_cgroup_data sk_cgrp_data;
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
	__u32 snd_una;
	__u32 snd_nxt;
	/* The largest window that the other end has offered. */
	__u32 max_window;
	__u32 rcv_nxt;
	/* What the last window that this end has offered begins with, and its length. */
	__u32 rcv_wup;
	__u32 rcv_wnd;
	/* The largest window that this end may offer. */
	__u32 window_clamp;
	/* A listener's: SYNs are kept. */
	__u8 save_syn : 2;
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

/* Whether a listener was prepared, and still keeps SYNs: its application may have changed its mind, and a connection
 * without its SYN would be nobody's. */
static __always_inline int heels_is_ready(struct bpf_sock *listener)
{
	struct bpf_sock *full = bpf_sk_fullsock(listener);
	struct tcp_sock *tp;

	if (!full || !bpf_sk_storage_get(&heels_listeners, full, 0, 0))
		return 0;
	tp = bpf_skc_to_tcp_sock(full);
	return tp && BPF_CORE_READ_BITFIELD_PROBED(tp, save_syn);
}

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

/* Whether the segment that is being written is a SYN, or a SYN-ACK, as the flags say. Those that negotiate explicit
 * congestion notification (RFC 3168, RFC 9768) may be set besides. */
static __always_inline int heels_begins(struct bpf_sock_ops *ops, __u32 flags)
{
	return (ops->skb_tcp_flags & HEELS_TCP_HANDSHAKE) == flags;
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

/* Whether the connection has just ended. Two programs may be told, of one cgroup inside another. */
static __always_inline int heels_is_over(struct bpf_sock_ops *ops, struct heels_flow *f)
{
	if (ops->args[1] != BPF_TCP_CLOSE || f->closed)
		return 0;
	f->closed = 1;
	return 1;
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
