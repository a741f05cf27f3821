// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* HEELS, client role. sock_ops offers the option in the SYN and learns the server's address from the SYN-ACK; tc at egress sends what
 * follows to that address; tc at ingress gives resets and ICMP errors of that address back to the connection to the VIP.
 */
#include <linux/errno.h>

#include "lib/heels_confirm.h"

/* Back-off after the first failure of a VIP, in ns; doubled by each further one, up to so many times. */
#define BACK_OFF_NS 2000000000ULL
#define BACK_OFF_DOUBLINGS 8

/* How long a next hop is taken for granted, in ns. */
#define ROUTE_NS 1000000000ULL

/* heels_client6.bpf.c. */
static __always_inline __u32 client6_length(const struct heels_control *c);
static __always_inline void client6_write(struct bpf_sock_ops *ops, const struct heels_control *c,
					  struct heels_flow *f);
static __always_inline enum heels_verdict client6_read_answer(struct bpf_sock_ops *ops,
							      const struct heels_client_vip *v, struct heels_flow *f);
static __always_inline int client6_egress_closing(struct __sk_buff *skb);
static __always_inline int client6_tell_port(struct __sk_buff *skb, const struct heels_flow *f);
static __always_inline int client6_egress(struct __sk_buff *skb, struct heels_flow *f);
static __always_inline int client6_ingress(struct __sk_buff *skb);

static __always_inline struct heels_client_vip *client_vip(struct bpf_sock_ops *ops, struct heels_end *vip)
{
	heels_remote(ops, vip);
	return bpf_map_lookup_elem(&heels_client_vips, vip);
}

static __always_inline void client_back_off(struct heels_client_vip *v)
{
	__u32 doublings = v->failures < BACK_OFF_DOUBLINGS ? v->failures : BACK_OFF_DOUBLINGS;

	__sync_fetch_and_add(&v->failures, 1);
	v->quiet_until = bpf_ktime_get_ns() + (BACK_OFF_NS << doublings);
}

/* Nothing is offered: what an earlier connection of the same two ends has left does not count for this one. */
static __always_inline void client_decline(struct bpf_sock_ops *ops, enum heels_verdict why)
{
	heels_forget(&heels_client_closing, ops);
	heels_count(why);
}

/* A socket begins anew: what an earlier connection of it has learnt does not count for the next one, to whomever that is. */
static __always_inline void client_begin(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;

	if (!sk || !bpf_sk_storage_get(&heels_client_flows, sk, 0, 0))
		return;
	bpf_sk_storage_delete(&heels_client_flows, sk);
	heels_leave(ops, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_RTO_CB_FLAG);
}

/* connect(): decides whether SYNs of this connection carry the option. */
static __always_inline void client_connect(struct bpf_sock_ops *ops)
{
	struct heels_client_vip *v;
	struct heels_control *c;
	struct heels_flow *f;
	struct heels_end vip;
	struct bpf_sock *sk;

	client_begin(ops);
	v = client_vip(ops, &vip);
	c = heels_control_get();
	/* The interfaces of other network namespaces have no programs to finish the work. */
	if (!v || !c || bpf_get_netns_cookie(ops) != c->netns)
		return;
	if (c->flags & HEELS_CLIENT_DRAINING) {
		client_decline(ops, HEELS_OFFER_DRAINING);
		return;
	}
	if (c->flags & HEELS_INCOMPLETE) {
		client_decline(ops, HEELS_OFFER_INTERFACE);
		return;
	}
	if (v->quiet_until > bpf_ktime_get_ns()) {
		client_decline(ops, HEELS_OFFER_BACK_OFF);
		return;
	}
	sk = ops->sk;
	f = sk ? bpf_sk_storage_get(&heels_client_flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE) : 0;
	if (!f) {
		client_decline(ops, HEELS_OFFER_NO_MEMORY);
		return;
	}
	f->vip = vip;
	heels_want(ops, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

/* The offer of this socket, or NULL when it makes none. */
static __always_inline struct heels_flow *client_offer(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct heels_flow *f;

	if (!sk || !heels_begins(ops, HEELS_TCP_SYN))
		return 0;
	f = bpf_sk_storage_get(&heels_client_flows, sk, 0, 0);
	return f && f->state == HEELS_FLOW_OFFERED ? f : 0;
}

static __always_inline void client_reserve(struct bpf_sock_ops *ops)
{
	struct heels_control *c = heels_control_get();
	struct heels_flow *f = client_offer(ops);

	if (!f || !c)
		return;
	f->tells_port = 0;
	/* Perhaps something on the way drops SYNs with the option. */
	if (ops->total_retrans >= HEELS_OFFERS) {
		heels_count(HEELS_OFFER_REPEATED);
		return;
	}
	if (bpf_reserve_hdr_opt(ops, addr_is_v4(f->vip.addr) ? HEELS_SYN_LENGTH : client6_length(c), 0))
		heels_count(HEELS_OFFER_NO_ROOM);
}

static __always_inline void client_write(struct bpf_sock_ops *ops)
{
	struct heels_control *c = heels_control_get();
	struct heels_flow *f = client_offer(ops);
	struct heels_end local;
	struct heels_syn o = { .kind = heels_kind, .length = sizeof(o), .exid = heels_exid };
	struct heels_hashed h;

	if (!f || !c)
		return;
	if (!addr_is_v4(f->vip.addr)) {
		client6_write(ops, c, f);
		return;
	}
	heels_local(ops, &local);
	o.client = heels_ip(&local);
	o.client_port = local.port;
	o.vip = heels_ip(&f->vip);
	o.vip_port = f->vip.port;
	if (c->key_count) {
		heels_syn_hashed(&h, &o, heels_written(ops));
		o.tag = heels_syn_tag(&h, c->keys[0], heels_slot());
	}
	if (bpf_store_hdr_opt(ops, &o, sizeof(o), 0))
		heels_count(HEELS_OFFER_NO_ROOM);
	else
		heels_count(HEELS_OFFERED);
}

/* Reads the answer. HEELS_DIRECT or HEELS_CONFIRM_WAITING when it names a server that this client accepts. */
static __always_inline enum heels_verdict client_read_answer(struct bpf_sock_ops *ops, const struct heels_control *c,
							     const struct heels_client_vip *v, struct heels_flow *f)
{
	struct heels_synack o = { .kind = heels_kind, .length = 4, .exid = heels_exid };
	struct heels_end local;
	long n = bpf_load_hdr_opt(ops, &o, sizeof(o), 0);

	if (n == -ENOMSG)
		return HEELS_ANSWER_NONE;
	if (n != sizeof(o) || o.length != sizeof(o) || o.flags & ~HEELS_ANSWER_CONFIRMS || !o.port)
		return HEELS_ANSWER_MALFORMED;
	heels_local(ops, &local);
	/* Nothing but the SYN was sent yet, and it is acknowledged. */
	if (!heels_synack_tag_holds(c, &o, heels_ip(&local), local.port, heels_ip(&f->vip), f->vip.port,
				    ops->snd_una - 1))
		return HEELS_ANSWER_TAG;
	if (!heels_allows(HEELS_BACKENDS_OF, v->index, o.addr) || o.addr == heels_ip(&local))
		return HEELS_ANSWER_BACKEND;
	heels_end_set4(&f->peer, o.addr, o.port);
	return o.flags ? HEELS_CONFIRM_WAITING : HEELS_DIRECT;
}

/* The SYN-ACK is here, its ACK not yet sent. Later segments are never asked: a second SYN-ACK, from another server, changes nothing. */
static __always_inline void client_established(struct bpf_sock_ops *ops)
{
	struct heels_control *c = heels_control_get();
	enum heels_verdict verdict;
	struct heels_client_vip *v;
	struct heels_flow *f;
	struct heels_end vip;
	struct bpf_sock *sk = ops->sk;

	f = sk ? bpf_sk_storage_get(&heels_client_flows, sk, 0, 0) : 0;
	if (!f || f->state != HEELS_FLOW_OFFERED || !c)
		return;
	heels_leave(ops, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
	v = client_vip(ops, &vip);
	if (!v) {
		heels_forget(&heels_client_closing, ops);
		return;
	}
	verdict = addr_is_v4(vip.addr) ? client_read_answer(ops, c, v, f) : client6_read_answer(ops, v, f);
	heels_count(verdict);
	f->state = HEELS_FLOW_FALLBACK;
	if (verdict == HEELS_DIRECT) {
		f->state = HEELS_FLOW_DIRECT;
		heels_count_opened(f, 0);
	} else if (verdict == HEELS_CONFIRM_WAITING) {
		f->state = HEELS_FLOW_WAITING;
		f->confirm = 1;
	} else if (verdict != HEELS_ANSWER_NONE || ops->total_retrans >= HEELS_OFFERS) {
		/* A server counts on us in vain, or SYNs with the option are lost: there will be none for a while. */
		client_back_off(v);
	}
	heels_want(ops, BPF_SOCK_OPS_STATE_CB_FLAG | BPF_SOCK_OPS_RTO_CB_FLAG);
}

/* Whether nothing but the SYN has ever been confirmed to this end, although more was sent. */
static __always_inline int client_is_unheard(struct bpf_sock_ops *ops)
{
	return !ops->bytes_received && ops->bytes_acked <= 1 && ops->data_segs_out;
}

/* Direct: the server cannot be reached. Fallback: the answer may have been taken out of the SYN-ACK, and the server be lost. Once for each connection. */
static __always_inline void client_failed(struct heels_flow *f)
{
	struct heels_client_vip *v = bpf_map_lookup_elem(&heels_client_vips, &f->vip);

	if (f->failed)
		return;
	f->failed = 1;
	heels_count(f->state == HEELS_FLOW_DIRECT ? HEELS_DIRECT_FAILED : HEELS_FALLBACK_FAILED);
	if (v)
		client_back_off(v);
}

/* Nothing that was sent directly has been acknowledged: what is sent again goes through the balancer. */
static __always_inline void client_confirm_timeout(struct bpf_sock_ops *ops, struct heels_flow *f)
{
	struct heels_end local;

	if (f->state != HEELS_FLOW_DIRECT || ops->args[0] < 1 || confirm_is_proved(f, ops->snd_una))
		return;
	client_failed(f);
	heels_local(ops, &local);
	confirm_return(f, &local);
}

/* A retransmission timer has run out. One lost segment says nothing. */
static __always_inline void client_timeout(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct heels_flow *f = sk ? bpf_sk_storage_get(&heels_client_flows, sk, 0, 0) : 0;

	if (f && f->confirm) {
		client_confirm_timeout(ops, f);
		return;
	}
	if (f && f->state != HEELS_FLOW_OFFERED && ops->args[0] >= 1 && client_is_unheard(ops))
		client_failed(f);
}

/* Whether the connection was reset or timed out before its server had confirmed anything. */
static __always_inline int client_has_failed(struct bpf_sock_ops *ops, struct bpf_sock *sk)
{
	struct tcp_sock *tp;

	if (ops->bytes_received || ops->bytes_acked > 1)
		return 0;
	tp = bpf_skc_to_tcp_sock(sk);
	return tp && tp->inet_conn.icsk_inet.sk.sk_err;
}

static __always_inline void client_closed(struct bpf_sock_ops *ops, struct bpf_sock *sk, struct heels_flow *f)
{
	struct heels_client_vip *v;

	if (f->state == HEELS_FLOW_DIRECT)
		heels_count_closed(ops, f, 0);
	/* The balancer's path is as it is. */
	else if (f->confirm)
		return;
	if (client_has_failed(ops, sk)) {
		client_failed(f);
		return;
	}
	v = bpf_map_lookup_elem(&heels_client_vips, &f->vip);
	if (v && f->state == HEELS_FLOW_DIRECT && !f->failed && v->failures)
		v->failures = 0;
}

/* What is sent when the socket is gone goes where the connection went, whatever an earlier one of the same two ends has left. */
static __always_inline void client_leaves(struct bpf_sock_ops *ops, const struct heels_flow *f)
{
	if (f->state == HEELS_FLOW_DIRECT)
		heels_remember(&heels_client_closing, ops, f);
	else
		heels_forget(&heels_client_closing, ops);
}

static __always_inline void client_state(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct heels_flow *f;

	if (!sk || !heels_is_ending(ops))
		return;
	f = bpf_sk_storage_get(&heels_client_flows, sk, 0, 0);
	if (!f || f->state == HEELS_FLOW_OFFERED)
		return;
	if (heels_is_leaving(ops, f->confirm))
		client_leaves(ops, f);
	if (heels_is_over(ops, f))
		client_closed(ops, sk, f);
}

/* What connections need that have begun. */
static __always_inline void client_finish(struct bpf_sock_ops *ops)
{
	switch (ops->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		client_established(ops);
		break;
	case BPF_SOCK_OPS_RTO_CB:
		client_timeout(ops);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		client_state(ops);
		break;
	}
}

SEC("sockops")
int heels_client_sockops(struct bpf_sock_ops *ops)
{
	switch (ops->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		client_connect(ops);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		client_reserve(ops);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		client_write(ops);
		break;
	default:
		client_finish(ops);
	}
	return 1;
}

/* For a cgroup that an agent before has served, and this one does not: nothing begins. The agent's own cgroup may be within, and
 * its sockets come by here after heels_client_sockops: what has just been begun stays. */
SEC("sockops")
int heels_client_finish(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct heels_flow *f;

	if (ops->op != BPF_SOCK_OPS_TCP_CONNECT_CB) {
		client_finish(ops);
		return 1;
	}
	f = sk ? bpf_sk_storage_get(&heels_client_flows, sk, 0, 0) : 0;
	if (f && f->state != HEELS_FLOW_OFFERED)
		client_begin(ops);
	return 1;
}

/* A packet's ends, which its next hop follows from. */
static __always_inline void client_hop_key(struct heels_hop_key *key, struct __sk_buff *skb, const __u8 *local,
					   const __u8 *peer)
{
	__builtin_memcpy(key->local, local, sizeof(key->local));
	__builtin_memcpy(key->peer, peer, sizeof(key->peer));
	key->device = skb->ifindex;
	key->mark = skb->mark;
}

/* The packet was routed to the VIP, and the server may be behind another next hop: the kernel finds that, and the packet comes by again with its address
 * (client_learn). That is then used for a while without asking, by all connections of the same two hosts. bpf_fib_lookup() would be the short way, but serves
 * only hosts that forward. The flow is NULL where there is no full socket.
 */
static __always_inline int client_route(struct __sk_buff *skb, struct heels_flow *f, const __u8 *local,
					const __u8 *peer)
{
	__u64 now = bpf_ktime_get_coarse_ns();
	struct heels_hop_key key;
	struct heels_hop *hop;

	if (f && f->route_until > now) {
		bpf_skb_store_bytes(skb, 0, f->mac, sizeof(f->mac), 0);
		return HEELS_NEXT;
	}
	client_hop_key(&key, skb, local, peer);
	hop = bpf_map_lookup_elem(&heels_client_hops, &key);
	if (!hop || hop->until <= now) {
		heels_count(HEELS_CLIENT_ROUTED);
		return bpf_redirect_neigh(skb->ifindex, 0, 0, 0);
	}
	if (f) {
		__builtin_memcpy(f->mac, hop->mac, sizeof(f->mac));
		f->route_until = hop->until;
	}
	bpf_skb_store_bytes(skb, 0, hop->mac, sizeof(hop->mac), 0);
	return HEELS_NEXT;
}

static __always_inline void client_learn(struct __sk_buff *skb, struct heels_flow *f, const __u8 *local,
					 const __u8 *peer)
{
	struct heels_hop hop = {};
	struct heels_hop_key key;

	if (bpf_skb_load_bytes(skb, 0, hop.mac, sizeof(hop.mac)))
		return;
	hop.until = bpf_ktime_get_coarse_ns() + ROUTE_NS;
	__builtin_memcpy(f->mac, hop.mac, sizeof(f->mac));
	f->route_until = hop.until;
	client_hop_key(&key, skb, local, peer);
	bpf_map_update_elem(&heels_client_hops, &key, &hop, BPF_ANY);
}

/* Whether a packet begins a connection that we have no part in: of another cgroup, forwarded, or to a VIP that has been removed. What an earlier one of the same
 * two ends has left does not count for it. */
static __always_inline int client_is_new(__u8 flags, const struct heels_tuple *key)
{
	if (!(flags & HEELS_TCP_SYN))
		return 0;
	bpf_map_delete_elem(&heels_client_closing, key);
	return 1;
}

/* A packet without a full socket: what FIN_WAIT2 and TIME_WAIT send, and resets; or one that we have no part in. */
static __always_inline int client_egress_closing(struct __sk_buff *skb)
{
	struct heels_closing *c;
	struct heels_packet p;
	struct heels_tuple key;
	__u32 to;

	if (!heels_is_tcp(skb))
		return client6_egress_closing(skb);
	if (!heels_parse(skb, ETH_HLEN, &p))
		return HEELS_NEXT;
	heels_tuple_set(&key, p.saddr, p.source, p.daddr, p.dest);
	c = bpf_map_lookup_elem(&heels_client_closing, &key);
	if (!c || client_is_new(p.flags, &key))
		return HEELS_NEXT;
	to = heels_ip(&c->peer);
	if (heels_set_dest(skb, &p, to, c->peer.port))
		return HEELS_NEXT;
	heels_count(HEELS_CLIENT_CLOSING);
	return client_route(skb, 0, key.local.addr, c->peer.addr);
}

/* Whether a socket that waits for a SYN-ACK sends a reset: the TIME_WAIT of the last connection with the same ends refuses its SYN. The reset goes where that
 * connection went if that was in confirm mode; otherwise the server has declined the SYN, and a TIME_WAIT that it meets is one of the balancer's path. Before
 * Linux 6.13 such a reset has no socket.
 */
static __always_inline int client_is_refused(struct __sk_buff *skb)
{
	struct heels_closing *c;
	struct heels_headers h;
	struct heels_tuple key;

	if (!heels_headers(skb, &h) || !h.tcp->rst)
		return 0;
	heels_tuple_set(&key, h.ip->saddr, h.tcp->source, h.ip->daddr, h.tcp->dest);
	c = bpf_map_lookup_elem(&heels_client_closing, &key);
	return c && c->confirm;
}

SEC("tcx/egress")
int heels_client_egress(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct heels_packet p;
	struct heels_flow *f;
	__u8 local[16];
	__u32 to;

	if (!sk)
		return client_egress_closing(skb);
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return client_egress_closing(skb);
	/* No F_CREATE: it may be the kernel's own control socket. */
	f = bpf_sk_storage_get(&heels_client_flows, sk, 0, 0);
	if (!f)
		return sk->state == BPF_TCP_CLOSE || sk->state == BPF_TCP_SYN_SENT ? client_egress_closing(skb)
										   : HEELS_NEXT;
	if (f->state == HEELS_FLOW_OFFERED && client_is_refused(skb))
		return client_egress_closing(skb);
	if (f->state == HEELS_FLOW_WAITING)
		confirm_begin(skb, sk, f);
	if (f->state != HEELS_FLOW_DIRECT)
		return client6_tell_port(skb, f);
	/* Nearly every packet ends here. */
	if (f->route_until > bpf_ktime_get_coarse_ns() && heels_swap_dest(skb, &f->vip, &f->peer, f->mac))
		return HEELS_NEXT;
	if (!heels_is_tcp(skb))
		return client6_egress(skb, f);
	if (!heels_parse(skb, ETH_HLEN, &p))
		return HEELS_NEXT;
	addr_set4(local, p.saddr);
	if (heels_end_is(&f->peer, p.daddr, p.dest)) {
		client_learn(skb, f, local, f->peer.addr);
		return HEELS_NEXT;
	}
	/* What a tunnel has wrapped still belongs to the socket. */
	if (!heels_end_is(&f->vip, p.daddr, p.dest))
		return HEELS_NEXT;
	to = heels_ip(&f->peer);
	if (heels_set_dest(skb, &p, to, f->peer.port))
		return HEELS_NEXT;
	return client_route(skb, f, local, f->peer.addr);
}

/* How a server that cannot be sent to says so: by a reset, whose number this host has acknowledged, or by an ICMP error about a segment that is not acknowledged. */
enum client_refusal {
	CLIENT_NOT_REFUSED,
	CLIENT_REFUSED_BY_RESET,
	CLIENT_REFUSED_BY_ICMP,
};

/* What a server sends from its own address, and to whom. */
struct client_search {
	struct __sk_buff *skb;
	struct heels_end server;
	struct heels_end client;
	/* The VIP whose connection it is about. */
	struct heels_end vip;
	int found;
	/* The server refuses what it is sent, and whether the connection has gone back to the balancer's path for that. */
	enum client_refusal refuses;
	int returned;
	/* Of the refusal: a number that only those know who have seen the connection. */
	__u32 seq;
};

/* Whether a refusal is of this connection, as TCP asks itself. One that was made up is left to it. A reset has the number that the refused segment has
 * acknowledged: no further back than a window. */
static __always_inline int client_is_genuine(struct tcp_sock *tp, const struct client_search *s)
{
	if (s->refuses == CLIENT_REFUSED_BY_ICMP)
		return !heels_after(tp->snd_una, s->seq) && heels_after(tp->snd_nxt, s->seq);
	return !heels_after(s->seq, tp->rcv_nxt) &&
	       confirm_is_within(s->seq, tp->rcv_nxt, tp->bytes_received + 1, tp->window_clamp);
}

/* Confirm mode: a server that has never confirmed anything refuses what it is sent directly. It may know the connection by the balancer's path. */
static __always_inline int client_refused(struct bpf_sock *sk, struct heels_flow *f, const struct client_search *s)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (!tp || confirm_is_proved(f, tp->snd_una) || !client_is_genuine(tp, s))
		return 0;
	client_failed(f);
	confirm_return(f, &s->client);
	return 1;
}

/* One VIP: whether the client has a connection to it that goes to the server directly. */
static long client_try(__u32 index, void *context)
{
	struct client_search *s = context;
	struct heels_end *vip = bpf_map_lookup_elem(&heels_client_list, &index);
	struct bpf_sock_tuple t = {};
	struct heels_flow *f;
	struct bpf_sock *sk;

	if (!vip)
		return 1;
	if (!addr_is_v4(vip->addr))
		return 0;
	t.ipv4.saddr = heels_ip(vip);
	t.ipv4.sport = vip->port;
	t.ipv4.daddr = heels_ip(&s->client);
	t.ipv4.dport = s->client.port;
	sk = bpf_skc_lookup_tcp(s->skb, &t, sizeof(t.ipv4), BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return 0;
	if (sk->state != BPF_TCP_LISTEN && sk->state != BPF_TCP_TIME_WAIT && sk->state != BPF_TCP_NEW_SYN_RECV) {
		struct bpf_sock *full = bpf_sk_fullsock(sk);

		f = full ? bpf_sk_storage_get(&heels_client_flows, full, 0, 0) : 0;
		if (f && f->state == HEELS_FLOW_DIRECT &&
		    heels_end_is(&f->peer, heels_ip(&s->server), s->server.port)) {
			s->vip = *vip;
			s->found = 1;
			s->returned = s->refuses && f->confirm && client_refused(full, f, s);
		}
	}
	bpf_sk_release(sk);
	/* VERIFIER: a callback may return 0 or 1, and nothing that could be more. */
	return s->found ? 1 : 0;
}

static __always_inline int client_find(struct client_search *s)
{
	struct heels_control *c = heels_control_get();

	if (!c)
		return 0;
	bpf_loop(c->client_vip_count, client_try, s, 0);
	return s->found;
}

/* A reset from a server that knows the connection no more, or never did. */
static __always_inline int client_ingress_reset(struct __sk_buff *skb)
{
	struct client_search s = { .skb = skb, .refuses = CLIENT_REFUSED_BY_RESET };
	struct heels_packet p;

	if (!heels_parse(skb, ETH_HLEN, &p) || !(p.flags & HEELS_TCP_RST))
		return HEELS_NEXT;
	heels_end_set4(&s.server, p.saddr, p.source);
	heels_end_set4(&s.client, p.daddr, p.dest);
	s.seq = heels_tcp_word(skb, &p, HEELS_TCP_SEQ);
	if (!client_find(&s))
		return HEELS_NEXT;
	if (s.returned)
		return TC_ACT_SHOT;
	if (!heels_set_source(skb, &p, heels_ip(&s.vip), s.vip.port))
		heels_count(HEELS_CLIENT_RESET);
	return HEELS_NEXT;
}

/* What an ICMP error quotes of the packet that it is about. */
struct client_quote {
	struct iphdr ip;
	__u16 source;
	__u16 dest;
	__u32 seq;
} __attribute__((packed));

/* An error about a packet that was sent to the server: the socket knows only the VIP. The checksum of the quoted IP header makes up for its address, so
 * the ICMP checksum changes with the port only. */
static __always_inline int client_ingress_icmp(struct __sk_buff *skb, __u32 icmp)
{
	struct client_search s = { .skb = skb };
	__u32 quote = icmp + sizeof(struct heels_icmp), to;
	struct client_quote q;
	__u8 type, code;

	if (bpf_skb_load_bytes(skb, icmp, &type, sizeof(type)) ||
	    bpf_skb_load_bytes(skb, icmp + sizeof(type), &code, sizeof(code)))
		return HEELS_NEXT;
	if (type != HEELS_ICMP_UNREACHABLE && type != HEELS_ICMP_TIME_EXCEEDED && type != HEELS_ICMP_PARAMETER)
		return HEELS_NEXT;
	if (bpf_skb_load_bytes(skb, quote, &q, sizeof(q)) || q.ip.protocol != IPPROTO_TCP || q.ip.ihl != 5)
		return HEELS_NEXT;
	heels_end_set4(&s.server, q.ip.daddr, q.dest);
	heels_end_set4(&s.client, q.ip.saddr, q.source);
	if (type == HEELS_ICMP_UNREACHABLE && code != HEELS_ICMP_TOO_BIG)
		s.refuses = CLIENT_REFUSED_BY_ICMP;
	s.seq = bpf_ntohl(q.seq);
	if (!client_find(&s))
		return HEELS_NEXT;
	to = heels_ip(&s.vip);
	if (bpf_l3_csum_replace(skb, quote + HEELS_IP_CHECK, q.ip.daddr, to, sizeof(to)) ||
	    bpf_skb_store_bytes(skb, quote + HEELS_IP_DADDR, &to, sizeof(to), 0) ||
	    bpf_l4_csum_replace(skb, icmp + __builtin_offsetof(struct heels_icmp, checksum), q.dest, s.vip.port,
				sizeof(q.dest)) ||
	    bpf_skb_store_bytes(skb, quote + __builtin_offsetof(struct client_quote, dest), &s.vip.port, sizeof(q.dest),
				0)) {
		heels_count(HEELS_REWRITE_FAILED);
		return HEELS_NEXT;
	}
	heels_count(HEELS_CLIENT_ICMP);
	return HEELS_NEXT;
}

SEC("tcx/ingress")
int heels_client_ingress(struct __sk_buff *skb)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + ETH_HLEN;
	struct tcphdr *tcp = (void *)(ip + 1);

	if (skb->protocol != bpf_htons(ETH_P_IP))
		return client6_ingress(skb);
	if ((void *)(ip + 1) > end) {
		if (bpf_skb_pull_data(skb, ETH_HLEN + sizeof(*ip) + sizeof(*tcp)))
			return HEELS_NEXT;
		data = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
		ip = data + ETH_HLEN;
		tcp = (void *)(ip + 1);
		if ((void *)(ip + 1) > end)
			return HEELS_NEXT;
	}
	if (ip->protocol == IPPROTO_ICMP && !(ip->frag_off & bpf_htons(HEELS_FRAGMENT)))
		return client_ingress_icmp(skb, ETH_HLEN + ip->ihl * 4);
	if (ip->protocol != IPPROTO_TCP)
		return HEELS_NEXT;
	/* With IP options the flags are elsewhere, and heels_parse finds them. */
	if (ip->ihl == 5 && (void *)(tcp + 1) <= end && !tcp->rst)
		return HEELS_NEXT;
	return client_ingress_reset(skb);
}
