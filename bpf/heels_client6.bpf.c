// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* HEELS, client role, IPv6. Part of heels_client.bpf.c, whose programs call it for packets and connections of that family.
 */
#include "lib/heels_packet6.h"

/* Whether the option names the client: it holds that, or a tag. */
static __always_inline int client6_is_named(const struct heels_control *c)
{
	return !c->key_count;
}

static __always_inline __u32 client6_length(const struct heels_control *c)
{
	return client6_is_named(c) ? HEELS_SYN6_LENGTH : HEELS_SYN6_TAGGED_LENGTH;
}

static __always_inline void client6_write(struct bpf_sock_ops *ops, const struct heels_control *c, struct heels_flow *f)
{
	struct heels_syn6 o = { .kind = heels_kind, .length = client6_length(c), .exid = heels_exid };
	struct heels_hashed6 h;
	struct heels_end local;
	long failed;
	__u64 tag;

	heels_local(ops, &local);
	if (client6_is_named(c)) {
		__builtin_memcpy(o.words, local.addr, sizeof(o.words));
		failed = bpf_store_hdr_opt(ops, &o, HEELS_SYN6_LENGTH, 0);
	} else {
		heels_syn6_hashed(&h, &local, &f->vip, heels_written(ops));
		tag = heels_tag6(&h, c->keys[0], heels_slot());
		o.words[0] = tag;
		o.words[1] = tag >> 32;
		failed = bpf_store_hdr_opt(ops, &o, HEELS_SYN6_TAGGED_LENGTH, 0);
	}
	if (failed) {
		heels_count(HEELS_OFFER_NO_ROOM);
		return;
	}
	f->tells_port = client6_is_named(c);
	heels_count(HEELS_OFFERED);
}

/* As client_read_answer. There is no room for a tag. */
static __always_inline enum heels_verdict client6_read_answer(struct bpf_sock_ops *ops,
							      const struct heels_client_vip *v, struct heels_flow *f)
{
	struct heels_synack6 o = { .kind = heels_kind, .length = 4, .exid = heels_exid };
	struct heels_end local;
	long n = bpf_load_hdr_opt(ops, &o, sizeof(o), 0);

	if (n == -ENOMSG)
		return HEELS_ANSWER_NONE;
	if (n != sizeof(o) || o.length != sizeof(o))
		return HEELS_ANSWER_MALFORMED;
	heels_local(ops, &local);
	if (!heels_allows6(HEELS_BACKENDS_OF, v->index, o.addr) || heels_same_addr(o.addr, local.addr))
		return HEELS_ANSWER_BACKEND;
	__builtin_memcpy(f->peer.addr, o.addr, sizeof(o.addr));
	f->peer.port = f->vip.port;
	f->peer.zero = 0;
	return HEELS_DIRECT;
}

/* As client_egress_closing. */
static __always_inline int client6_egress_closing(struct __sk_buff *skb)
{
	struct heels_closing *c;
	struct heels_packet6 p;
	struct heels_tuple key;

	if (skb->protocol != bpf_htons(ETH_P_IPV6) || !heels_parse6(skb, ETH_HLEN, &p))
		return HEELS_NEXT;
	key.local = p.from;
	key.remote = p.to;
	c = bpf_map_lookup_elem(&heels_client_closing, &key);
	if (!c || client_is_new(p.flags, &key) || heels_set_dest6(skb, &p, &c->peer))
		return HEELS_NEXT;
	heels_count(HEELS_CLIENT_CLOSING);
	return client_route(skb, 0, key.local.addr, c->peer.addr);
}

/* A SYN that names the client, whose port a balancer may change: the urgent pointer, which means nothing in it, holds that. */
static __always_inline int client6_tell_port(struct __sk_buff *skb, const struct heels_flow *f)
{
	struct heels_packet6 p;

	if (!f->tells_port || skb->protocol != bpf_htons(ETH_P_IPV6) || !heels_parse6(skb, ETH_HLEN, &p))
		return HEELS_NEXT;
	if (p.flags & HEELS_TCP_SYN && heels_set_field6(skb, &p, HEELS_TCP_URGENT, p.urgent, p.from.port))
		heels_count(HEELS_REWRITE_FAILED);
	return HEELS_NEXT;
}

/* A packet of a direct connection that is no IPv4. */
static __always_inline int client6_egress(struct __sk_buff *skb, struct heels_flow *f)
{
	struct heels_packet6 p;

	if (skb->protocol != bpf_htons(ETH_P_IPV6) || !heels_parse6(skb, ETH_HLEN, &p))
		return HEELS_NEXT;
	if (heels_same(&f->peer, &p.to)) {
		client_learn(skb, f, p.from.addr, p.to.addr);
		return HEELS_NEXT;
	}
	/* What a tunnel has wrapped still belongs to the socket. */
	if (!heels_same(&f->vip, &p.to))
		return HEELS_NEXT;
	if (heels_set_dest6(skb, &p, &f->peer))
		return HEELS_NEXT;
	return client_route(skb, f, p.from.addr, f->peer.addr);
}

/* As client_try. */
static long client6_try(__u32 index, void *context)
{
	struct client_search *s = context;
	struct heels_end *vip = bpf_map_lookup_elem(&heels_client_list, &index);
	struct bpf_sock_tuple t = {};
	struct heels_flow *f;
	struct bpf_sock *sk;

	if (!vip)
		return 1;
	if (addr_is_v4(vip->addr))
		return 0;
	heels_tuple6(&t, vip, &s->client);
	sk = bpf_skc_lookup_tcp(s->skb, &t, sizeof(t.ipv6), BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return 0;
	if (sk->state != BPF_TCP_LISTEN && sk->state != BPF_TCP_TIME_WAIT && sk->state != BPF_TCP_NEW_SYN_RECV) {
		struct bpf_sock *full = bpf_sk_fullsock(sk);

		f = full ? bpf_sk_storage_get(&heels_client_flows, full, 0, 0) : 0;
		if (f && f->state == HEELS_FLOW_DIRECT && heels_same(&f->peer, &s->server)) {
			s->vip = *vip;
			s->found = 1;
		}
	}
	bpf_sk_release(sk);
	return s->found ? 1 : 0;
}

static __always_inline int client6_find(struct client_search *s)
{
	struct heels_control *c = heels_control_get();

	if (!c)
		return 0;
	bpf_loop(c->client_vip_count, client6_try, s, 0);
	return s->found;
}

/* As client_ingress_reset. */
static __always_inline int client6_ingress_reset(struct __sk_buff *skb)
{
	struct client_search s = { .skb = skb };
	struct heels_packet6 p;

	if (!heels_parse6(skb, ETH_HLEN, &p) || !(p.flags & HEELS_TCP_RST))
		return HEELS_NEXT;
	s.server = p.from;
	s.client = p.to;
	if (client6_find(&s) && !heels_set_source6(skb, &p, &s.vip))
		heels_count(HEELS_CLIENT_RESET);
	return HEELS_NEXT;
}

/* As client_ingress_icmp. */
static __always_inline int client6_ingress_icmp(struct __sk_buff *skb)
{
	struct client_search s = { .skb = skb };
	const __u32 icmp = ETH_HLEN + sizeof(struct ipv6hdr), quote = icmp + sizeof(struct heels_icmp);
	struct heels_quote6 q;
	__u8 type;

	if (bpf_skb_load_bytes(skb, icmp, &type, sizeof(type)) || type < HEELS_ICMP6_UNREACHABLE ||
	    type > HEELS_ICMP6_PARAMETER)
		return HEELS_NEXT;
	if (bpf_skb_load_bytes(skb, quote, &q, sizeof(q)) || q.ip.version != 6 || q.ip.nexthdr != IPPROTO_TCP)
		return HEELS_NEXT;
	heels_end_set6(&s.server, q.ip.daddr.in6_u.u6_addr32, q.dest);
	heels_end_set6(&s.client, q.ip.saddr.in6_u.u6_addr32, q.source);
	if (!client6_find(&s))
		return HEELS_NEXT;
	if (heels_set_quoted6(skb, icmp, quote + HEELS_IP6_DADDR, &s.server, &s.vip))
		heels_count(HEELS_REWRITE_FAILED);
	else
		heels_count(HEELS_CLIENT_ICMP);
	return HEELS_NEXT;
}

static __always_inline int client6_ingress(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ipv6hdr *ip = data + ETH_HLEN;
	struct tcphdr *tcp = (void *)(ip + 1);

	if (skb->protocol != bpf_htons(ETH_P_IPV6))
		return HEELS_NEXT;
	if ((void *)(ip + 1) > end) {
		if (bpf_skb_pull_data(skb, ETH_HLEN + sizeof(*ip)))
			return HEELS_NEXT;
		data = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
		ip = data + ETH_HLEN;
		tcp = (void *)(ip + 1);
		if ((void *)(ip + 1) > end)
			return HEELS_NEXT;
	}
	if (ip->nexthdr == IPPROTO_ICMPV6)
		return client6_ingress_icmp(skb);
	/* A reset has no extension headers: no application has a say in it. */
	if (ip->nexthdr != IPPROTO_TCP || ((void *)(tcp + 1) <= end && !tcp->rst))
		return HEELS_NEXT;
	return client6_ingress_reset(skb);
}
