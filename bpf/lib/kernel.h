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
#define SO_SNDBUF 7
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

struct proto;

struct sock_common {
	volatile unsigned char skc_state;
	struct proto *skc_prot;
	struct refcount_struct skc_refcnt;
	unsigned long skc_flags;
};

/* The kernel's long that several processors count on. */
typedef struct {
	long counter;
} atomic_long_t;

struct page_counter {
	atomic_long_t usage;
	unsigned long max;
};

struct mem_cgroup {
	/* Of cgroup v1: memory of TCP. */
	struct page_counter tcpmem;
};

struct list_head {
	struct list_head *next;
};

/* Stands for any number of eight bytes: the verifier lets a pointer's own bits be read only as a field of another type. */
struct timespec64 {
	long long tv_sec;
};

/* A kernel's count of which each processor has a part; count lags behind by what those have. */
struct percpu_counter {
	long long count;
};

struct proto {
	/* Points to the protocol's flag: its memory has been above the second of net.ipv4.tcp_mem, and not below the first since. */
	unsigned long *memory_pressure;
	/* Pages of all its sockets. */
	atomic_long_t *memory_allocated;
	/* net.ipv4.tcp_mem: three numbers of pages. */
	long *sysctl_mem;
	struct percpu_counter *sockets_allocated;
};

/* Who has the socket's lock, as a process does amid a call: not what interrupts hold. */
typedef struct {
	int owned;
} socket_lock_t;

struct sock {
	struct sock_common __sk_common;
	socket_lock_t sk_lock;
	struct {
		atomic_t rmem_alloc;
	} sk_backlog;
	int sk_forward_alloc;
	struct mem_cgroup *sk_memcg;
	int sk_sndbuf;
	int sk_rcvbuf;
	unsigned char sk_userlocks;
	int sk_wmem_queued;
	int sk_write_pending;
	struct timer_list sk_timer;
	void *sk_user_data;
};

struct sk_buff_head {
	__u32 qlen;
};

struct sk_buff {
	struct sock *sk;
	char cb[48];
	unsigned int truesize;
};

struct tcp_skb_cb {
	__u32 seq;
	__u32 end_seq;
};

struct sk_psock {
	struct sk_buff_head ingress_skb;
	struct list_head ingress_msg;
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
	__u32 snd_up;
	__u32 mss_cache;
	__u64 bytes_acked;
	__u64 bytes_received;
	__u64 tcp_clock_cache;
	unsigned char fastopen_connect : 1;
	_Bool is_mptcp;
	struct hrtimer pacing_timer;
	struct hrtimer compressed_ack_timer;
};

struct sk_msg_sg {
	__u32 start;
};

struct sk_msg {
	struct sk_msg_sg sg;
	__u32 apply_bytes;
	__u32 flags;
	struct sock *sk_redir;
};

#pragma clang attribute pop

/* Weak: kernels without them run what the slow path needs, which calls neither. */
extern void *bpf_cast_to_kern_ctx(void *obj) __ksym __weak;
extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;

/* The socket that this message is redirected to so far, or NULL. On some kernels it survives from one run to the next inside a
 * single sendmsg(); others clear it. */
static __always_inline struct sock *msg_target(struct sk_msg_md *msg)
{
	struct sk_msg *kern = bpf_cast_to_kern_ctx(msg);

	return kern->sk_redir;
}

/* Whether a program has run for this message before, in the same send, and runs again for the rest of it. To be asked at the
 * beginning of a run, before that sets anything. The kernel zeroes a message first. A run before leaves the bytes to apply and a
 * redirect its flags (an ingress redirect has one); where the kernel has moved a part, the piece that is next is not the first. */
static __always_inline int msg_runs_again(struct sk_msg_md *msg)
{
	struct sk_msg *kern = bpf_cast_to_kern_ctx(msg);

	return kern->sk_redir || kern->flags || kern->sg.start || kern->apply_bytes;
}

static __always_inline struct sock *sock_kernel(struct bpf_sock *sk)
{
	return bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct sock));
}

/* The connection's own counts: copied_seq is how far the application has read what came over TCP, write_seq how far
 * it has written what goes over TCP. Redirected bytes appear in neither. tcp_clock_cache is CLOCK_MONOTONIC of the last receive
 * call, or of the last segment if that came later. */
static __always_inline struct tcp_sock *sock_tcp(struct bpf_sock *sk)
{
	return bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
}

static __always_inline struct tcp_sock *sock_as_tcp(const struct sock *sk)
{
	return bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
}

/* How many bytes of the connection its peer has acknowledged or still has to. */
static __always_inline __u64 sock_owed(const struct sock *sk)
{
	struct tcp_sock *tp = sock_as_tcp(sk);

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

/* Whether the kernel has opened the socket for a Multipath TCP connection: no release program runs when it closes. */
static __always_inline int tcp_is_multipath(const struct tcp_sock *tp)
{
	return bpf_core_field_exists(tp->is_mptcp) && tp->is_mptcp;
}

/* Whether connect may return with nothing sent: then the first send connects, at any time (TCP_FASTOPEN_CONNECT). */
static __always_inline int tcp_may_defer_connect(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, fastopen_connect);
}

/* The sequence numbers of a TCP segment's first byte and of the one behind its last. */
static __always_inline struct tcp_skb_cb *skb_tcp(struct __sk_buff *skb)
{
	struct sk_buff *kern = bpf_cast_to_kern_ctx(skb);

	return bpf_rdonly_cast(&kern->cb, bpf_core_type_id_kernel(struct tcp_skb_cb));
}

/* The socket that received a segment. */
static __always_inline struct sock *skb_socket(struct __sk_buff *skb)
{
	struct sk_buff *kern = bpf_cast_to_kern_ctx(skb);

	return kern->sk;
}

/* What a segment takes of a receive buffer: its bytes with the kernel's bookkeeping. */
static __always_inline __u32 skb_truesize(struct __sk_buff *skb)
{
	struct sk_buff *kern = bpf_cast_to_kern_ctx(skb);

	return kern->truesize;
}

/* The kernel keeps flags in the lowest bits of sk_user_data; one says that it is a member of a socket map. */
#define USER_DATA_FLAGS 7UL
#define USER_DATA_PSOCK 4UL

/* Bytes that the socket's application has not read, with the kernel's bookkeeping. */
static __always_inline __u64 sock_unread_bytes(struct bpf_sock *sk)
{
	return (__u32)sock_kernel(sk)->sk_backlog.rmem_alloc.counter;
}

/* What the socket's receive buffer holds, with the kernel's bookkeeping. */
static __always_inline __u32 sock_receive_buffer(struct bpf_sock *sk)
{
	return sock_kernel(sk)->sk_rcvbuf;
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

/* Whether a send of the socket waits for room, with bytes to push up to that sequence number. One that waits before its next piece has none. */
static __always_inline int sock_waits_for_room(struct bpf_sock *sk, __u32 end)
{
	return sock_kernel(sk)->sk_write_pending > 0 && (__s32)(end - sock_tcp(sk)->write_seq) > 0;
}

/* The socket's state as a member of socket maps, of which it must be one. */
static __always_inline struct sk_psock *sock_psock(const struct sock *sk)
{
	unsigned long psock = (unsigned long)sk->sk_user_data & ~USER_DATA_FLAGS;

	return bpf_rdonly_cast((void *)psock, bpf_core_type_id_kernel(struct sk_psock));
}

/* Whether nothing lies in the queue of what was redirected to the socket, and what came for it over TCP. */
static __always_inline int sock_queue_is_empty(const struct sock *sk)
{
	struct sk_psock *p = sock_psock(sk);

	return (unsigned long)p->ingress_msg.next == (unsigned long)&p->ingress_msg;
}

/* The eight bytes at an address of the kernel's. */
static __always_inline unsigned long word_at(const void *address)
{
	struct timespec64 *t = bpf_rdonly_cast(address, bpf_core_type_id_kernel(struct timespec64));

	return t->tv_sec;
}

/* Whether the protocol's memory is short on the whole machine. */
static __always_inline int sock_is_pressed(const struct sock *sk)
{
	return word_at(sk->__sk_common.skc_prot->memory_pressure) != 0;
}

#define PAGE_BITS 12

/* The kernel keeps flags in the lowest bits of sk_memcg. */
#define MEMCG_FLAGS 7UL

/* Whether the memory limit that cgroup v1 has for TCP leaves the receiver so many bytes. One of its parents may have another
 * limit, and another socket may take the room before: this keeps most sends from failing, and what is exact is told when a
 * send returns. */
static __always_inline int sock_memcg_has_room(const struct sock *sk, __u64 bytes)
{
	struct mem_cgroup *memcg;
	unsigned long at;

	if (!bpf_core_field_exists(struct sock, sk_memcg) || !bpf_core_field_exists(struct mem_cgroup, tcpmem))
		return 1;
	at = word_at(&sk->sk_memcg) & ~MEMCG_FLAGS;
	if (!at)
		return 1;
	memcg = bpf_rdonly_cast((void *)at, bpf_core_type_id_kernel(struct mem_cgroup));
	return (__u64)memcg->tcpmem.usage.counter + (bytes >> PAGE_BITS) + 1 <= memcg->tcpmem.max;
}

/* Whether all of TCP, under pressure, is so near to its limit that what is begun now may find it reached: half of the way there from where pressure begins.
 * Below the limit the kernel lets a socket send that has nothing to be acknowledged; beyond, none. */
static __always_inline int tcp_nears_limit(const struct sock *sk)
{
	const struct proto *p = sk->__sk_common.skc_prot;
	unsigned long pressure = word_at(p->sysctl_mem + 1), limit = word_at(p->sysctl_mem + 2);

	return (long)word_at(p->memory_allocated) > (long)(pressure / 2 + limit / 2);
}

/* Whether the socket, with so many bytes more, has less than its share of what all TCP sockets may have together: more than that the kernel charges to none of
 * them under pressure (__sk_mem_raise_allocated). */
static __always_inline int sock_has_share(const struct sock *sk, __u64 bytes)
{
	const struct proto *p = sk->__sk_common.skc_prot;
	struct percpu_counter *all =
		bpf_rdonly_cast(p->sockets_allocated, bpf_core_type_id_kernel(struct percpu_counter));
	__u64 has = (__u64)(__u32)sk->sk_wmem_queued + (__u32)sk->sk_backlog.rmem_alloc.counter + bytes;
	long long sockets = all->count;

	if (sk->sk_forward_alloc > 0)
		has += (__u32)sk->sk_forward_alloc;
	return sockets <= 0 || (__u64)sockets * ((has >> PAGE_BITS) + 2) < word_at(p->sysctl_mem + 2);
}

/* Whether the kernel can be expected to charge so many more bytes to the socket, as far as the memory of all TCP goes. */
static __always_inline int tcp_may_charge(const struct sock *sk, __u64 bytes)
{
	return !sock_is_pressed(sk) || (!tcp_nears_limit(sk) && sock_has_share(sk, bytes));
}

/* Whether the kernel can be expected to charge so many more bytes to the socket. What it has reserved it takes without asking. */
static __always_inline int sock_may_charge(const struct sock *sk, __u64 bytes)
{
	if ((__s64)bytes <= (__s64)sk->sk_forward_alloc)
		return 1;
	return tcp_may_charge(sk, bytes) && sock_memcg_has_room(sk, bytes);
}

/* Least room of a send buffer, as SO_SNDBUF takes it, with which a member of a socket map keeps sending. One whose send buffer is full waits
 * without having pushed what is queued, other than TCP: a piece that MSG_MORE or TCP_CORK holds back lies there until a timer of 200 ms. Of the
 * longest segment, that of loopback, there is no such piece where twice as many bytes have room. */
#define NARROW_ROOM (128 << 10)
#define SOCK_SNDBUF_LOCK 1

/* Whether the application has asked for a send buffer with less room. */
static __always_inline int sock_is_narrow(const struct sock *sk)
{
	return BPF_CORE_READ_BITFIELD(sk, sk_userlocks) & SOCK_SNDBUF_LOCK && sk->sk_sndbuf < 2 * NARROW_ROOM;
}

/* Room that a member of a socket map must have beyond what it is about to take. */
#define LEAN_ROOM (1 << 20)

/* Whether the socket may soon find no memory for what it sends. A member of a socket map whose send finds none is told to wait, and the kernel never
 * tells it to go on, unless bytes of its own are in flight over TCP. */
static __always_inline int sock_is_lean(const struct sock *sk)
{
	return (sock_is_pressed(sk) && tcp_nears_limit(sk)) || !sock_memcg_has_room(sk, LEAN_ROOM);
}

/* The same of what it is to receive: what a worker cannot charge to it the worker tries again for ever. */
static __always_inline int sock_lacks_room(const struct sock *sk)
{
	return !tcp_may_charge(sk, LEAN_ROOM) || !sock_memcg_has_room(sk, LEAN_ROOM);
}

/* The memory that a socket buffer takes beside its bytes, at most. */
#define SEGMENT_COST 2048

/* What so many bytes may take of the socket's send buffer: each segment may be as short as the peer allows. */
static __always_inline __u64 sock_send_cost(const struct sock *sk, __u64 bytes)
{
	__u32 mss = sock_as_tcp(sk)->mss_cache;

	return bytes + (bytes / (mss ? mss : 1) + 2) * SEGMENT_COST;
}

/* Whether a byte that was sent as urgent data has not been acknowledged. Two look-ups of a connection at work may be of two
 * moments: what was acknowledged in between lies before, not behind. */
static __always_inline int tcp_is_urgent(const struct tcp_sock *tp)
{
	return (__s32)(tp->snd_up - tp->snd_una) > 0;
}

/* How many segments that were redirected to this socket its worker has not yet made readable. The socket must be in a socket
 * map. */
static __always_inline __u32 sock_redirected_segments(struct bpf_sock *sk)
{
	return sock_psock(sock_kernel(sk))->ingress_skb.qlen;
}

#endif
