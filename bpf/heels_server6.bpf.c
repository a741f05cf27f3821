// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* HEELS, server role, IPv6, and one family inside the other. Part of heels_server.bpf.c, whose programs call it.
 */
#include "lib/heels_packet6.h"

/* As scan_options. */
static __always_inline void scan_options6(struct __sk_buff *skb, const struct heels_packet6 *p, struct syn_scan *s)
{
	struct syn_walk w = { .scan = s,
			      .length = p->length - sizeof(struct tcphdr),
			      .base = p->l4 + sizeof(struct tcphdr),
			      .shorter = HEELS_SYN6_TAGGED_LENGTH };

	s->at = 0;
	s->verdict = HEELS_OK;
	s->is_stamped = 0;
	if (w.length > TCP_OPTIONS_MAX || w.length < 4)
		return;
	if (bpf_skb_load_bytes(skb, w.base, w.options.bytes, w.length))
		return;
	bpf_loop(TCP_OPTIONS_MAX, scan_option, &w, 0);
}

/* A SYN with the option that is being decided. */
struct syn6 {
	const struct heels_syn6 *option;
	const struct syn_scan *scan;
	const struct heels_packet6 *p;
	/* The outer header's addresses have been held against the VIP, which is the packet's destination. */
	int wrapped;
	struct heels_end vip;
	/* Whom it is from; filled in by the decision. */
	struct heels_end client;
};

/* Who the client is, and whether it may say so. */
static __always_inline enum heels_verdict
decide_client6(struct __sk_buff *skb, struct syn6 *s, const struct heels_control *c, const struct heels_server_vip *v)
{
	const struct heels_syn6 *o = s->option;

	s->client = s->p->from;
	if (o->length == HEELS_SYN6_TAGGED_LENGTH) {
		/* Who the client is behind a balancer that rewrites it does not say. */
		if (v->mode == HEELS_REWRITTEN)
			return HEELS_DECLINE_TAG;
		if (c->key_count && heels_is_guessed(v->index, s->client.addr))
			return HEELS_DECLINE_GUESSED;
		if (heels_tag6_holds(c, &s->client, &s->vip, syn_number(skb, s->p->l4), o->words))
			return HEELS_OK;
		if (c->key_count)
			heels_guess(v->index, s->client.addr);
		return HEELS_DECLINE_TAG;
	}
	if (c->key_count)
		return HEELS_DECLINE_TAG;
	if (v->mode != HEELS_REWRITTEN)
		return heels_same_addr(o->words, s->client.addr) ? HEELS_OK : HEELS_DECLINE_CLIENT;
	heels_end_set6(&s->client, o->words, s->p->urgent);
	return s->client.port ? HEELS_OK : HEELS_DECLINE_PORT;
}

/* As is_same_vip. */
static __always_inline int is_same_vip6(const struct syn6 *s, const struct heels_server_vip *v)
{
	struct heels_tuple key = { .local = v->local, .remote = s->client };
	struct heels_closing *c = bpf_map_lookup_elem(&heels_server_closing, &key);

	return c && heels_same(&c->vip, &s->vip);
}

/* As decide_socket. */
static __always_inline enum heels_verdict decide_socket6(struct __sk_buff *skb, const struct syn6 *s,
							 const struct heels_server_vip *v)
{
	enum heels_verdict verdict = HEELS_DECLINE_COLLISION;
	struct bpf_sock_tuple t;
	struct bpf_sock *sk;

	heels_tuple6(&t, &s->client, &v->local);
	sk = bpf_skc_lookup_tcp(skb, &t, sizeof(t.ipv6), BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return HEELS_DECLINE_NO_LISTENER;
	if (sk->state == BPF_TCP_LISTEN) {
		verdict = heels_is_ready(sk) ? HEELS_OK : HEELS_DECLINE_LISTENER;
	} else if (sk->state == BPF_TCP_TIME_WAIT) {
		if (is_same_vip6(s, v) && heels_makes_way(sk, syn_number(skb, s->p->l4), syn_stamp(s->scan)))
			verdict = HEELS_OK;
	} else if (is_own_syn(skb, s->p->l4, sk, &s->vip)) {
		verdict = HEELS_OK;
	}
	bpf_sk_release(sk);
	return verdict;
}

static __always_inline enum heels_verdict decide6(struct __sk_buff *skb, struct syn6 *s,
						  const struct heels_server_vip *v)
{
	struct heels_control *c = heels_control_get();
	enum heels_verdict verdict;

	if (!v || !c)
		return HEELS_DECLINE_VIP;
	if (c->flags & HEELS_SERVER_DRAINING)
		return HEELS_DECLINE_DRAINING;
	if (c->flags & HEELS_INCOMPLETE)
		return HEELS_DECLINE_INTERFACE;
	if (s->p->is_extended)
		return HEELS_DECLINE_EXTENSION;
	if (v->mode == HEELS_ENCAPSULATED ? !s->wrapped : s->wrapped)
		return HEELS_DECLINE_PATH;
	if (v->mode == HEELS_REWRITTEN && !heels_allows6(HEELS_BALANCERS, v->index, s->p->from.addr))
		return HEELS_DECLINE_BALANCER;
	verdict = decide_client6(skb, s, c, v);
	if (verdict)
		return verdict;
	if (heels_same_addr(s->client.addr, v->local.addr) || !heels_allows6(HEELS_CLIENTS, v->index, s->client.addr))
		return HEELS_DECLINE_CLIENT;
	return decide_socket6(skb, s, v);
}

/* The VIP that a SYN is for. Without an outer header the destination is our own. */
static __always_inline struct heels_server_vip *syn6_vip(struct syn6 *s)
{
	struct heels_end *vip;

	s->vip = s->p->to;
	if (!s->wrapped) {
		vip = bpf_map_lookup_elem(&heels_server_own, &s->p->to);
		if (!vip)
			return 0;
		s->vip = *vip;
	}
	return bpf_map_lookup_elem(&heels_server_vips, &s->vip);
}

/* As mark_option. The client's address has done its duty. */
static __always_inline int mark_option6(struct __sk_buff *skb, const struct syn6 *s, const struct heels_server_vip *v,
					__u32 at)
{
	struct heels_control *c = heels_control_get();
	__u32 fresh[4] = {}, words = at + __builtin_offsetof(struct heels_syn6, words);
	__u32 check = s->p->l4 + HEELS_TCP_CHECK;
	__u32 *old = (__u32 *)s->option->words;

	if (!c)
		return -1;
	fresh[0] = heels_mark6(c->secret, &s->client, &s->vip, v->index);
	fresh[1] = v->index;
	if (s->option->length == HEELS_SYN6_TAGGED_LENGTH)
		return bpf_l4_csum_replace(skb, check, 0, bpf_csum_diff(old, 8, fresh, 8, 0), 0) ||
		       bpf_skb_store_bytes(skb, words, fresh, 8, 0);
	return bpf_l4_csum_replace(skb, check, 0, bpf_csum_diff(old, 16, fresh, 16, 0), 0) ||
	       bpf_skb_store_bytes(skb, words, fresh, 16, 0);
}

/* As take_syn. */
static __always_inline int take_syn6(struct __sk_buff *skb, const struct heels_packet6 *p, int wrapped)
{
	struct syn_scan scan;
	struct syn6 s = { .option = (void *)&scan.option, .scan = &scan, .p = p, .wrapped = wrapped };
	struct heels_server_vip *v;
	enum heels_verdict verdict;

	scan_options6(skb, p, &scan);
	if (!scan.at && scan.verdict != HEELS_DECLINE_MALFORMED)
		return 0;
	v = syn6_vip(&s);
	verdict = scan.verdict ? scan.verdict : decide6(skb, &s, v);
	if (verdict || !v) {
		heels_count(verdict);
		return 0;
	}
	if (mark_option6(skb, &s, v, scan.at) || heels_set_field6(skb, p, HEELS_TCP_URGENT, p->urgent, 0)) {
		heels_count(HEELS_REWRITE_FAILED);
		return 1;
	}
	if (!heels_set_source6(skb, p, &s.client) && !heels_set_dest6(skb, p, &v->local))
		heels_count(HEELS_COMMITTED);
	return 1;
}

static __always_inline __u32 state6(struct __sk_buff *skb, const struct heels_end *from, const struct heels_end *to)
{
	struct bpf_sock_tuple t;

	heels_tuple6(&t, from, to);
	return state_at(skb, &t, sizeof(t.ipv6));
}

/* As meet_plain_syn. */
static __noinline int meet_plain_syn6(struct __sk_buff *skb)
{
	struct heels_packet6 p;
	struct heels_tuple key;

	if (!heels_parse6(skb, ETH_HLEN, &p))
		return 0;
	key.local = p.to;
	key.remote = p.from;
	if (bpf_map_lookup_elem(&heels_server_closing, &key) && state6(skb, &p.from, &p.to) == BPF_TCP_TIME_WAIT)
		bpf_map_delete_elem(&heels_server_closing, &key);
	return 0;
}

/* As take_detour. */
static __always_inline void take_detour6(struct __sk_buff *skb, const struct heels_packet6 *p,
					 const struct heels_server_vip *v)
{
	__u32 state = state6(skb, &p->from, &v->local);

	if (!state || state == BPF_TCP_LISTEN || is_live(state6(skb, &p->from, &p->to)))
		return;
	if (!heels_set_dest6(skb, p, &v->local))
		heels_count(HEELS_DECAPSULATED_DETOUR);
}

/* As is_quote_of_vip. */
static __always_inline int is_quote_of_vip6(struct __sk_buff *skb, __u32 quote, const struct heels_end *vip)
{
	struct heels_end client = {};

	if (bpf_skb_load_bytes(skb, quote + HEELS_IP6_DADDR, client.addr, sizeof(client.addr)) ||
	    bpf_skb_load_bytes(skb, quote + sizeof(struct ipv6hdr) + HEELS_TCP_DEST, &client.port, sizeof(client.port)))
		return 0;
	return is_live(state6(skb, &client, vip));
}

/* As take_icmp. The checksum is over the destination, too. */
static __always_inline void take_icmp6(struct __sk_buff *skb, const struct heels_server_vip *v,
				       const struct heels_end *vip)
{
	const __u32 icmp = ETH_HLEN + sizeof(struct ipv6hdr), quote = icmp + sizeof(struct heels_icmp);

	if (is_quote_of_vip6(skb, quote, vip))
		return;
	if (heels_set_quoted6(skb, icmp, quote + HEELS_IP6_SADDR, vip, &v->local) ||
	    heels_set_addr6(skb, icmp + HEELS_ICMP_CHECK, ETH_HLEN + HEELS_IP6_DADDR, vip, &v->local)) {
		heels_count(HEELS_REWRITE_FAILED);
		return;
	}
	heels_count(HEELS_SERVER_ICMP);
}

/* As inner_vip. */
static __always_inline struct heels_server_vip *inner_vip6(struct __sk_buff *skb, __u32 l3, struct heels_end *vip,
							   __u8 *protocol)
{
	__u32 l4 = l3 + sizeof(struct ipv6hdr);
	struct heels_quote6 q;
	__u8 type;

	/* Of TCP, its ports come along. */
	if (bpf_skb_load_bytes(skb, l3, &q, sizeof(q)) || q.ip.version != 6)
		return 0;
	*protocol = q.ip.nexthdr;
	if (q.ip.nexthdr == IPPROTO_TCP) {
		heels_end_set6(vip, q.ip.daddr.in6_u.u6_addr32, q.dest);
		return bpf_map_lookup_elem(&heels_server_vips, vip);
	}
	if (q.ip.nexthdr != IPPROTO_ICMPV6 || bpf_skb_load_bytes(skb, l4, &type, sizeof(type)) ||
	    (type != HEELS_ICMP6_UNREACHABLE && type != HEELS_ICMP6_TOO_BIG))
		return 0;
	heels_end_set6(vip, q.ip.daddr.in6_u.u6_addr32, 0);
	if (bpf_skb_load_bytes(skb, l4 + sizeof(struct heels_icmp), &q, sizeof(q)) || q.ip.nexthdr != IPPROTO_TCP ||
	    !heels_same_addr(q.ip.saddr.in6_u.u6_addr32, vip->addr))
		return 0;
	vip->port = q.source;
	return bpf_map_lookup_elem(&heels_server_vips, vip);
}

/* Takes outer headers of so many bytes away: the kernel's note of the protocol and the link layer's may have been the other family's. */
static __always_inline int unwrap(struct __sk_buff *skb, __u32 length, __u64 decap, __u16 protocol)
{
	__u16 type = bpf_htons(protocol);

	if (bpf_skb_adjust_room(skb, -(__s32)length, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO | decap) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN - sizeof(type), &type, sizeof(type), 0)) {
		heels_count(HEELS_DECAPSULATE_FAILED);
		return 0;
	}
	heels_count(HEELS_DECAPSULATED);
	return 1;
}

/* An outer header of either family. */
struct outer {
	/* Ports are 0. */
	struct heels_end from;
	struct heels_end to;
	/* With what follows it, up to the inner header, in bytes. */
	__u32 length;
	/* Of the inner packet: IPPROTO_IPIP or IPPROTO_IPV6. */
	__u8 inner;
};

static __always_inline int read_outer(struct __sk_buff *skb, struct outer *o)
{
	struct ipv6hdr ip6;
	struct iphdr ip;
	__u8 protocol;
	int shim;

	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)))
			return 0;
		heels_end_set4(&o->from, ip.saddr, 0);
		heels_end_set4(&o->to, ip.daddr, 0);
		o->length = ip.ihl * 4;
		protocol = ip.protocol;
	} else {
		if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip6, sizeof(ip6)))
			return 0;
		heels_end_set6(&o->from, ip6.saddr.in6_u.u6_addr32, 0);
		heels_end_set6(&o->to, ip6.daddr.in6_u.u6_addr32, 0);
		o->length = sizeof(ip6);
		protocol = ip6.nexthdr;
	}
	shim = shim_length(skb, ETH_HLEN + o->length, protocol, &o->inner);
	o->length += shim;
	return shim >= 0;
}

/* Whether an outer header is from a balancer of the VIP, and to us. Other tunnels are left alone. */
static __always_inline int is_from_balancer(const struct heels_server_vip *v, const struct outer *o)
{
	if (v->mode != HEELS_ENCAPSULATED ||
	    (!heels_same_addr(o->to.addr, v->local.addr) && !heels_same_addr(o->to.addr, v->other)))
		return 0;
	if (heels_allows6(HEELS_BALANCERS, v->index, o->from.addr))
		return 1;
	heels_count(HEELS_DECAPSULATE_REFUSED);
	return 0;
}

static __always_inline int unwrap_inner6(struct __sk_buff *skb, const struct outer *o)
{
	struct heels_server_vip *v;
	struct heels_end vip;
	__u8 protocol = 0;

	v = inner_vip6(skb, ETH_HLEN + o->length, &vip, &protocol);
	if (!v || !is_from_balancer(v, o) || !unwrap(skb, o->length, HEELS_DECAP_L3_IPV6, ETH_P_IPV6))
		return 0;
	if (protocol == IPPROTO_TCP)
		return 1;
	take_icmp6(skb, v, &vip);
	return 0;
}

static __always_inline int unwrap_inner4(struct __sk_buff *skb, const struct outer *o)
{
	struct heels_server_vip *v;
	struct heels_end vip;
	struct iphdr ip;

	if (bpf_skb_load_bytes(skb, ETH_HLEN + o->length, &ip, sizeof(ip)))
		return 0;
	v = inner_vip(skb, ETH_HLEN + o->length, &ip, &vip);
	if (!v || !is_from_balancer(v, o) || !unwrap(skb, o->length, HEELS_DECAP_L3_IPV4, ETH_P_IP))
		return 0;
	if (ip.protocol == IPPROTO_TCP)
		return 1;
	take_icmp(skb, ETH_HLEN + sizeof(ip), v, heels_ip(&vip), vip.port);
	return 0;
}

/* A packet inside another, one of them IPv6 at least. Returns the inner one's family, as an outer header has it, when it is TCP for a VIP and has been
 * unwrapped; otherwise 0. The steps are functions of their own because all of them together need more stack than there is. */
static __noinline int unwrap6(struct __sk_buff *skb)
{
	struct outer o;

	if (!read_outer(skb, &o))
		return 0;
	if (o.inner == IPPROTO_IPV6)
		return unwrap_inner6(skb, &o) ? IPPROTO_IPV6 : 0;
	return unwrap_inner4(skb, &o) ? IPPROTO_IPIP : 0;
}

/* TCP over IPv6 that has reached us, perhaps inside another packet. True when it is a SYN that we have no part in. */
static __noinline int take_tcp6(struct __sk_buff *skb, int wrapped)
{
	struct heels_server_vip *v;
	struct heels_packet6 p;

	if (!heels_parse6(skb, ETH_HLEN, &p))
		return 0;
	if ((p.flags & (HEELS_TCP_SYN | HEELS_TCP_ACK)) == HEELS_TCP_SYN)
		return !take_syn6(skb, &p, wrapped);
	v = wrapped ? bpf_map_lookup_elem(&heels_server_vips, &p.to) : 0;
	if (v)
		take_detour6(skb, &p, v);
	return 0;
}

/* TCP over IPv4 that was inside an IPv6 packet. */
static __noinline int take_tcp4(struct __sk_buff *skb)
{
	struct arrival a = { .is_checked = 1 };
	struct heels_server_vip *v;
	struct heels_packet p;
	struct heels_end vip;

	if (!heels_parse(skb, ETH_HLEN, &p))
		return 0;
	heels_end_set4(&vip, p.daddr, p.dest);
	v = bpf_map_lookup_elem(&heels_server_vips, &vip);
	if (!v)
		return 0;
	a.outer = heels_ip(&v->local);
	take_inner(skb, &p, v, &a);
	return 0;
}

static __always_inline void take_wrapped6(struct __sk_buff *skb)
{
	int inner = unwrap6(skb);

	if (inner == IPPROTO_IPV6)
		take_tcp6(skb, 1);
	else if (inner == IPPROTO_IPIP)
		take_tcp4(skb);
}

static __always_inline int server6_ingress(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ipv6hdr *ip = data + ETH_HLEN;
	struct tcphdr *tcp = (void *)(ip + 1);
	__u8 next;

	if (skb->protocol != bpf_htons(ETH_P_IPV6))
		return HEELS_NEXT;
	/* Nearly every packet ends here: a segment that is no SYN. */
	if ((void *)(tcp + 1) <= end && ip->nexthdr == IPPROTO_TCP && !tcp->syn)
		return HEELS_NEXT;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + __builtin_offsetof(struct ipv6hdr, nexthdr), &next, sizeof(next)))
		return HEELS_NEXT;
	if (next != IPPROTO_TCP && next != IPPROTO_HOPOPTS && next != IPPROTO_DSTOPTS)
		take_wrapped6(skb);
	else if (take_tcp6(skb, 0))
		meet_plain_syn6(skb);
	return HEELS_NEXT;
}

/* The VIP of the connection whose SYN this host has committed to. */
static __always_inline int server6_vip(struct bpf_sock_ops *ops, struct heels_end *vip)
{
	struct heels_syn6 o = { .kind = heels_kind, .length = 4, .exid = heels_exid };
	struct heels_control *c = heels_control_get();
	struct heels_end client, *known;
	__u32 index;

	if (!c || bpf_load_hdr_opt(ops, &o, sizeof(o), BPF_LOAD_HDR_OPT_TCP_SYN) < HEELS_SYN6_TAGGED_LENGTH)
		return 0;
	if (o.length != HEELS_SYN6_LENGTH && o.length != HEELS_SYN6_TAGGED_LENGTH)
		return 0;
	index = o.words[1];
	known = bpf_map_lookup_elem(&heels_server_list, &index);
	if (!known)
		return 0;
	*vip = *known;
	heels_remote(ops, &client);
	return o.words[0] == heels_mark6(c->secret, &client, vip, index);
}

static __always_inline void server6_reserve(struct bpf_sock_ops *ops)
{
	struct heels_end vip;

	if (server6_vip(ops, &vip) && bpf_reserve_hdr_opt(ops, HEELS_SYNACK6_LENGTH, 0))
		heels_count(HEELS_ANSWER_NO_ROOM);
}

/* As server_write. */
static __always_inline void server6_write(struct bpf_sock_ops *ops)
{
	struct heels_synack6 answer = { .kind = heels_kind, .length = sizeof(answer), .exid = heels_exid };
	struct heels_end vip;

	if (!server6_vip(ops, &vip))
		return;
	__builtin_memcpy(answer.addr, vip.addr, sizeof(answer.addr));
	if (bpf_store_hdr_opt(ops, &answer, sizeof(answer), 0)) {
		heels_count(HEELS_ANSWER_NO_ROOM);
		return;
	}
	if (ops->args[0] != BPF_WRITE_HDR_TCP_SYNACK_COOKIE) {
		heels_count(HEELS_ANSWERED);
		return;
	}
	remember_cookie(ops, &vip);
}

/* As server_egress_synack. */
static __always_inline int server6_egress_synack(struct __sk_buff *skb, const struct heels_packet6 *p,
						 const struct heels_tuple *key)
{
	__u32 length = p->length - sizeof(struct tcphdr), at = 0;
	struct syn_options o = {};
	struct heels_server_vip *v;
	struct heels_end vip = { .port = p->from.port };

	if (length < HEELS_SYNACK6_LENGTH || length > TCP_OPTIONS_MAX ||
	    bpf_skb_load_bytes(skb, p->l4 + sizeof(struct tcphdr), o.bytes, length))
		return server_plain_synack(key);
	/* The kernel puts options of programs on a multiple of 4. */
	for (__u32 i = 0; i <= TCP_OPTIONS_MAX - HEELS_SYNACK6_LENGTH; i += 4)
		if (o.bytes[i] == heels_kind && o.bytes[i + 1] == HEELS_SYNACK6_LENGTH &&
		    *(__u16 *)&o.bytes[i + 2] == heels_exid && i + HEELS_SYNACK6_LENGTH <= length) {
			__builtin_memcpy(vip.addr, &o.bytes[i + 4], sizeof(vip.addr));
			at = p->l4 + sizeof(struct tcphdr) + i + __builtin_offsetof(struct heels_synack6, addr);
			break;
		}
	if (!at)
		return server_plain_synack(key);
	v = bpf_map_lookup_elem(&heels_server_vips, &vip);
	if (!v || !heels_same(&v->local, &p->from)) {
		heels_count(HEELS_ANSWER_UNKNOWN_VIP);
		return HEELS_NEXT;
	}
	if (bpf_l4_csum_replace(
		    skb, p->l4 + HEELS_TCP_CHECK, 0,
		    bpf_csum_diff(heels_words(&vip), sizeof(vip.addr), heels_words(&p->from), sizeof(vip.addr), 0),
		    0) ||
	    bpf_skb_store_bytes(skb, at, p->from.addr, sizeof(vip.addr), 0)) {
		heels_count(HEELS_REWRITE_FAILED);
		return HEELS_NEXT;
	}
	heels_set_source6(skb, p, &vip);
	return HEELS_NEXT;
}

/* As server_egress_other. */
static __always_inline int server6_egress_other(struct __sk_buff *skb)
{
	struct heels_closing *c;
	struct heels_packet6 p;
	struct heels_tuple key;

	if (skb->protocol != bpf_htons(ETH_P_IPV6) || !heels_parse6(skb, ETH_HLEN, &p))
		return HEELS_NEXT;
	key.local = p.from;
	key.remote = p.to;
	if ((p.flags & (HEELS_TCP_SYN | HEELS_TCP_ACK)) == (HEELS_TCP_SYN | HEELS_TCP_ACK))
		return server6_egress_synack(skb, &p, &key);
	c = bpf_map_lookup_elem(&heels_server_closing, &key);
	if (c && !heels_set_source6(skb, &p, &c->vip))
		heels_count(HEELS_SERVER_CLOSING);
	return HEELS_NEXT;
}

/* A packet of a direct connection that is no IPv4. */
static __always_inline int server6_egress(struct __sk_buff *skb, const struct heels_flow *f)
{
	struct heels_packet6 p;

	if (skb->protocol != bpf_htons(ETH_P_IPV6) || !heels_parse6(skb, ETH_HLEN, &p) ||
	    !heels_same(&f->peer, &p.from))
		return HEELS_NEXT;
	heels_set_source6(skb, &p, &f->vip);
	return HEELS_NEXT;
}
