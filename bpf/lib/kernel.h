/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The few kernel fields that the programs read, by CO-RE: only names and nesting matter here, offsets come from
 * the running kernel's BTF.
 */
#ifndef XLB_KERNEL_H
#define XLB_KERNEL_H

#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "config.h"

#define AF_INET 2
#define AF_INET6 10
#define SOL_SOCKET 1
#define SO_RCVBUF 8
#define TCP_ESTABLISHED 1
#define TCP_CLOSE 7
#define TCP_CLOSE_WAIT 8

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct refcount_struct {
	atomic_t refs;
};

struct hlist_node {
	void *pprev;
};

struct timer_list {
	struct hlist_node entry;
};

struct hrtimer {
	unsigned char state;
};

struct sock_common {
	volatile unsigned char skc_state;
	struct refcount_struct skc_refcnt;
	unsigned long skc_flags;
};

struct sock {
	struct sock_common __sk_common;
	struct {
		atomic_t rmem_alloc;
	} sk_backlog;
	int sk_sndbuf;
	int sk_rcvbuf;
	int sk_wmem_queued;
	struct timer_list sk_timer;
	void *sk_user_data;
};

struct sk_buff_head {
	__u32 qlen;
};

struct sk_buff {
	char cb[48];
	unsigned int truesize;
};

struct tcp_skb_cb {
	__u32 seq;
	__u32 end_seq;
};

struct sk_psock {
	struct sk_buff_head ingress_skb;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	struct timer_list icsk_retransmit_timer;
	struct timer_list icsk_delack_timer;
};

/* Which bit of skc_flags is which; the numbers are the running kernel's. */
enum sock_flags {
	SOCK_ZEROCOPY,
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 copied_seq;
	__u32 write_seq;
	__u32 snd_una;
	__u64 bytes_acked;
	__u64 bytes_received;
	__u64 tcp_clock_cache;
	struct hrtimer pacing_timer;
	struct hrtimer compressed_ack_timer;
};

struct sk_msg {
	struct sock *sk_redir;
};

#pragma clang attribute pop

extern void *bpf_cast_to_kern_ctx(void *obj) __ksym;
extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym;

/* The socket that this message is redirected to so far, or NULL. It survives from one run to the
 * next inside a single sendmsg(). */
static __always_inline struct sock *msg_target(struct sk_msg_md *msg)
{
	struct sk_msg *kern = bpf_cast_to_kern_ctx(msg);

	return kern->sk_redir;
}

/* The connection's own counts: copied_seq is how far the application has read what came over TCP, write_seq how far
 * it has written what goes over TCP. Redirected bytes appear in neither. tcp_clock_cache is CLOCK_MONOTONIC of the last receive
 * call, or of the last segment if that came later. */
static __always_inline struct tcp_sock *sock_tcp(struct bpf_sock *sk)
{
	return bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
}

/* How many bytes of the connection its peer has acknowledged or still has to. */
static __always_inline __u64 sock_owed(const struct sock *sk)
{
	struct tcp_sock *tp = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));

	return tp->bytes_acked + (tp->write_seq - tp->snd_una);
}

/* Whether the application wants to hear of each send when its memory is free again (SO_ZEROCOPY). Kernels without the functions of the
 * fast path have this helper. */
static __always_inline int sock_wants_completions(struct bpf_sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	return tp &&
	       tp->inet_conn.icsk_inet.sk.__sk_common.skc_flags >> bpf_core_enum_value(enum sock_flags, SOCK_ZEROCOPY) &
		       1;
}

/* The sequence numbers of a TCP segment's first byte and of the one behind its last. */
static __always_inline struct tcp_skb_cb *skb_tcp(struct __sk_buff *skb)
{
	struct sk_buff *kern = bpf_cast_to_kern_ctx(skb);

	return bpf_rdonly_cast(&kern->cb, bpf_core_type_id_kernel(struct tcp_skb_cb));
}

/* What a segment takes of a receive buffer: its bytes with the kernel's bookkeeping. */
static __always_inline __u32 skb_truesize(struct __sk_buff *skb)
{
	struct sk_buff *kern = bpf_cast_to_kern_ctx(skb);

	return kern->truesize;
}

/* The kernel keeps flags in the lowest bits of sk_user_data. */
#define USER_DATA_FLAGS 7UL

/* Bytes that the socket's application has not read, with the kernel's bookkeeping. */
static __always_inline __u64 sock_unread_bytes(struct bpf_sock *sk)
{
	struct sock *kern = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct sock));

	return (__u32)kern->sk_backlog.rmem_alloc.counter;
}

/* What the socket's receive buffer holds, with the kernel's bookkeeping. */
static __always_inline __u32 sock_receive_buffer(struct bpf_sock *sk)
{
	struct sock *kern = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct sock));

	return kern->sk_rcvbuf;
}

/* Whether at least as many redirected bytes lie in the socket unread. What has come over TCP is counted with bookkeeping: then nobody knows. */
static __always_inline int sock_has_unread(struct bpf_sock *sk, __u64 bytes)
{
	return ingress_charged && !sock_tcp(sk)->bytes_received && sock_unread_bytes(sk) >= bytes;
}

/* The references to an open TCP socket that no timer holds. */
static __always_inline int sock_references(struct bpf_sock *sk)
{
	struct tcp_sock *tp = sock_tcp(sk);
	struct inet_connection_sock *icsk = &tp->inet_conn;
	int timers = 0;

	/* A timer's reference lasts as long as it is armed. */
	timers += !!icsk->icsk_retransmit_timer.entry.pprev;
	timers += !!icsk->icsk_delack_timer.entry.pprev;
	timers += !!icsk->icsk_inet.sk.sk_timer.entry.pprev;
	timers += tp->pacing_timer.state & 1;
	timers += tp->compressed_ack_timer.state & 1;
	return icsk->icsk_inet.sk.__sk_common.skc_refcnt.refs.counter - timers;
}

/* Those beyond what the socket always has. Whoever redirects bytes to it holds one from the end of the program until they are in its queue;
 * a packet that arrives, for a moment. */
static __always_inline int sock_foreign_references(struct bpf_sock *sk)
{
	return socket_references ? sock_references(sk) - (int)socket_references : 0;
}

/* How many segments that were redirected to this socket its worker has not yet made readable. The socket must be in a socket
 * map. */
static __always_inline __u32 sock_redirected_segments(struct bpf_sock *sk)
{
	struct sock *kern = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct sock));
	unsigned long psock = (unsigned long)kern->sk_user_data & ~USER_DATA_FLAGS;
	struct sk_psock *p = bpf_rdonly_cast((void *)psock, bpf_core_type_id_kernel(struct sk_psock));

	return p->ingress_skb.qlen;
}

#endif
