/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* IPv4 TCP packets at tc: where their parts are, and how addresses and ports are changed. Checksums are changed by the kernel's helpers alone: they know
 * whether the device or this packet holds the sum.
 */
#ifndef XLB_HEELS_PACKET_H
#define XLB_HEELS_PACKET_H

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>

#include "heels_sockops.h"

/* Leaves the packet to whatever comes next. */
#define HEELS_NEXT TC_ACT_UNSPEC

#define HEELS_FRAGMENT 0x3fff
#define HEELS_TCP_CHECK ((int)__builtin_offsetof(struct tcphdr, check))
#define HEELS_TCP_SOURCE ((int)__builtin_offsetof(struct tcphdr, source))
#define HEELS_TCP_SEQ ((int)__builtin_offsetof(struct tcphdr, seq))
#define HEELS_TCP_DEST ((int)__builtin_offsetof(struct tcphdr, dest))
#define HEELS_IP_CHECK ((int)__builtin_offsetof(struct iphdr, check))
#define HEELS_IP_SADDR ((int)__builtin_offsetof(struct iphdr, saddr))
#define HEELS_IP_DADDR ((int)__builtin_offsetof(struct iphdr, daddr))

/* linux/icmp.h brings the C library's headers. */
#define HEELS_ICMP_UNREACHABLE 3
/* Its code for packets that are too big. */
#define HEELS_ICMP_TOO_BIG 4
#define HEELS_ICMP_TIME_EXCEEDED 11
#define HEELS_ICMP_PARAMETER 12

struct heels_icmp {
	__u8 type;
	__u8 code;
	__u16 checksum;
	__u32 rest;
};

struct heels_packet {
	/* Offsets in bytes from the link layer's header. */
	__u32 l3;
	__u32 l4;
	__u32 saddr;
	__u32 daddr;
	__u16 source;
	__u16 dest;
	/* Of the TCP header, in bytes. */
	__u8 length;
	__u8 flags;
};

/* Reads IP and TCP header at offset l3. False when it is not a whole TCP header in IPv4, or a fragment. */
static __always_inline int heels_parse(struct __sk_buff *skb, __u32 l3, struct heels_packet *p)
{
	struct iphdr ip;
	__u8 tcp[sizeof(struct tcphdr)];

	if (bpf_skb_load_bytes(skb, l3, &ip, sizeof(ip)))
		return 0;
	if (ip.version != 4 || ip.ihl < 5 || ip.protocol != IPPROTO_TCP || ip.frag_off & bpf_htons(HEELS_FRAGMENT))
		return 0;
	p->l3 = l3;
	p->l4 = l3 + ip.ihl * 4;
	p->saddr = ip.saddr;
	p->daddr = ip.daddr;
	if (bpf_skb_load_bytes(skb, p->l4, tcp, sizeof(tcp)))
		return 0;
	p->source = *(__u16 *)&tcp[0];
	p->dest = *(__u16 *)&tcp[2];
	p->length = (tcp[12] >> 4) * 4;
	p->flags = tcp[13];
	return p->length >= sizeof(struct tcphdr);
}

/* A look before anything is copied: whether this may be TCP in IPv4. */
static __always_inline int heels_is_tcp(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + ETH_HLEN;

	if (skb->protocol != bpf_htons(ETH_P_IP))
		return 0;
	/* Not in the linear part: heels_parse finds out. */
	if ((void *)(ip + 1) > end)
		return 1;
	return ip->protocol == IPPROTO_TCP;
}

static __always_inline int heels_set_port(struct __sk_buff *skb, const struct heels_packet *p, int field, __u16 from,
					  __u16 to)
{
	if (from == to)
		return 0;
	if (bpf_l4_csum_replace(skb, p->l4 + HEELS_TCP_CHECK, from, to, sizeof(to)))
		return -1;
	return bpf_skb_store_bytes(skb, p->l4 + field, &to, sizeof(to), 0);
}

static __always_inline int heels_set_addr(struct __sk_buff *skb, const struct heels_packet *p, int field, __u32 from,
					  __u32 to)
{
	if (from == to)
		return 0;
	if (bpf_l4_csum_replace(skb, p->l4 + HEELS_TCP_CHECK, from, to, BPF_F_PSEUDO_HDR | sizeof(to)))
		return -1;
	if (bpf_l3_csum_replace(skb, p->l3 + HEELS_IP_CHECK, from, to, sizeof(to)))
		return -1;
	return bpf_skb_store_bytes(skb, p->l3 + field, &to, sizeof(to), 0);
}

/* A packet that was changed by half has a wrong checksum: whoever gets it drops it, and TCP sends it again. */
static __always_inline int heels_set_source(struct __sk_buff *skb, const struct heels_packet *p, __u32 ip, __u16 port)
{
	if (!heels_set_addr(skb, p, HEELS_IP_SADDR, p->saddr, ip) &&
	    !heels_set_port(skb, p, HEELS_TCP_SOURCE, p->source, port))
		return 0;
	heels_count(HEELS_REWRITE_FAILED);
	return -1;
}

static __always_inline int heels_set_dest(struct __sk_buff *skb, const struct heels_packet *p, __u32 ip, __u16 port)
{
	if (!heels_set_addr(skb, p, HEELS_IP_DADDR, p->daddr, ip) &&
	    !heels_set_port(skb, p, HEELS_TCP_DEST, p->dest, port))
		return 0;
	heels_count(HEELS_REWRITE_FAILED);
	return -1;
}

/* The sequence number of the segment that is being written, and of the SYN that a SYN-ACK answers; host order. */
static __always_inline __u32 heels_written(struct bpf_sock_ops *ops)
{
	struct tcphdr *tcp = ops->skb_data;

	return (void *)(tcp + 1) <= ops->skb_data_end ? bpf_ntohl(tcp->seq) : 0;
}

static __always_inline __u32 heels_answered(struct bpf_sock_ops *ops)
{
	struct tcphdr *tcp = ops->skb_data;

	return (void *)(tcp + 1) <= ops->skb_data_end ? bpf_ntohl(tcp->ack_seq) - 1 : 0;
}

/* TCP and IPv4 headers where they are. Pointers into a packet end with the next helper that may change it. */
struct heels_headers {
	struct ethhdr *eth;
	struct iphdr *ip;
	struct tcphdr *tcp;
};

/* Finds the headers of nearly everything that TCP sends: in the linear part, without IP options. When it is false, heels_parse may still find them. */
static __always_inline int heels_headers(struct __sk_buff *skb, struct heels_headers *h)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;

	h->eth = data;
	h->ip = data + ETH_HLEN;
	h->tcp = (void *)(h->ip + 1);
	if (skb->protocol != bpf_htons(ETH_P_IP) || (void *)(h->tcp + 1) > end)
		return 0;
	return h->ip->version == 4 && h->ip->ihl == 5 && h->ip->protocol == IPPROTO_TCP &&
	       !(h->ip->frag_off & bpf_htons(HEELS_FRAGMENT));
}

/* The IP header's checksum, when an address in it becomes another (RFC 1624). */
static __always_inline __u16 heels_ip_sum(__u16 sum, __u32 from, __u32 to)
{
	__u32 n = (__u16)~sum + (__u16)~from + (__u16) ~(from >> 16) + (__u16)to + (to >> 16);

	n = (n & 0xffff) + (n >> 16);
	n = (n & 0xffff) + (n >> 16);
	return ~n;
}

/* The TCP checksum of what heels_headers has found, when an address and a port have become others. */
static __always_inline int heels_fix_sum(struct __sk_buff *skb, __u32 from, __u32 to, __u16 port_from, __u16 port_to)
{
	__u32 at = ETH_HLEN + sizeof(struct iphdr) + HEELS_TCP_CHECK;

	if (!bpf_l4_csum_replace(skb, at, from, to, BPF_F_PSEUDO_HDR | sizeof(to)) &&
	    (port_from == port_to || !bpf_l4_csum_replace(skb, at, port_from, port_to, sizeof(port_to))))
		return 0;
	heels_count(HEELS_REWRITE_FAILED);
	return -1;
}

/* Puts another source in the place of the one that is named. False when the packet is not from there, or has to be taken apart by heels_parse. */
static __always_inline int heels_swap_source(struct __sk_buff *skb, const struct heels_end *was,
					     const struct heels_end *is)
{
	__u32 from = heels_ip(was), to = heels_ip(is);
	struct heels_headers h;

	if (!heels_headers(skb, &h) || !heels_end_is(was, h.ip->saddr, h.tcp->source))
		return 0;
	h.ip->saddr = to;
	h.ip->check = heels_ip_sum(h.ip->check, from, to);
	h.tcp->source = is->port;
	heels_fix_sum(skb, from, to, was->port, is->port);
	return 1;
}

/* As heels_swap_source, for the destination; mac is its next hop. */
static __always_inline int heels_swap_dest(struct __sk_buff *skb, const struct heels_end *was,
					   const struct heels_end *is, const __u8 *mac)
{
	__u32 from = heels_ip(was), to = heels_ip(is);
	struct heels_headers h;

	if (!heels_headers(skb, &h) || !heels_end_is(was, h.ip->daddr, h.tcp->dest))
		return 0;
	__builtin_memcpy(h.eth->h_dest, mac, ETH_ALEN);
	h.ip->daddr = to;
	h.ip->check = heels_ip_sum(h.ip->check, from, to);
	h.tcp->dest = is->port;
	heels_fix_sum(skb, from, to, was->port, is->port);
	return 1;
}

static __always_inline void heels_tuple_set(struct heels_tuple *t, __u32 local, __u16 local_port, __u32 remote,
					    __u16 remote_port)
{
	heels_end_set4(&t->local, local, local_port);
	heels_end_set4(&t->remote, remote, remote_port);
}

#endif
