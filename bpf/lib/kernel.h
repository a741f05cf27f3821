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

#define AF_INET 2
#define AF_INET6 10
#define SOL_SOCKET 1
#define SO_RCVBUF 8
#define TCP_ESTABLISHED 1

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

struct sock_common {
	volatile unsigned char skc_state;
};

struct sock {
	struct sock_common __sk_common;
	struct {
		atomic_t rmem_alloc;
	} sk_backlog;
	int sk_sndbuf;
	int sk_rcvbuf;
	int sk_wmem_queued;
};

struct tcp_sock {
	__u32 copied_seq;
	__u32 write_seq;
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
 * it has written what goes over TCP. Redirected bytes appear in neither. */
static __always_inline struct tcp_sock *sock_tcp(struct bpf_sock *sk)
{
	return bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
}

#endif
