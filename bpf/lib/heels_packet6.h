/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* IPv6 TCP packets at tc: as heels_packet.h, for the other family.
 */
#ifndef XLB_HEELS_PACKET6_H
#define XLB_HEELS_PACKET6_H

#include <linux/ipv6.h>

#include "heels6.h"
#include "heels_packet.h"

/* Since Linux 6.3; older headers do not have them. */
#define HEELS_DECAP_L3_IPV4 (1ULL << 7)
#define HEELS_DECAP_L3_IPV6 (1ULL << 8)

#define HEELS_IP6_SADDR ((int)__builtin_offsetof(struct ipv6hdr, saddr))
#define HEELS_IP6_DADDR ((int)__builtin_offsetof(struct ipv6hdr, daddr))
#define HEELS_TCP_URGENT ((int)__builtin_offsetof(struct tcphdr, urg_ptr))

/* linux/icmpv6.h brings the C library's headers. Neighbour discovery has types from 133 on, and is never touched. */
#define HEELS_ICMP6_UNREACHABLE 1
#define HEELS_ICMP6_TOO_BIG 2
#define HEELS_ICMP6_TIME_EXCEEDED 3
#define HEELS_ICMP6_PARAMETER 4
#define HEELS_ICMP_CHECK ((int)__builtin_offsetof(struct heels_icmp, checksum))

/* Extension headers in front of TCP that are walked over. */
#define HEELS_EXTENSIONS 3

struct heels_packet6 {
	/* Offsets in bytes from the link layer's header. */
	__u32 l3;
	__u32 l4;
	struct heels_end from;
	struct heels_end to;
	__u16 urgent;
	/* Of the TCP header, in bytes. */
	__u8 length;
	__u8 flags;
	/* Extension headers are between IP and TCP. */
	__u32 is_extended;
};

/* What an ICMPv6 error quotes of the packet that it is about. */
struct heels_quote6 {
	struct ipv6hdr ip;
	__u16 source;
	__u16 dest;
};

/* Finds TCP behind extension headers that leave addresses as they are. The kernel itself puts one into super-packets of more than 64 KiB. */
static __always_inline int heels_skip_extensions(struct __sk_buff *skb, struct heels_packet6 *p, __u8 next)
{
	__u8 head[2];

	for (int i = 0; i < HEELS_EXTENSIONS && next != IPPROTO_TCP; i++) {
		if (next != IPPROTO_HOPOPTS && next != IPPROTO_DSTOPTS)
			return 0;
		if (bpf_skb_load_bytes(skb, p->l4, head, sizeof(head)))
			return 0;
		next = head[0];
		p->l4 += 8 + head[1] * 8;
		p->is_extended = 1;
	}
	return next == IPPROTO_TCP;
}

/* Reads IPv6 and TCP header at offset l3. False when it is not a whole TCP header in IPv6, or a fragment. */
static __always_inline int heels_parse6(struct __sk_buff *skb, __u32 l3, struct heels_packet6 *p)
{
	struct ipv6hdr ip;
	__u8 tcp[sizeof(struct tcphdr)];

	if (bpf_skb_load_bytes(skb, l3, &ip, sizeof(ip)) || ip.version != 6)
		return 0;
	p->l3 = l3;
	p->l4 = l3 + sizeof(ip);
	p->is_extended = 0;
	if (!heels_skip_extensions(skb, p, ip.nexthdr))
		return 0;
	if (bpf_skb_load_bytes(skb, p->l4, tcp, sizeof(tcp)))
		return 0;
	heels_end_set6(&p->from, ip.saddr.in6_u.u6_addr32, *(__u16 *)&tcp[0]);
	heels_end_set6(&p->to, ip.daddr.in6_u.u6_addr32, *(__u16 *)&tcp[2]);
	p->length = (tcp[12] >> 4) * 4;
	p->flags = tcp[13];
	p->urgent = *(__u16 *)&tcp[HEELS_TCP_URGENT];
	return p->length >= sizeof(struct tcphdr);
}

/* Changes an address in the IPv6 header. No other checksum makes up for it as IPv4's does: where the device has summed the whole packet up (COMPLETE), that sum
 * stays as it was, and must not be told of the pseudo-header. BPF_F_IPV6 does that since Linux 6.16; asking does it on all kernels.
 */
static __always_inline int heels_set_addr6(struct __sk_buff *skb, __u32 check, __u32 at, const struct heels_end *from,
					   const struct heels_end *to)
{
	__u64 pseudo = bpf_csum_update(skb, 0) >= 0 ? 0 : BPF_F_PSEUDO_HDR;
	__s64 change;

	if (heels_same_addr(from->addr, to->addr))
		return 0;
	change = bpf_csum_diff(heels_words(from), sizeof(from->addr), heels_words(to), sizeof(to->addr), 0);
	if (bpf_l4_csum_replace(skb, check, 0, change, pseudo))
		return -1;
	return bpf_skb_store_bytes(skb, at, to->addr, sizeof(to->addr), 0);
}

/* Changes two bytes of the TCP header. */
static __always_inline int heels_set_field6(struct __sk_buff *skb, const struct heels_packet6 *p, int field, __u16 from,
					    __u16 to)
{
	if (from == to)
		return 0;
	if (bpf_l4_csum_replace(skb, p->l4 + HEELS_TCP_CHECK, from, to, sizeof(to)))
		return -1;
	return bpf_skb_store_bytes(skb, p->l4 + field, &to, sizeof(to), 0);
}

/* Ports of a server are those of its VIP: only a client's may change. */
static __always_inline int heels_set_source6(struct __sk_buff *skb, const struct heels_packet6 *p,
					     const struct heels_end *to)
{
	if (!heels_set_addr6(skb, p->l4 + HEELS_TCP_CHECK, p->l3 + HEELS_IP6_SADDR, &p->from, to) &&
	    !heels_set_field6(skb, p, HEELS_TCP_SOURCE, p->from.port, to->port))
		return 0;
	heels_count(HEELS_REWRITE_FAILED);
	return -1;
}

static __always_inline int heels_set_dest6(struct __sk_buff *skb, const struct heels_packet6 *p,
					   const struct heels_end *to)
{
	if (!heels_set_addr6(skb, p->l4 + HEELS_TCP_CHECK, p->l3 + HEELS_IP6_DADDR, &p->to, to))
		return 0;
	heels_count(HEELS_REWRITE_FAILED);
	return -1;
}

/* Changes an address that an ICMPv6 error quotes: part of what its checksum is over. */
static __always_inline int heels_set_quoted6(struct __sk_buff *skb, __u32 icmp, __u32 at, const struct heels_end *from,
					     const struct heels_end *to)
{
	__s64 change = bpf_csum_diff(heels_words(from), sizeof(from->addr), heels_words(to), sizeof(to->addr), 0);

	if (bpf_l4_csum_replace(skb, icmp + HEELS_ICMP_CHECK, 0, change, 0))
		return -1;
	return bpf_skb_store_bytes(skb, at, to->addr, sizeof(to->addr), 0);
}

static __always_inline void heels_tuple6(struct bpf_sock_tuple *t, const struct heels_end *from,
					 const struct heels_end *to)
{
	__builtin_memcpy(t->ipv6.saddr, from->addr, sizeof(from->addr));
	__builtin_memcpy(t->ipv6.daddr, to->addr, sizeof(to->addr));
	t->ipv6.sport = from->port;
	t->ipv6.dport = to->port;
}

#endif
