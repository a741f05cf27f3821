// SPDX-License-Identifier: Apache-2.0

//go:build ignore

// A layer-4 balancer that encapsulates, for tests: what arrives for a service goes out again to one of its servers,
// chosen by a Maglev table, inside IPIP or GUE. It stands for Katran and GLB. The second program takes the outer
// headers away at a server: it stands for the tunnel device that such balancers want there.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define MAX_SERVICES 16
#define MAX_REALS 64
#define RING_SIZE 4099 /* prime */
#define IS_FRAGMENT 0x3fff
#define ICMP_DEST_UNREACH 3
#define ICMP_FRAG_NEEDED 4
#define ICMPV6_PKT_TOOBIG 2
#define ICMP_HEAD 8

/* Where the servers of Katran and of GLB expect UDP. */
#define GUE_PORT 6080
#define GLB_PORT 19523

enum encapsulation {
	IPIP,
	/* GUE variant 1: the inner IP header follows UDP. */
	GUE_DIRECT,
	/* GUE variant 0 with GLB's private data: one server to ask next. */
	GUE_GLB,
};

struct service_key {
	__u8 vip[16]; /* IPv4 in the first four bytes */
	__be16 port;
	__u16 pad;
};

struct service {
	__u32 index;
	enum encapsulation encapsulation;
};

struct real {
	__u8 address[16];
	__u32 is_v6;
};

/* Outer sources; all zero: made up from the client's address and port, as Katran does for IPIP. */
struct source {
	__u8 v4[4];
	__u8 v6[16];
};

enum counter {
	SYNS,
	OTHERS,
	ICMPS,
	NO_SERVER,
	FAILURES,
	COUNTERS,
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SERVICES);
	__type(key, struct service_key);
	__type(value, struct service);
} services SEC(".maps");

/* For each service RING_SIZE numbers of servers, from 1; 0: nobody. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_SERVICES *RING_SIZE);
	__type(key, __u32);
	__type(value, __u32);
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_REALS);
	__type(key, __u32);
	__type(value, struct real);
} reals SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct source);
} sources SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, enum counter);
	__type(value, __u64);
} counters SEC(".maps");

/* What is known of a packet for a service. */
struct packet {
	struct service_key service;
	__u8 client[16];
	__be16 port;   /* the client's */
	__u16 family;  /* ETH_P_IP or ETH_P_IPV6 */
	__u32 counter; /* enum counter */
	__u32 length;  /* of the inner packet in bytes */
};

static __always_inline void count(__u32 what)
{
	__u64 *n = bpf_map_lookup_elem(&counters, &what);

	if (n)
		*n += 1;
}

static __always_inline __u32 mix(__u32 hash, __u32 word)
{
	hash ^= word;
	hash *= 0x85ebca6b;
	hash ^= hash >> 13;
	hash *= 0xc2b2ae35;
	return hash ^ hash >> 16;
}

static __always_inline __u32 word_of(const __u8 *at)
{
	return (__u32)at[0] << 24 | (__u32)at[1] << 16 | (__u32)at[2] << 8 | at[3];
}

/* Of the client alone, so that an ICMP error about a reply finds the same server. */
static __always_inline __u32 packet_hash(const struct packet *p)
{
	__u32 hash = mix(0x9e3779b9, p->port);

	for (int i = 0; i < 16; i += 4)
		hash = mix(hash, word_of(&p->client[i]));
	return hash;
}

static __always_inline int take_ports(struct packet *p, void *l4, void *end)
{
	struct tcphdr *tcp = l4;

	if ((void *)(tcp + 1) > end)
		return -1;
	p->port = tcp->source;
	p->service.port = tcp->dest;
	p->counter = tcp->syn && !tcp->ack ? SYNS : OTHERS;
	return 0;
}

/* The quoted packet went from the service to the client. */
static __always_inline int take_quoted_ports(struct packet *p, void *l4, void *end)
{
	struct udphdr *ports = l4;

	if ((void *)(ports + 1) > end)
		return -1;
	p->port = ports->dest;
	p->service.port = ports->source;
	p->counter = ICMPS;
	return 0;
}

static __always_inline int parse_v4(struct packet *p, void *l3, void *end)
{
	struct iphdr *ip = l3;
	__u8 *icmp;

	if ((void *)(ip + 1) > end || ip->ihl != 5 || ip->frag_off & bpf_htons(IS_FRAGMENT))
		return -1;
	p->family = ETH_P_IP;
	p->length = bpf_ntohs(ip->tot_len);
	if (ip->protocol == IPPROTO_TCP) {
		__builtin_memcpy(p->service.vip, &ip->daddr, 4);
		__builtin_memcpy(p->client, &ip->saddr, 4);
		return take_ports(p, ip + 1, end);
	}
	icmp = (void *)(ip + 1);
	if (ip->protocol != IPPROTO_ICMP || (void *)(icmp + ICMP_HEAD) > end)
		return -1;
	if (icmp[0] != ICMP_DEST_UNREACH || icmp[1] != ICMP_FRAG_NEEDED)
		return -1;
	ip = (void *)(icmp + ICMP_HEAD);
	if ((void *)(ip + 1) > end || ip->ihl != 5 || ip->protocol != IPPROTO_TCP)
		return -1;
	__builtin_memcpy(p->service.vip, &ip->saddr, 4);
	__builtin_memcpy(p->client, &ip->daddr, 4);
	return take_quoted_ports(p, ip + 1, end);
}

static __always_inline int parse_v6(struct packet *p, void *l3, void *end)
{
	struct ipv6hdr *ip = l3;
	__u8 *icmp;

	if ((void *)(ip + 1) > end)
		return -1;
	p->family = ETH_P_IPV6;
	p->length = bpf_ntohs(ip->payload_len) + sizeof(*ip);
	if (ip->nexthdr == IPPROTO_TCP) {
		__builtin_memcpy(p->service.vip, &ip->daddr, 16);
		__builtin_memcpy(p->client, &ip->saddr, 16);
		return take_ports(p, ip + 1, end);
	}
	icmp = (void *)(ip + 1);
	if (ip->nexthdr != IPPROTO_ICMPV6 || (void *)(icmp + ICMP_HEAD) > end || icmp[0] != ICMPV6_PKT_TOOBIG)
		return -1;
	ip = (void *)(icmp + ICMP_HEAD);
	if ((void *)(ip + 1) > end || ip->nexthdr != IPPROTO_TCP)
		return -1;
	__builtin_memcpy(p->service.vip, &ip->saddr, 16);
	__builtin_memcpy(p->client, &ip->daddr, 16);
	return take_quoted_ports(p, ip + 1, end);
}

static __always_inline __u16 ip_checksum(struct iphdr *ip)
{
	__u32 sum = bpf_csum_diff(0, 0, (void *)ip, sizeof(*ip), 0);

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* What follows the outer IP header, in bytes. */
static __always_inline __u32 shim_length(__u32 encapsulation)
{
	switch (encapsulation) {
	case GUE_DIRECT:
		return sizeof(struct udphdr);
	case GUE_GLB:
		return sizeof(struct udphdr) + 12;
	default:
		return 0;
	}
}

static __always_inline __u8 outer_protocol(const struct packet *p, __u32 encapsulation)
{
	if (encapsulation != IPIP)
		return IPPROTO_UDP;
	return p->family == ETH_P_IP ? IPPROTO_IPIP : IPPROTO_IPV6;
}

static __always_inline void write_udp(struct udphdr *udp, const struct packet *p, __u32 length, __u16 port)
{
	/* The source port spreads connections over receive queues. */
	udp->source = bpf_htons(packet_hash(p) | 0x8000);
	udp->dest = bpf_htons(port);
	udp->len = bpf_htons(length);
	udp->check = 0;
}

/* GLB's header: three words of private data after the first, version 0; another server to ask comes with every packet. */
static __always_inline void write_glb(__u8 *gue, const struct packet *p, const struct real *next)
{
	gue[0] = 2; /* version 0, data; two words follow the first */
	gue[1] = p->family == ETH_P_IP ? IPPROTO_IPIP : IPPROTO_IPV6;
	gue[2] = 0;
	gue[3] = 0;
	gue[4] = 0; /* private data of type 0 */
	gue[5] = 0;
	gue[6] = 0; /* the next hop's number */
	gue[7] = 1; /* of so many */
	__builtin_memcpy(gue + 8, next->address, 4);
}

/* Returns where the shim of the encapsulation begins; NULL when the packet has no room. */
static __always_inline void *push_v4(struct xdp_md *ctx, const struct packet *p, const struct real *r,
				     __u32 encapsulation)
{
	__u32 zero = 0, head = sizeof(struct iphdr) + shim_length(encapsulation);
	struct source *from = bpf_map_lookup_elem(&sources, &zero);
	struct ethhdr *eth, old;
	struct iphdr *ip;
	void *end;

	if (!from || (void *)(long)ctx->data + sizeof(old) > (void *)(long)ctx->data_end)
		return NULL;
	old = *(struct ethhdr *)(long)ctx->data;
	if (bpf_xdp_adjust_head(ctx, -(int)head))
		return NULL;
	eth = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	ip = (void *)(eth + 1);
	if ((void *)(ip + 1) + sizeof(struct udphdr) + 12 > end)
		return NULL;
	__builtin_memcpy(eth->h_dest, old.h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, old.h_dest, ETH_ALEN);
	eth->h_proto = bpf_htons(ETH_P_IP);
	__builtin_memset(ip, 0, sizeof(*ip));
	ip->version = 4;
	ip->ihl = 5;
	ip->tot_len = bpf_htons(p->length + head);
	ip->ttl = 64;
	ip->protocol = outer_protocol(p, encapsulation);
	__builtin_memcpy(&ip->saddr, from->v4, 4);
	if (!ip->saddr)
		ip->saddr = bpf_htonl(0xac100000 | (packet_hash(p) & 0xffff)); /* 172.16.0.0/16 */
	__builtin_memcpy(&ip->daddr, r->address, 4);
	ip->check = ip_checksum(ip);
	return ip + 1;
}

static __always_inline void *push_v6(struct xdp_md *ctx, const struct packet *p, const struct real *r,
				     __u32 encapsulation)
{
	__u32 zero = 0, shim = shim_length(encapsulation), head = sizeof(struct ipv6hdr) + shim;
	struct source *from = bpf_map_lookup_elem(&sources, &zero);
	struct ethhdr *eth, old;
	struct ipv6hdr *ip;
	void *end;

	if (!from || (void *)(long)ctx->data + sizeof(old) > (void *)(long)ctx->data_end)
		return NULL;
	old = *(struct ethhdr *)(long)ctx->data;
	if (bpf_xdp_adjust_head(ctx, -(int)head))
		return NULL;
	eth = (void *)(long)ctx->data;
	end = (void *)(long)ctx->data_end;
	ip = (void *)(eth + 1);
	if ((void *)(ip + 1) + sizeof(struct udphdr) + 12 > end)
		return NULL;
	__builtin_memcpy(eth->h_dest, old.h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, old.h_dest, ETH_ALEN);
	eth->h_proto = bpf_htons(ETH_P_IPV6);
	__builtin_memset(ip, 0, sizeof(*ip));
	ip->version = 6;
	ip->payload_len = bpf_htons(p->length + shim);
	ip->hop_limit = 64;
	ip->nexthdr = outer_protocol(p, encapsulation);
	__builtin_memcpy(&ip->saddr, from->v6, 16);
	if (!ip->saddr.in6_u.u6_addr32[0]) {
		/* 100::/64 */
		ip->saddr.in6_u.u6_addr32[0] = bpf_htonl(0x01000000);
		ip->saddr.in6_u.u6_addr32[3] = packet_hash(p);
	}
	__builtin_memcpy(&ip->daddr, r->address, 16);
	return ip + 1;
}

static __always_inline int send(struct xdp_md *ctx, const struct packet *p, const struct real *r, __u32 encapsulation)
{
	__u32 shim = shim_length(encapsulation);
	void *at = r->is_v6 ? push_v6(ctx, p, r, encapsulation) : push_v4(ctx, p, r, encapsulation);

	if (!at) {
		count(FAILURES);
		return XDP_DROP;
	}
	if (encapsulation != IPIP)
		write_udp(at, p, p->length + shim, encapsulation == GUE_GLB ? GLB_PORT : GUE_PORT);
	if (encapsulation == GUE_GLB)
		write_glb(at + sizeof(struct udphdr), p, r);
	count(p->counter);
	return XDP_TX;
}

SEC("xdp")
int balance(struct xdp_md *ctx)
{
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = (void *)(long)ctx->data;
	struct packet p = {};
	struct service *service;
	struct real *r;
	__u32 place, *number;
	int failed = -1;

	if ((void *)(eth + 1) > end)
		return XDP_PASS;
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		failed = parse_v4(&p, eth + 1, end);
	else if (eth->h_proto == bpf_htons(ETH_P_IPV6))
		failed = parse_v6(&p, eth + 1, end);
	if (failed)
		return XDP_PASS;
	service = bpf_map_lookup_elem(&services, &p.service);
	if (!service || service->index >= MAX_SERVICES)
		return XDP_PASS;
	place = service->index * RING_SIZE + packet_hash(&p) % RING_SIZE;
	number = bpf_map_lookup_elem(&rings, &place);
	if (!number || !*number) {
		count(NO_SERVER);
		return XDP_DROP;
	}
	place = *number - 1;
	r = bpf_map_lookup_elem(&reals, &place);
	if (!r)
		return XDP_DROP;
	return send(ctx, &p, r, service->encapsulation);
}

/*
 * For the other end of the balancer's link: a veth device takes what a program sends out only where a program receives,
 * and on some kernels wakes its receiver for nothing else.
 */
SEC("xdp")
int receive(struct xdp_md *ctx)
{
	return XDP_PASS;
}

/* Since Linux 6.3. */
#define DECAP_L3_IPV4 (1ULL << 7)
#define DECAP_L3_IPV6 (1ULL << 8)

/* The length of what follows the outer IP header up to the inner one; negative when this is no packet of ours. */
static __always_inline int shim_of(void *l4, void *end, __u8 protocol, __u8 *inner)
{
	struct udphdr *udp = l4;
	__u8 *gue = (void *)(udp + 1);

	*inner = protocol;
	if (protocol == IPPROTO_IPIP || protocol == IPPROTO_IPV6)
		return 0;
	if (protocol != IPPROTO_UDP || (void *)(gue + 4) > end)
		return -1;
	if (udp->dest == bpf_htons(GUE_PORT)) {
		*inner = gue[0] >> 4 == 6 ? IPPROTO_IPV6 : IPPROTO_IPIP;
		return sizeof(*udp);
	}
	*inner = gue[1];
	if (udp->dest != bpf_htons(GLB_PORT) || gue[0] >> 5 || (*inner != IPPROTO_IPIP && *inner != IPPROTO_IPV6))
		return -1;
	return sizeof(*udp) + 4 + 4 * (gue[0] & 0x1f);
}

SEC("tc")
int unwrap(struct __sk_buff *skb)
{
	void *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = (void *)(long)skb->data;
	struct iphdr *ip = (void *)(eth + 1);
	struct ipv6hdr *ip6 = (void *)(eth + 1);
	__u64 decap;
	__u32 outer;
	__u16 type;
	__u8 inner;
	int shim;

	if (bpf_skb_pull_data(skb, 0))
		return TC_ACT_UNSPEC;
	end = (void *)(long)skb->data_end;
	eth = (void *)(long)skb->data;
	ip = (void *)(eth + 1);
	ip6 = (void *)(eth + 1);
	if ((void *)(ip + 1) > end)
		return TC_ACT_UNSPEC;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		outer = sizeof(*ip);
		shim = shim_of(ip + 1, end, ip->protocol, &inner);
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		if ((void *)(ip6 + 1) > end)
			return TC_ACT_UNSPEC;
		outer = sizeof(*ip6);
		shim = shim_of(ip6 + 1, end, ip6->nexthdr, &inner);
	} else {
		return TC_ACT_UNSPEC;
	}
	if (shim < 0)
		return TC_ACT_UNSPEC;
	decap = inner == IPPROTO_IPV6 ? DECAP_L3_IPV6 : DECAP_L3_IPV4;
	type = inner == IPPROTO_IPV6 ? bpf_htons(ETH_P_IPV6) : bpf_htons(ETH_P_IP);
	if (bpf_skb_adjust_room(skb, -(int)(outer + shim), BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO | decap) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN - sizeof(type), &type, sizeof(type), 0))
		return TC_ACT_SHOT;
	return TC_ACT_UNSPEC;
}

char LICENSE[] SEC("license") = "Apache-2.0";
