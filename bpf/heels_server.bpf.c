// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* HEELS, server role. tc at ingress takes SYNs that a balancer delivers, decides, and makes them the client's own; sock_ops answers with the option and
 * remembers the VIP; tc at egress puts the VIP in place of the server's address.
 *
 * After a SYN has been committed to, the connection depends on the client's answer. So everything is decided there: a SYN that is declined goes on as it
 * came, and the connection takes the balancer's own path.
 */
#include <linux/errno.h>
#include <linux/udp.h>

#include <bpf/bpf_core_read.h>

#include "lib/heels6.h"
#include "lib/heels_confirm.h"
#include "lib/heels_packet.h"

#define TCP_SAVE_SYN 27
/* bpf_setsockopt() knows it since 6.12. */
#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008

#define TCP_OPTION_END 0
#define TCP_OPTION_NOP 1
#define TCP_OPTION_TIMESTAMPS 8
#define TCP_TIMESTAMPS_LENGTH 10
#define TCP_OPTION_MD5 19
#define TCP_OPTION_AO 29
#define TCP_OPTION_MPTCP 30
#define TCP_OPTION_FAST_OPEN 34
#define TCP_OPTIONS_MAX 40

/* UDP ports of GUE: Katran's and GLB's. */
#define GUE_PORT_KATRAN 6080
#define GUE_PORT_GLB 19523

/* heels_server6.bpf.c. */
static __always_inline void take_wrapped6(struct __sk_buff *skb);
static __always_inline int server6_ingress(struct __sk_buff *skb);
static __always_inline int server6_vip(struct bpf_sock_ops *ops, struct heels_end *vip);
static __always_inline void server6_reserve(struct bpf_sock_ops *ops);
static __always_inline void server6_write(struct bpf_sock_ops *ops);
static __always_inline int server6_egress_other(struct __sk_buff *skb);
static __always_inline int server6_egress(struct __sk_buff *skb, const struct heels_flow *f);

/* Where a SYN came from. */
struct arrival {
	/* The outer source of an encapsulated SYN, its own source otherwise. */
	__u32 from;
	/* The outer destination of an encapsulated SYN, 0 otherwise. */
	__u32 outer;
	/* There was an outer header, and its source has been held against the VIP. */
	__u32 is_checked;
};

/* A SYN's options. */
struct syn_scan {
	struct heels_syn option;
	/* Offset of the option behind the link layer's header, 0 when there is none. */
	__u32 at;
	/* HEELS_OK, or why the SYN cannot be taken. */
	enum heels_verdict verdict;
	/* The SYN's timestamp, if it has one. */
	__u32 stamp;
	__u32 is_stamped;
	/* How the SYN is taken. */
	enum heels_tag_use use;
};

/* NULL when there is none. */
static __always_inline const __u32 *syn_stamp(const struct syn_scan *s)
{
	return s->is_stamped ? &s->stamp : 0;
}

/* More than there can be, so that an option which begins at the end can be read. */
struct syn_options {
	__u8 bytes[TCP_OPTIONS_MAX + HEELS_SYN_LENGTH];
};

struct syn_walk {
	struct syn_options options;
	struct syn_scan *scan;
	/* Of the options, and where the next one begins, in bytes. */
	__u32 length;
	__u32 next;
	/* Offset of the first option behind the link layer's header. */
	__u32 base;
	/* Another length of the option that is as good; 0: none. */
	__u32 shorter;
};

static __always_inline void scan_ours(struct syn_walk *w, __u32 i, __u32 size)
{
	struct syn_scan *s = w->scan;
	__u32 at = w->base + i;

	/* Twice, or at an odd place, where checksums would have to be turned: no client of ours does that. */
	if (s->at || (size != HEELS_SYN_LENGTH && size != w->shorter) || at & 1) {
		s->verdict = HEELS_DECLINE_MALFORMED;
		return;
	}
	__builtin_memcpy(&s->option, &w->options.bytes[i], sizeof(s->option));
	s->at = at;
}

static __always_inline void scan_stamp(struct syn_walk *w, __u32 i)
{
	const __u8 *value = &w->options.bytes[i + 2];

	w->scan->stamp = (__u32)value[0] << 24 | (__u32)value[1] << 16 | (__u32)value[2] << 8 | value[3];
	w->scan->is_stamped = 1;
}

/* Before it had a number, Fast Open was an experiment, with the ExID 0xf989 (RFC 7413, appendix). */
static __always_inline int is_old_fast_open(const struct syn_walk *w, __u32 i, __u8 kind, __u8 size)
{
	return kind >= 253 && kind <= 254 && size >= 4 && w->options.bytes[i + 2] == 0xf9 &&
	       w->options.bytes[i + 3] == 0x89;
}

/* One option. What cannot be combined with HEELS is noted whatever its place. */
static long scan_option(__u32 n, void *context)
{
	struct syn_walk *w = context;
	struct syn_scan *s = w->scan;
	__u32 i = w->next;
	__u8 kind, size;

	if (i >= w->length || i >= TCP_OPTIONS_MAX)
		return 1;
	kind = w->options.bytes[i];
	if (kind == TCP_OPTION_END)
		return 1;
	if (kind == TCP_OPTION_NOP) {
		w->next = i + 1;
		return 0;
	}
	size = w->options.bytes[i + 1];
	if (size < 2 || i + size > w->length)
		return 1;
	w->next = i + size;
	if (kind == heels_kind && size >= 4 && *(__u16 *)&w->options.bytes[i + 2] == heels_exid)
		scan_ours(w, i, size);
	else if (kind == TCP_OPTION_TIMESTAMPS && size == TCP_TIMESTAMPS_LENGTH)
		scan_stamp(w, i);
	else if (kind == TCP_OPTION_FAST_OPEN || is_old_fast_open(w, i, kind, size))
		s->verdict = HEELS_DECLINE_FAST_OPEN;
	else if (kind == TCP_OPTION_MPTCP)
		s->verdict = HEELS_DECLINE_MPTCP;
	else if (kind == TCP_OPTION_MD5 || kind == TCP_OPTION_AO)
		s->verdict = HEELS_DECLINE_SIGNED;
	return 0;
}

/* Reads the options of a SYN. */
static __always_inline void scan_options(struct __sk_buff *skb, const struct heels_packet *p, struct syn_scan *s)
{
	struct syn_walk w = { .scan = s,
			      .length = p->length - sizeof(struct tcphdr),
			      .base = p->l4 + sizeof(struct tcphdr) };

	s->at = 0;
	s->verdict = HEELS_OK;
	s->is_stamped = 0;
	if (w.length > TCP_OPTIONS_MAX || w.length < 4)
		return;
	if (bpf_skb_load_bytes(skb, w.base, w.options.bytes, w.length))
		return;
	bpf_loop(TCP_OPTIONS_MAX, scan_option, &w, 0);
}

/* Whether the SYN took the way that the VIP's mode says. */
static __always_inline enum heels_verdict decide_path(const struct heels_packet *p, const struct heels_syn *o,
						      const struct heels_server_vip *v, const struct arrival *a)
{
	__u32 own = heels_ip(&v->local);

	if (v->mode == HEELS_ENCAPSULATED) {
		if (a->outer != own || p->daddr != o->vip || p->dest != o->vip_port)
			return HEELS_DECLINE_PATH;
		if (p->saddr != o->client || p->source != o->client_port)
			return HEELS_DECLINE_CLIENT;
	} else {
		if (a->outer || p->daddr != own || p->dest != v->local.port)
			return HEELS_DECLINE_PATH;
	}
	/* The balancer cannot be seen: the client may only speak for itself. */
	if (v->mode == HEELS_PRESERVED)
		return p->saddr == o->client && p->source == o->client_port ? HEELS_OK : HEELS_DECLINE_CLIENT;
	return a->is_checked || heels_allows(HEELS_BALANCERS, v->index, a->from) ? HEELS_OK : HEELS_DECLINE_BALANCER;
}

/* Whether the VIP of an earlier connection of the same two ends, which is in TIME_WAIT, is this one. */
static __always_inline int is_same_vip(const struct heels_syn *o, const struct heels_server_vip *v)
{
	struct heels_closing *c;
	struct heels_tuple key;

	heels_tuple_set(&key, heels_ip(&v->local), v->local.port, o->client, o->client_port);
	c = bpf_map_lookup_elem(&heels_server_closing, &key);
	return c && heels_end_is(&c->vip, o->vip, o->vip_port);
}

static __always_inline __u32 syn_number(struct __sk_buff *skb, __u32 l4)
{
	__u32 seq = 0;

	bpf_skb_load_bytes(skb, l4 + HEELS_TCP_SEQ, &seq, sizeof(seq));
	return bpf_ntohl(seq);
}

/* Whether the SYN is the one that this connection began with: it was sent again, and one of the two came late. As in any TCP it belongs to the
 * connection. Left to the balancer it would begin another, which nobody wants, and which a reset ends.
 */
static __always_inline int is_own_syn(struct __sk_buff *skb, __u32 l4, struct bpf_sock *sk, const struct heels_end *vip)
{
	struct tcp_request_sock *half;
	struct heels_flow *f;
	struct bpf_sock *full;
	__u32 seq = syn_number(skb, l4);

	if (sk->state == BPF_TCP_NEW_SYN_RECV) {
		/* bpf_skc_to_tcp_request_sock() knows none whose listener speaks MPTCP, as Go's do. */
		half = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_request_sock));
		return half->rcv_isn == seq;
	}
	full = bpf_sk_fullsock(sk);
	f = full ? bpf_sk_storage_get(&heels_server_flows, full, 0, 0) : 0;
	return f && f->syn == seq && heels_same(&f->vip, vip);
}

/* Whether the SYN, when it has been rewritten, comes to a listener that can finish the handshake, and not to another connection. */
static __always_inline enum heels_verdict decide_socket(struct __sk_buff *skb, const struct heels_packet *p,
							const struct syn_scan *s, const struct heels_server_vip *v)
{
	const struct heels_syn *o = &s->option;
	struct bpf_sock_tuple t = {
		.ipv4 = { .saddr = o->client,
			  .sport = o->client_port,
			  .daddr = heels_ip(&v->local),
			  .dport = v->local.port },
	};
	struct bpf_sock *sk = bpf_skc_lookup_tcp(skb, &t, sizeof(t.ipv4), BPF_F_CURRENT_NETNS, 0);
	enum heels_verdict verdict = HEELS_DECLINE_COLLISION;
	struct heels_end vip;

	heels_end_set4(&vip, o->vip, o->vip_port);
	if (!sk)
		return HEELS_DECLINE_NO_LISTENER;
	if (sk->state == BPF_TCP_LISTEN) {
		verdict = heels_is_ready(sk) ? HEELS_OK : HEELS_DECLINE_LISTENER;
	} else if (sk->state == BPF_TCP_TIME_WAIT) {
		if (is_same_vip(o, v) && heels_makes_way(sk, syn_number(skb, p->l4), syn_stamp(s)))
			verdict = HEELS_OK;
	} else if (is_own_syn(skb, p->l4, sk, &vip)) {
		verdict = HEELS_OK;
	}
	bpf_sk_release(sk);
	return verdict;
}

/* Whether the SYN is signed as it should be. Where there is no key nothing can be found by trying. */
static __always_inline enum heels_verdict decide_tag(const struct heels_control *c, const struct heels_syn *o,
						     const struct heels_server_vip *v, __u32 number)
{
	__u8 client[16];

	addr_set4(client, o->client);
	if (c->key_count && heels_is_guessed(v->index, client))
		return HEELS_DECLINE_GUESSED;
	if (heels_syn_tag_holds(c, o, number))
		return HEELS_OK;
	if (c->key_count)
		heels_guess(v->index, client);
	return HEELS_DECLINE_TAG;
}

/* Everything that can be known of a SYN with the option, the cheap and the telling first. */
static __always_inline enum heels_verdict decide(struct __sk_buff *skb, const struct heels_packet *p,
						 struct syn_scan *s, const struct heels_server_vip *v,
						 const struct arrival *a)
{
	const struct heels_syn *o = &s->option;
	struct heels_control *c = heels_control_get();
	enum heels_verdict verdict;

	if (s->verdict || !v || !c)
		return s->verdict ? s->verdict : HEELS_DECLINE_VIP;
	if (c->flags & HEELS_SERVER_DRAINING)
		return HEELS_DECLINE_DRAINING;
	if (c->flags & HEELS_INCOMPLETE)
		return HEELS_DECLINE_INTERFACE;
	verdict = decide_path(p, o, v, a);
	if (verdict)
		return verdict;
	/* Its SYN would be a martian: it cannot come from outside with our own address. */
	if (o->client == heels_ip(&v->local) || !heels_allows(HEELS_CLIENTS, v->index, o->client))
		return HEELS_DECLINE_CLIENT;
	verdict = decide_tag(c, o, v, syn_number(skb, p->l4));
	if (verdict)
		return verdict;
	if (confirm_is_held(p, v, o))
		return HEELS_DECLINE_COLLISION;
	/* What has to go by a way that another connection has taken goes around it from the beginning. */
	s->use = v->confirm && !confirm_is_forgotten(skb, p) ? HEELS_TAG_CONFIRM : HEELS_TAG_COMMIT;
	if (s->use == HEELS_TAG_COMMIT)
		return decide_socket(skb, p, s, v);
	if (c->key_count && confirm_is_replayed(p, o, syn_number(skb, p->l4)))
		return HEELS_DECLINE_REPLAYED;
	verdict = confirm_decide(skb, p, o, v, syn_stamp(s));
	if (c->key_count && !verdict)
		confirm_see(p, o, syn_number(skb, p->l4));
	return verdict;
}

/* Marks the option as committed to, so that sock_ops can tell it from one that came past us. */
static __always_inline int mark_option(struct __sk_buff *skb, const struct heels_packet *p, const struct syn_scan *s)
{
	struct heels_control *c = heels_control_get();
	__u32 at = s->at + __builtin_offsetof(struct heels_syn, tag), mark;

	if (!c)
		return -1;
	mark = heels_syn_mark(c->secret, &s->option, s->use);
	if (bpf_l4_csum_replace(skb, p->l4 + HEELS_TCP_CHECK, s->option.tag, mark, sizeof(mark)))
		return -1;
	return bpf_skb_store_bytes(skb, at, &mark, sizeof(mark), 0);
}

/* A SYN: makes it the client's own, to our own address, if all is well. False when the connection takes the balancer's own path, or has none. */
static __always_inline int take_syn(struct __sk_buff *skb, const struct heels_packet *p, const struct arrival *a)
{
	struct heels_server_vip *v;
	struct heels_end vip;
	struct syn_scan s;
	enum heels_verdict verdict;

	scan_options(skb, p, &s);
	if (!s.at && s.verdict != HEELS_DECLINE_MALFORMED)
		return 0;
	heels_end_set4(&vip, s.option.vip, s.option.vip_port);
	v = bpf_map_lookup_elem(&heels_server_vips, &vip);
	verdict = decide(skb, p, &s, v, a);
	if (verdict || !v) {
		heels_count(verdict);
		return 0;
	}
	if (mark_option(skb, p, &s)) {
		heels_count(HEELS_REWRITE_FAILED);
		return 1;
	}
	if (s.use == HEELS_TAG_CONFIRM) {
		heels_count(HEELS_CONFIRM_TAKEN);
		return 1;
	}
	if (!heels_set_source(skb, p, s.option.client, s.option.client_port) &&
	    !heels_set_dest(skb, p, heels_ip(&v->local), v->local.port))
		heels_count(HEELS_COMMITTED);
	return 1;
}

/* The state of the socket that a packet comes to; 0 when there is none. */
static __always_inline __u32 state_at(struct __sk_buff *skb, struct bpf_sock_tuple *t, __u32 size)
{
	struct bpf_sock *sk = bpf_skc_lookup_tcp(skb, t, size, BPF_F_CURRENT_NETNS, 0);
	__u32 state;

	if (!sk)
		return 0;
	state = sk->state;
	bpf_sk_release(sk);
	return state;
}

static __always_inline __u32 state4(struct __sk_buff *skb, const struct heels_packet *p, __u32 ip, __u16 port)
{
	struct bpf_sock_tuple t = {
		.ipv4 = { .saddr = p->saddr, .sport = p->source, .daddr = ip, .dport = port },
	};

	return state_at(skb, &t, sizeof(t.ipv4));
}

/* A SYN that we have no part in, although the connection that had its ends before went around the balancer, and is in TIME_WAIT. What that has to say to the SYN is no
 * answer of the VIP: it goes back the way that the SYN came. If it is a refusal, the client's reset ends the TIME_WAIT.
 */
static __noinline int meet_plain_syn(struct __sk_buff *skb)
{
	struct heels_packet p;
	struct heels_tuple key;

	if (!heels_parse(skb, ETH_HLEN, &p))
		return 0;
	confirm_meet_plain(skb, &p);
	heels_tuple_set(&key, p.daddr, p.dest, p.saddr, p.source);
	if (bpf_map_lookup_elem(&heels_server_closing, &key) && state4(skb, &p, p.daddr, p.dest) == BPF_TCP_TIME_WAIT)
		bpf_map_delete_elem(&heels_server_closing, &key);
	return 0;
}

/* Whether a socket in this state, or none, takes part in what comes now. */
static __always_inline int is_live(__u32 state)
{
	return state && state != BPF_TCP_LISTEN && state != BPF_TCP_TIME_WAIT;
}

/* A later packet of a connection that we have taken, but whose client still goes through the balancer: the answer has been taken out of the SYN-ACK. Or the client uses its
 * end again, by way of the balancer, and the connection that we have taken is in TIME_WAIT or, if the client has crashed, in any state: then the VIP's socket is live.
 */
static __always_inline void take_detour(struct __sk_buff *skb, const struct heels_packet *p,
					const struct heels_server_vip *v)
{
	__u32 state = state4(skb, p, heels_ip(&v->local), v->local.port);

	if (!state || state == BPF_TCP_LISTEN || is_live(state4(skb, p, p->daddr, p->dest)))
		return;
	if (!heels_set_dest(skb, p, heels_ip(&v->local), v->local.port))
		heels_count(HEELS_DECAPSULATED_DETOUR);
}

/* Length of what is between an outer IP header, whose protocol is named and which ends at an offset, and the inner one; -1 when it is none of the
 * forms that balancers use. */
static __always_inline int shim_length(struct __sk_buff *skb, __u32 at, __u8 protocol, __u8 *inner)
{
	struct udphdr udp;
	__u8 gue[4];

	*inner = protocol;
	if (protocol == IPPROTO_IPIP || protocol == IPPROTO_IPV6)
		return 0;
	if (protocol != IPPROTO_UDP || bpf_skb_load_bytes(skb, at, &udp, sizeof(udp)))
		return -1;
	if (udp.dest != bpf_htons(GUE_PORT_KATRAN) && udp.dest != bpf_htons(GUE_PORT_GLB))
		return -1;
	if (bpf_skb_load_bytes(skb, at + sizeof(udp), gue, sizeof(gue)))
		return -1;
	/* Variant 1 has no header: the inner packet begins, and its version number, 4 or 6, says so. */
	if (gue[0] >> 6 == 1) {
		*inner = gue[0] >> 4 == 6 ? IPPROTO_IPV6 : IPPROTO_IPIP;
		return sizeof(udp);
	}
	/* Variant 0: a control message is none of ours, nor what has flags, which may say that a fragment follows or that a checksum is not finished; 5 bits count words
	 * of private data. */
	*inner = gue[1];
	if (gue[0] >> 5 || gue[2] || gue[3] || (*inner != IPPROTO_IPIP && *inner != IPPROTO_IPV6))
		return -1;
	return sizeof(udp) + sizeof(gue) + (gue[0] & 0x1f) * 4;
}

/* Whether what an ICMP error quotes is of a connection by way of the balancer, whose socket is the VIP's. */
static __always_inline int is_quote_of_vip(struct __sk_buff *skb, __u32 quote, __u32 vip, __u16 port)
{
	struct bpf_sock_tuple t = { .ipv4 = { .daddr = vip, .dport = port } };

	if (bpf_skb_load_bytes(skb, quote + HEELS_IP_DADDR, &t.ipv4.saddr, sizeof(t.ipv4.saddr)) ||
	    bpf_skb_load_bytes(skb, quote + sizeof(struct iphdr) + HEELS_TCP_DEST, &t.ipv4.sport, sizeof(t.ipv4.sport)))
		return 0;
	return is_live(state_at(skb, &t, sizeof(t.ipv4)));
}

/* An ICMP error that a balancer passes on: about a packet that has left from the VIP. Unless the VIP's socket has sent it, it is for our own. */
static __always_inline void take_icmp(struct __sk_buff *skb, __u32 icmp, const struct heels_server_vip *v, __u32 vip,
				      __u16 port)
{
	__u32 quote = icmp + sizeof(struct heels_icmp), own = heels_ip(&v->local);

	if (is_quote_of_vip(skb, quote, vip, port))
		return;
	if (bpf_l3_csum_replace(skb, quote + HEELS_IP_CHECK, vip, own, sizeof(own)) ||
	    bpf_skb_store_bytes(skb, quote + HEELS_IP_SADDR, &own, sizeof(own), 0) ||
	    bpf_l4_csum_replace(skb, icmp + __builtin_offsetof(struct heels_icmp, checksum), port, v->local.port,
				sizeof(port)) ||
	    bpf_skb_store_bytes(skb, quote + sizeof(struct iphdr), &v->local.port, sizeof(port), 0) ||
	    bpf_l3_csum_replace(skb, ETH_HLEN + HEELS_IP_CHECK, vip, own, sizeof(own)) ||
	    bpf_skb_store_bytes(skb, ETH_HLEN + HEELS_IP_DADDR, &own, sizeof(own), 0)) {
		heels_count(HEELS_REWRITE_FAILED);
		return;
	}
	heels_count(HEELS_SERVER_ICMP);
}

/* What of an inner ICMP error says to whom it belongs. */
struct server_quote {
	struct heels_icmp icmp;
	struct iphdr ip;
	__u16 source;
	__u16 dest;
} __attribute__((packed));

/* The VIP that an inner packet is for, or NULL. */
static __always_inline struct heels_server_vip *inner_vip(struct __sk_buff *skb, __u32 l3, const struct iphdr *ip,
							  struct heels_end *vip)
{
	__u32 l4 = l3 + ip->ihl * 4;
	struct server_quote q;
	__u16 ports[2];

	if (ip->version != 4 || ip->ihl < 5 || ip->frag_off & bpf_htons(HEELS_FRAGMENT))
		return 0;
	if (ip->protocol == IPPROTO_TCP) {
		if (bpf_skb_load_bytes(skb, l4, ports, sizeof(ports)))
			return 0;
		heels_end_set4(vip, ip->daddr, ports[1]);
		return bpf_map_lookup_elem(&heels_server_vips, vip);
	}
	if (ip->protocol != IPPROTO_ICMP || ip->ihl != 5 || bpf_skb_load_bytes(skb, l4, &q, sizeof(q)))
		return 0;
	if (q.icmp.type != HEELS_ICMP_UNREACHABLE || q.ip.protocol != IPPROTO_TCP || q.ip.ihl != 5 ||
	    q.ip.saddr != ip->daddr)
		return 0;
	heels_end_set4(vip, q.ip.saddr, q.source);
	return bpf_map_lookup_elem(&heels_server_vips, vip);
}

/* A TCP packet from which an outer one has been taken away. */
static __always_inline void take_inner(struct __sk_buff *skb, const struct heels_packet *p,
				       const struct heels_server_vip *v, const struct arrival *a)
{
	if ((p->flags & (HEELS_TCP_SYN | HEELS_TCP_ACK)) == HEELS_TCP_SYN)
		take_syn(skb, p, a);
	else
		take_detour(skb, p, v);
}

/* A packet inside another, from a balancer of a VIP: takes the outer one away, and goes on with the inner. False when that is IPv6. */
static __always_inline int take_encapsulated(struct __sk_buff *skb, const struct iphdr *outer)
{
	struct arrival a = { .from = outer->saddr, .outer = outer->daddr, .is_checked = 1 };
	struct heels_server_vip *v;
	struct heels_packet p;
	struct heels_end vip;
	struct iphdr ip;
	__u32 length;
	__u8 inner;
	int shim;

	shim = shim_length(skb, ETH_HLEN + outer->ihl * 4, outer->protocol, &inner);
	if (shim < 0 || outer->frag_off & bpf_htons(HEELS_FRAGMENT))
		return 1;
	if (inner == IPPROTO_IPV6)
		return 0;
	length = outer->ihl * 4 + shim;
	if (bpf_skb_load_bytes(skb, ETH_HLEN + length, &ip, sizeof(ip)))
		return 1;
	v = inner_vip(skb, ETH_HLEN + length, &ip, &vip);
	/* Another tunnel's. */
	if (!v || v->mode != HEELS_ENCAPSULATED || a.outer != heels_ip(&v->local))
		return 1;
	if (!heels_allows(HEELS_BALANCERS, v->index, a.from)) {
		heels_count(HEELS_DECAPSULATE_REFUSED);
		return 1;
	}
	if (bpf_skb_adjust_room(skb, -(__s32)length, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO)) {
		heels_count(HEELS_DECAPSULATE_FAILED);
		return 1;
	}
	heels_count(HEELS_DECAPSULATED);
	if (ip.protocol == IPPROTO_ICMP)
		take_icmp(skb, ETH_HLEN + sizeof(ip), v, heels_ip(&vip), vip.port);
	else if (heels_parse(skb, ETH_HLEN, &p))
		take_inner(skb, &p, v, &a);
	return 1;
}

/* What there is to do with an IPv4 packet. */
enum taken {
	/* It holds an IPv6 packet. */
	TAKEN_WRAPPED6,
	/* It is a segment, and no SYN. */
	TAKEN_SEGMENT,
	/* It is a SYN that we have no part in. */
	TAKEN_PLAIN,
	TAKEN,
};

/* An IPv4 packet that may concern us; returns what is left to do. A function of its own because of the stack. */
static __noinline int take_packet(struct __sk_buff *skb)
{
	struct arrival a = {};
	struct heels_packet p;
	struct iphdr outer;

	if (bpf_skb_load_bytes(skb, ETH_HLEN, &outer, sizeof(outer)) || outer.version != 4 || outer.ihl < 5)
		return TAKEN;
	if (outer.protocol != IPPROTO_TCP)
		return take_encapsulated(skb, &outer) ? TAKEN : TAKEN_WRAPPED6;
	if (!heels_parse(skb, ETH_HLEN, &p))
		return TAKEN;
	if (!(p.flags & HEELS_TCP_SYN))
		return TAKEN_SEGMENT;
	if (p.flags & HEELS_TCP_ACK || confirm_meet_syn(skb, &p))
		return TAKEN;
	a.from = p.saddr;
	return take_syn(skb, &p, &a) ? TAKEN : TAKEN_PLAIN;
}

SEC("tcx/ingress")
int heels_server_ingress(struct __sk_buff *skb)
{
	void *data, *end;
	struct tcphdr *tcp;
	struct iphdr *ip;

	if (skb->protocol != bpf_htons(ETH_P_IP))
		return server6_ingress(skb);
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	ip = data + ETH_HLEN;
	tcp = (void *)(ip + 1);
	/* Nearly every packet ends here: a segment that is no SYN. */
	if ((void *)(tcp + 1) <= end && ip->protocol == IPPROTO_TCP && ip->ihl == 5 && !tcp->syn)
		return confirm_segment(skb);
	switch (take_packet(skb)) {
	case TAKEN_SEGMENT:
		return confirm_segment(skb);
	case TAKEN_PLAIN:
		meet_plain_syn(skb);
		break;
	case TAKEN_WRAPPED6:
		take_wrapped6(skb);
	}
	return HEELS_NEXT;
}

/* Whether this host has committed to the SYN that the option came with. */
static __always_inline int is_committed(const struct heels_syn *o)
{
	struct heels_control *c = heels_control_get();

	return c && o->tag == heels_syn_mark(c->secret, o, HEELS_TAG_COMMIT);
}

/* The option of the connection's SYN. What this host has done with it, enum heels_tag_use: committed to it, left it for the confirm mode, or 0. */
static __always_inline int server_syn(struct bpf_sock_ops *ops, struct heels_syn *o)
{
	struct heels_syn asked = { .kind = heels_kind, .length = 4, .exid = heels_exid };

	*o = asked;
	if (bpf_load_hdr_opt(ops, o, sizeof(*o), BPF_LOAD_HDR_OPT_TCP_SYN) != sizeof(*o))
		return 0;
	if (o->length != sizeof(*o))
		return 0;
	if (is_committed(o))
		return HEELS_TAG_COMMIT;
	return confirm_is_taken(o) ? HEELS_TAG_CONFIRM : 0;
}

static __always_inline int is_synack(struct bpf_sock_ops *ops)
{
	return heels_begins(ops, HEELS_TCP_SYN | HEELS_TCP_ACK);
}

static __always_inline void server_reserve(struct bpf_sock_ops *ops)
{
	struct heels_syn o;
	int use;

	if (!is_synack(ops))
		return;
	if (heels_is_v6(ops)) {
		server6_reserve(ops);
		return;
	}
	use = server_syn(ops, &o);
	if (!use || (use == HEELS_TAG_CONFIRM && confirm_is_cookie(ops)))
		return;
	if (bpf_reserve_hdr_opt(ops, HEELS_SYNACK_LENGTH, 0))
		heels_count(HEELS_ANSWER_NO_ROOM);
}

/* Under SYN cookies the SYN will be forgotten. */
static __always_inline void remember_cookie(struct bpf_sock_ops *ops, const struct heels_end *vip)
{
	struct heels_cookie fresh = { .vip = *vip }, *known;
	__u32 number = heels_answered(ops);
	struct heels_tuple ends = {};

	heels_count(HEELS_ANSWERED_COOKIE);
	heels_local(ops, &ends.local);
	heels_remote(ops, &ends.remote);
	known = bpf_map_lookup_elem(&heels_cookies, &ends);
	if (!known || !heels_same(&known->vip, vip)) {
		fresh.syns[0] = number;
		fresh.next = 1;
		bpf_map_update_elem(&heels_cookies, &ends, &fresh, BPF_ANY);
		return;
	}
	for (int i = 0; i < HEELS_COOKIE_NUMBERS; i++)
		if (i < known->next && known->syns[i] == number)
			return;
	known->syns[known->next % HEELS_COOKIE_NUMBERS] = number;
	known->next++;
}

/* The option names the VIP; tc puts our own address in its place when it takes it for the source. */
static __always_inline void server_write(struct bpf_sock_ops *ops)
{
	struct heels_synack answer = { .kind = heels_kind, .length = sizeof(answer), .exid = heels_exid };
	struct heels_end vip;
	struct heels_syn o;
	int use;

	if (!is_synack(ops))
		return;
	if (heels_is_v6(ops)) {
		server6_write(ops);
		return;
	}
	use = server_syn(ops, &o);
	if (use == HEELS_TAG_CONFIRM)
		confirm_answer(ops, &o);
	if (use != HEELS_TAG_COMMIT)
		return;
	answer.addr = o.vip;
	answer.port = o.vip_port;
	if (bpf_store_hdr_opt(ops, &answer, sizeof(answer), 0)) {
		heels_count(HEELS_ANSWER_NO_ROOM);
		return;
	}
	if (ops->args[0] != BPF_WRITE_HDR_TCP_SYNACK_COOKIE) {
		heels_count(HEELS_ANSWERED);
		return;
	}
	heels_end_set4(&vip, o.vip, o.vip_port);
	remember_cookie(ops, &vip);
}

/* The VIP of a connection that was just accepted, when its SYN has been kept. False when this host has not committed to that. */
static __always_inline int accepted_syn(struct bpf_sock_ops *ops, struct heels_end *vip, const struct heels_syn *o,
					int use)
{
	if (heels_is_v6(ops)) {
		if (!server6_vip(ops, vip))
			return 0;
	} else {
		if (use != HEELS_TAG_COMMIT)
			return 0;
		heels_end_set4(vip, o->vip, o->vip_port);
	}
	heels_count(HEELS_ACCEPTED);
	return 1;
}

/* Whether the connection's SYN is there, or was forgotten for a cookie. */
static __always_inline int is_syn_kept(struct bpf_sock_ops *ops)
{
	struct heels_synack any = { .kind = heels_kind, .length = 4, .exid = heels_exid };

	return bpf_load_hdr_opt(ops, &any, sizeof(any), BPF_LOAD_HDR_OPT_TCP_SYN) != -ENOENT;
}

/* The same when the SYN was forgotten for a cookie. False when the connection came to our own address, perhaps after a cookie that nobody came for: that was for a SYN of
 * another number. */
static __always_inline int accepted_cookie(struct bpf_sock_ops *ops, struct heels_end *vip)
{
	/* Nothing but the SYN was received yet. */
	__u32 number = ops->rcv_nxt - 1;
	struct heels_tuple ends = {};
	struct heels_cookie *cookie;
	int is_known = 0;

	if (is_syn_kept(ops))
		return 0;
	heels_local(ops, &ends.local);
	heels_remote(ops, &ends.remote);
	cookie = bpf_map_lookup_elem(&heels_cookies, &ends);
	if (!cookie)
		return 0;
	for (int i = 0; i < HEELS_COOKIE_NUMBERS; i++)
		is_known |= i < cookie->next && cookie->syns[i] == number;
	if (!is_known)
		return 0;
	*vip = cookie->vip;
	bpf_map_delete_elem(&heels_cookies, &ends);
	heels_count(HEELS_ACCEPTED_COOKIE);
	return 1;
}

static __always_inline void server_established(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct heels_control *c = heels_control_get();
	struct heels_flow *f;
	struct heels_end vip;
	struct heels_end local;
	struct heels_syn o;
	int use = 0;
	__u8 *ours;

	if (!sk || !c || bpf_get_netns_cookie(ops) != c->netns)
		return;
	heels_local(ops, &local);
	ours = bpf_map_lookup_elem(&heels_ports, &local.port);
	/* Another program of ours, of a cgroup inside this one, may have dealt with it. */
	if (!ours || bpf_sk_storage_get(&heels_server_flows, sk, 0, 0))
		return;
	/* Inherited from the listener. */
	heels_leave(ops, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
	if (!heels_is_v6(ops))
		use = server_syn(ops, &o);
	if (use == HEELS_TAG_CONFIRM) {
		confirm_accept(ops, sk, &o);
		return;
	}
	if (!accepted_syn(ops, &vip, &o, use) && !accepted_cookie(ops, &vip))
		return;
	f = bpf_sk_storage_get(&heels_server_flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!f) {
		heels_count(HEELS_ACCEPT_NO_MEMORY);
		return;
	}
	f->vip = vip;
	f->peer = local;
	f->state = HEELS_FLOW_DIRECT;
	/* Nothing but the SYN was received yet. */
	f->syn = ops->rcv_nxt - 1;
	heels_want(ops, BPF_SOCK_OPS_STATE_CB_FLAG);
	heels_count_opened(f, 1);
}

/* A socket that was accepted is used for something else: it is no VIP's any more. */
static __always_inline void server_begin(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;

	if (!sk || !bpf_sk_storage_get(&heels_server_flows, sk, 0, 0))
		return;
	bpf_sk_storage_delete(&heels_server_flows, sk);
	heels_leave(ops, BPF_SOCK_OPS_STATE_CB_FLAG);
}

/* listen(): keeps SYNs, and has a say in SYN-ACKs. Listeners that are older than us: heels_listening. */
static __always_inline void server_listen(struct bpf_sock_ops *ops)
{
	__u16 port = bpf_htons(ops->local_port);
	struct heels_control *c = heels_control_get();
	struct bpf_sock *sk = ops->sk;
	int one = 1;
	__u32 *ready;

	if (!sk || !c || bpf_get_netns_cookie(ops) != c->netns || !bpf_map_lookup_elem(&heels_ports, &port))
		return;
	if (bpf_setsockopt(ops, HEELS_SOL_TCP, TCP_SAVE_SYN, &one, sizeof(one))) {
		heels_count(HEELS_LISTENER_REFUSED);
		return;
	}
	heels_want(ops, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
	ready = bpf_sk_storage_get(&heels_listeners, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!ready) {
		heels_count(HEELS_LISTENER_REFUSED);
		return;
	}
	*ready = 1;
	heels_count(HEELS_LISTENER_READY);
}

static __always_inline void server_state(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct heels_flow *f;

	if (!sk || !heels_is_ending(ops))
		return;
	f = bpf_sk_storage_get(&heels_server_flows, sk, 0, 0);
	if (!f)
		return;
	if (f->confirm) {
		confirm_state(ops, f);
		return;
	}
	if (heels_is_leaving(ops, 0))
		heels_remember(&heels_server_closing, ops, f);
	if (heels_is_over(ops, f))
		heels_count_closed(ops, f, 1);
}

/* What connections need that have begun. */
static __always_inline void server_finish(struct bpf_sock_ops *ops)
{
	switch (ops->op) {
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		server_begin(ops);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		server_reserve(ops);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		server_write(ops);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		server_established(ops);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		server_state(ops);
		break;
	}
}

SEC("sockops")
int heels_server_sockops(struct bpf_sock_ops *ops)
{
	server_finish(ops);
	if (ops->op == BPF_SOCK_OPS_TCP_LISTEN_CB)
		server_listen(ops);
	return 1;
}

/* For a cgroup that an agent before has served, and this one does not: handshakes end, and no listener is prepared. */
SEC("sockops")
int heels_server_finish(struct bpf_sock_ops *ops)
{
	server_finish(ops);
	return 1;
}

/* A SYN-ACK without our option, of whatever connection: what an earlier one of the same two ends has left does not count for it. */
static __always_inline int server_plain_synack(const struct heels_tuple *key)
{
	heels_forget_ends(&heels_server_closing, key);
	return HEELS_NEXT;
}

/* A SYN-ACK has no socket that could have storage: its option says which VIP it is to come from. Nothing but sock_ops writes it, and
 * only a VIP that is configured for this very address and port is believed. */
static __always_inline int server_egress_synack(struct __sk_buff *skb, const struct heels_packet *p,
						const struct heels_tuple *key)
{
	__u32 length = p->length - sizeof(struct tcphdr), at = 0, sum = p->l4 + HEELS_TCP_CHECK, tag, ip;
	struct heels_control *c = heels_control_get();
	struct syn_options o = {};
	struct heels_server_vip *v;
	struct heels_synack answer;
	struct heels_end vip;
	__u16 port;

	if (!c || length < HEELS_SYNACK_LENGTH || length > TCP_OPTIONS_MAX ||
	    bpf_skb_load_bytes(skb, p->l4 + sizeof(struct tcphdr), o.bytes, length))
		return server_plain_synack(key);
	/* The kernel puts options of programs on a multiple of 4. */
	for (__u32 i = 0; i <= TCP_OPTIONS_MAX - HEELS_SYNACK_LENGTH; i += 4)
		if (o.bytes[i] == heels_kind && o.bytes[i + 1] == HEELS_SYNACK_LENGTH &&
		    *(__u16 *)&o.bytes[i + 2] == heels_exid && i + HEELS_SYNACK_LENGTH <= length) {
			__builtin_memcpy(&answer, &o.bytes[i], sizeof(answer));
			at = p->l4 + sizeof(struct tcphdr) + i;
			break;
		}
	if (!at)
		return server_plain_synack(key);
	/* That of the confirm mode is ready, and goes by way of the balancer. */
	if (answer.flags)
		return HEELS_NEXT;
	heels_end_set4(&vip, answer.addr, answer.port);
	v = bpf_map_lookup_elem(&heels_server_vips, &vip);
	if (!v || !heels_end_is(&v->local, p->saddr, p->source)) {
		heels_count(HEELS_ANSWER_UNKNOWN_VIP);
		return HEELS_NEXT;
	}
	ip = answer.addr;
	port = answer.port;
	answer.addr = p->saddr;
	answer.port = p->source;
	tag = 0;
	if (c->key_count)
		tag = heels_synack_tag(c->keys[0], &answer, p->daddr, p->dest, ip, port,
				       heels_tcp_word(skb, p, HEELS_TCP_ACK_SEQ) - 1);
	answer.tag = tag;
	if (bpf_l4_csum_replace(skb, sum, ip, p->saddr, sizeof(ip)) ||
	    bpf_l4_csum_replace(skb, sum, port, p->source, sizeof(port)) ||
	    bpf_l4_csum_replace(skb, sum, 0, tag, sizeof(tag)) ||
	    bpf_skb_store_bytes(skb, at, &answer, sizeof(answer), 0)) {
		heels_count(HEELS_REWRITE_FAILED);
		return HEELS_NEXT;
	}
	heels_set_source(skb, p, ip, port);
	return HEELS_NEXT;
}

/* A packet without a full socket: SYN-ACKs, what FIN_WAIT2 and TIME_WAIT send, and resets. */
static __always_inline int server_egress_other(struct __sk_buff *skb)
{
	struct heels_closing *c;
	struct heels_packet p;
	struct heels_tuple key;

	if (!heels_is_tcp(skb))
		return server6_egress_other(skb);
	if (!heels_parse(skb, ETH_HLEN, &p))
		return HEELS_NEXT;
	heels_tuple_set(&key, p.saddr, p.source, p.daddr, p.dest);
	if ((p.flags & (HEELS_TCP_SYN | HEELS_TCP_ACK)) == (HEELS_TCP_SYN | HEELS_TCP_ACK))
		return server_egress_synack(skb, &p, &key);
	c = bpf_map_lookup_elem(&heels_server_closing, &key);
	if (!c)
		return HEELS_NEXT;
	if (!heels_set_source(skb, &p, heels_ip(&c->vip), c->vip.port))
		heels_count(HEELS_SERVER_CLOSING);
	return heels_end_is(&c->peer, p.saddr, p.source) ? HEELS_NEXT : confirm_send_closing(skb, &p, c);
}

SEC("tcx/egress")
int heels_server_egress(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct heels_packet p;
	struct heels_flow *f;

	if (!sk)
		return server_egress_other(skb);
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return server_egress_other(skb);
	/* No F_CREATE: it may be the kernel's own control socket. */
	f = bpf_sk_storage_get(&heels_server_flows, sk, 0, 0);
	if (!f && confirm_is_raw(sk))
		return HEELS_NEXT;
	if (!f)
		return sk->state == BPF_TCP_CLOSE || sk->state == BPF_TCP_LISTEN ? server_egress_other(skb)
										 : HEELS_NEXT;
	if (f->confirm)
		return confirm_send(skb, f);
	/* Nearly every packet ends here. */
	if (heels_swap_source(skb, &f->peer, &f->vip))
		return HEELS_NEXT;
	/* What a tunnel has wrapped still belongs to the socket. */
	if (!heels_is_tcp(skb))
		return server6_egress(skb, f);
	if (!heels_parse(skb, ETH_HLEN, &p) || !heels_end_is(&f->peer, p.saddr, p.source))
		return HEELS_NEXT;
	heels_set_source(skb, &p, heels_ip(&f->vip), f->vip.port);
	return HEELS_NEXT;
}
