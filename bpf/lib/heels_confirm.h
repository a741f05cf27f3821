/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* HEELS, confirm mode, for balancers that track connections (docs/decisions/0009-heels-confirm.md). The server's socket holds what the balancer has made of the SYN; the
 * balancer sees the handshake and, when all is over, a reset. In between the client's segments get the balancer's end for a source before the server's stack sees
 * them, and what the server sends goes to the client from the VIP. IPv4 alone.
 */
#ifndef XLB_HEELS_CONFIRM_H
#define XLB_HEELS_CONFIRM_H

#include <bpf/bpf_core_read.h>

#include "heels_packet.h"

#define HEELS_TCP_ACK_SEQ 8
#define HEELS_SOCK_RAW 3

/* How long a handshake bars another one of the same client's end, and a next hop is taken for granted, in ns. */
#define CONFIRM_HANDSHAKE_NS 60000000000ULL
#define CONFIRM_ROUTE_NS 1000000000ULL

/* Live connections in confirm mode, under both ends that segments come from: the client's and the balancer's. Writers: sock_ops, tc at ingress. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct heels_tuple);
	__type(value, struct heels_confirmed);
	__uint(max_entries, HEELS_CONFIRMED);
} heels_confirmed SEC(".maps");

/* The same under the client's end for handshakes, which a flood may push out, and for connections that have closed. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct heels_tuple);
	__type(value, struct heels_confirmed);
	__uint(max_entries, HEELS_CONFIRM_OTHER);
} heels_confirm_other SEC(".maps");

/* Ends that balancers are to be told of: at once, or when TIME_WAIT is over. Writer: sock_ops. Reader: agent. */
struct heels_ended_queue {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, HEELS_ENDED);
	__type(value, struct heels_ended);
} heels_ended_now SEC(".maps"), heels_ended_later SEC(".maps");

/* CLOCK_MONOTONIC, ns, until which balancers will be told of ends. One entry. Writer: agent. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} heels_confirm_until SEC(".maps");

/* The interface by which a client is reached, 0: none. Writer: agent, from the kernel's routes: bpf_fib_lookup() tells
 * them only to hosts that forward. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct heels_prefix);
	__type(value, __u32);
	__uint(max_entries, HEELS_ROUTES);
} heels_routes SEC(".maps");

/* With a key: the last SYNs, by the client's end and the VIP. One that is pushed out may be sent again by others as long as
 * its tag is good. Writer: tc at ingress. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct heels_tuple);
	__type(value, struct heels_seen);
	__uint(max_entries, HEELS_SEEN);
} heels_seen SEC(".maps");

static __always_inline int heels_after(__u32 a, __u32 b)
{
	return (__s32)(a - b) > 0;
}

/* Whether a TIME_WAIT makes way for a SYN, as tcp_timewait_state_process() decides; stamp is the SYN's, or NULL. If it does not, it refuses the SYN by an
 * acknowledgement, for which any TCP sends a reset that ends the TIME_WAIT, and the SYN again at once; but the client's would go to the VIP.
 */
static __always_inline int heels_makes_way(struct bpf_sock *sk, __u32 seq, const __u32 *stamp)
{
	const struct tcp_timewait_sock *tw = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_timewait_sock));
	int is_stamped = stamp && tw->tw_ts_recent_stamp;
	__s32 later = is_stamped ? *stamp - tw->tw_ts_recent : 0;

	if (tw->tw_sk.tw_substate != BPF_TCP_TIME_WAIT || later < 0)
		return 0;
	return later > 0 || heels_after(seq, tw->tw_sk.__tw_common.skc_tw_rcv_nxt);
}

/* Sequence and acknowledgement are in host order. */
static __always_inline __u32 heels_tcp_word(struct __sk_buff *skb, const struct heels_packet *p, __u32 at)
{
	__u32 word = 0;

	bpf_skb_load_bytes(skb, p->l4 + at, &word, sizeof(word));
	return bpf_ntohl(word);
}

/* Bytes of payload. A short frame may be padded, and a very large packet has no length. */
static __always_inline __u32 heels_payload(struct __sk_buff *skb, const struct heels_packet *p)
{
	__u32 head = p->l4 - p->l3 + p->length;
	__u16 total = 0;

	bpf_skb_load_bytes(skb, p->l3 + __builtin_offsetof(struct iphdr, tot_len), &total, sizeof(total));
	total = bpf_ntohs(total);
	if (!total)
		return skb->len - p->l3 - head;
	return total > head ? total - head : 0;
}

/* ---- Client ---- */

/* The socket goes back to the balancer's path, for good. The balancer has seen all that either end acknowledges: nothing sent directly has arrived. */
static __always_inline void confirm_return(struct heels_flow *f, const struct heels_end *local)
{
	struct heels_tuple key = { .local = *local, .remote = f->vip };

	f->state = HEELS_FLOW_FALLBACK;
	bpf_map_delete_elem(&heels_client_closing, &key);
	heels_count(HEELS_CONFIRM_RETURNED);
}

/* Whether what was sent directly has been acknowledged. */
static __always_inline int confirm_is_proved(const struct heels_flow *f, __u32 acknowledged)
{
	return heels_after(acknowledged, f->mark);
}

/* Other connections of this host that a server could not tell from this one. */
struct confirm_search {
	struct __sk_buff *skb;
	const struct heels_packet *packet;
	struct heels_end peer;
	int found;
};

static long confirm_try(__u32 index, void *context)
{
	struct confirm_search *s = context;
	struct heels_end *vip = bpf_map_lookup_elem(&heels_client_list, &index);
	struct bpf_sock_tuple t = {};
	struct bpf_sock *sk, *full;
	struct heels_flow *f;

	if (!vip)
		return 1;
	if (!addr_is_v4(vip->addr))
		return 0;
	t.ipv4.saddr = heels_ip(vip);
	t.ipv4.sport = vip->port;
	t.ipv4.daddr = s->packet->saddr;
	t.ipv4.dport = s->packet->source;
	sk = bpf_skc_lookup_tcp(s->skb, &t, sizeof(t.ipv4), BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return 0;
	full = sk->state != BPF_TCP_LISTEN ? bpf_sk_fullsock(sk) : 0;
	f = full ? bpf_sk_storage_get(&heels_client_flows, full, 0, 0) : 0;
	if (f && f->state == HEELS_FLOW_DIRECT && heels_end_is(&f->peer, heels_ip(&s->peer), s->peer.port))
		s->found = 1;
	bpf_sk_release(sk);
	/* VERIFIER: a callback may return 0 or 1, and nothing that could be more. */
	return s->found ? 1 : 0;
}

/* Whether another connection of ours, to another VIP or to the server itself, has these two ends on the wire. */
static __always_inline int confirm_is_shared(struct __sk_buff *skb, const struct heels_packet *p,
					     const struct heels_flow *f)
{
	struct confirm_search s = { .skb = skb, .packet = p, .peer = f->peer };
	struct heels_control *c = heels_control_get();
	struct bpf_sock_tuple t = {
		.ipv4 = { .saddr = heels_ip(&f->peer), .sport = f->peer.port, .daddr = p->saddr, .dport = p->source },
	};
	struct bpf_sock *sk = bpf_skc_lookup_tcp(skb, &t, sizeof(t.ipv4), BPF_F_CURRENT_NETNS, 0);

	if (sk) {
		s.found = sk->state != BPF_TCP_LISTEN;
		bpf_sk_release(sk);
	}
	if (!c || s.found)
		return 1;
	bpf_loop(c->client_vip_count, confirm_try, &s, 0);
	return s.found;
}

/* A segment to the VIP while nothing has gone directly: the first one with payload begins. What goes before, the end of the handshake first, is the
 * balancer's to see, and so is a whole connection on which the client has nothing to say. */
static __always_inline void confirm_begin(struct __sk_buff *skb, struct bpf_sock *sk, struct heels_flow *f)
{
	struct heels_packet p;

	if (!heels_is_tcp(skb) || !heels_parse(skb, ETH_HLEN, &p) || !heels_end_is(&f->vip, p.daddr, p.dest))
		return;
	if (!f->begun) {
		f->begun = 1;
		return;
	}
	if (sk->state != BPF_TCP_ESTABLISHED || !heels_payload(skb, &p))
		return;
	if (confirm_is_shared(skb, &p, f)) {
		f->state = HEELS_FLOW_FALLBACK;
		heels_count(HEELS_CONFIRM_SHARED);
		return;
	}
	f->mark = heels_tcp_word(skb, &p, HEELS_TCP_SEQ);
	f->state = HEELS_FLOW_DIRECT;
	heels_count_opened(f, 0);
	heels_count(HEELS_CONFIRM_SWITCHED);
}

/* ---- Server: the handshake ---- */

static __always_inline void confirm_key(struct heels_tuple *key, const struct heels_server_vip *v,
					const struct heels_syn *o)
{
	heels_tuple_set(key, heels_ip(&v->local), v->local.port, o->client, o->client_port);
}

/* Whether a SYN whose tag is good is a copy: of a SYN that came another way, or of an older one than the last. A client's
 * sequence numbers for one VIP and port rise (RFC 6528). Where they seem not to, as after 2 GiB in a slot, the balancer's
 * path serves. */
static __always_inline int confirm_is_replayed(const struct heels_packet *p, const struct heels_syn *o, __u32 number)
{
	struct heels_seen *seen;
	struct heels_tuple key;

	heels_tuple_set(&key, o->client, o->client_port, o->vip, o->vip_port);
	seen = bpf_map_lookup_elem(&heels_seen, &key);
	if (!seen || heels_slot() - seen->slot >= HEELS_SLOTS)
		return 0;
	if (seen->number == number)
		return !heels_end_is(&seen->from, p->saddr, p->source);
	return !heels_after(number, seen->number);
}

static __always_inline void confirm_see(const struct heels_packet *p, const struct heels_syn *o, __u32 number)
{
	struct heels_seen seen = { .number = number, .slot = heels_slot() };
	struct heels_tuple key;

	heels_tuple_set(&key, o->client, o->client_port, o->vip, o->vip_port);
	heels_end_set4(&seen.from, p->saddr, p->source);
	bpf_map_update_elem(&heels_seen, &key, &seen, BPF_ANY);
}

/* Whether a connection in confirm mode has the client's end already. Its own SYN may come again. */
static __always_inline int confirm_is_held(const struct heels_packet *p, const struct heels_server_vip *v,
					   const struct heels_syn *o)
{
	struct heels_confirmed *e;
	struct heels_tuple key;

	confirm_key(&key, v, o);
	if (bpf_map_lookup_elem(&heels_confirmed, &key))
		return 1;
	e = bpf_map_lookup_elem(&heels_confirm_other, &key);
	return e && e->since + CONFIRM_HANDSHAKE_NS > bpf_ktime_get_ns() &&
	       !heels_end_is(&e->balancer, p->saddr, p->source);
}

/* The flow of a live connection whose balancer's end a SYN has, and is not its own SYN that comes again: the balancer has
 * forgotten the connection, and given its end to another one. NULL when there is none. The socket is the caller's to
 * release. */
static __always_inline struct heels_flow *confirm_forgotten(struct __sk_buff *skb, const struct heels_packet *p,
							    struct bpf_sock **sk)
{
	struct bpf_sock_tuple t = {
		.ipv4 = { .saddr = p->saddr, .sport = p->source, .daddr = p->daddr, .dport = p->dest },
	};
	struct heels_confirmed *e;
	struct heels_tuple key;
	struct bpf_sock *full;
	struct heels_flow *f;

	*sk = 0;
	heels_tuple_set(&key, p->daddr, p->dest, p->saddr, p->source);
	e = bpf_map_lookup_elem(&heels_confirmed, &key);
	if (!e || !heels_end_is(&e->balancer, p->saddr, p->source))
		return 0;
	*sk = bpf_skc_lookup_tcp(skb, &t, sizeof(t.ipv4), BPF_F_CURRENT_NETNS, 0);
	if (!*sk)
		return 0;
	full = (*sk)->state != BPF_TCP_LISTEN && (*sk)->state != BPF_TCP_TIME_WAIT ? bpf_sk_fullsock(*sk) : 0;
	f = full ? bpf_sk_storage_get(&heels_server_flows, full, 0, 0) : 0;
	return f && f->confirm && f->syn != heels_tcp_word(skb, p, HEELS_TCP_SEQ) ? f : 0;
}

/* Whether a SYN with the option has the balancer's end of a live connection. */
static __always_inline int confirm_is_forgotten(struct __sk_buff *skb, const struct heels_packet *p)
{
	struct bpf_sock *sk;
	int is = confirm_forgotten(skb, p, &sk) != 0;

	if (sk)
		bpf_sk_release(sk);
	return is;
}

/* A SYN that we have no part in, with the balancer's end of a live connection: the socket acknowledges, as any TCP does
 * (RFC 5961, section 4), and that goes by way of the balancer to whoever has sent the SYN. */
static __always_inline void confirm_meet_plain(struct __sk_buff *skb, const struct heels_packet *p)
{
	struct bpf_sock *sk;
	struct heels_flow *f = confirm_forgotten(skb, p, &sk);

	if (f)
		f->challenged = 1;
	if (sk)
		bpf_sk_release(sk);
}

/* Whether somebody will tell the balancer of the end. */
static __always_inline int confirm_is_told(void)
{
	__u32 zero = 0;
	__u64 *until = bpf_map_lookup_elem(&heels_confirm_until, &zero);

	return until && *until > bpf_ktime_get_ns();
}

/* For what no full socket sends. */
static __always_inline void confirm_remember(const struct heels_tuple *key, const struct heels_confirmed *e)
{
	struct heels_closing closing = { .vip = e->vip, .peer = e->client, .confirm = 1 };
	struct heels_tuple at = { .local = key->local, .remote = e->balancer };

	bpf_map_update_elem(&heels_server_closing, &at, &closing, BPF_ANY);
}

/* A TIME_WAIT refuses the SYN, and acknowledges what the balancer has not seen, which would drop that. The client gets it directly: the TIME_WAIT is that of its own last
 * connection, or the balancer would not have given it the same end.
 */
static __always_inline void confirm_refuse(const struct heels_packet *p, const struct heels_syn *o)
{
	struct heels_confirmed e = {};
	struct heels_tuple key = {};

	heels_end_set4(&key.local, p->daddr, p->dest);
	heels_end_set4(&e.balancer, p->saddr, p->source);
	heels_end_set4(&e.client, o->client, o->client_port);
	heels_end_set4(&e.vip, o->vip, o->vip_port);
	confirm_remember(&key, &e);
}

/* The number of the interface by which a client is reached, 0: none is known. */
static __always_inline __u32 confirm_device(__u32 client)
{
	struct heels_prefix key = { .length = 64 + 128, .set = HEELS_ROUTED };
	__u32 *device;

	addr_set4(key.addr, client);
	device = bpf_map_lookup_elem(&heels_routes, &key);
	return device ? *device : 0;
}

/* Whether a SYN that stays as it is comes to a listener that will answer, and the client's end is nobody's. stamp is the SYN's, or NULL. */
static __always_inline enum heels_verdict confirm_decide(struct __sk_buff *skb, const struct heels_packet *p,
							 const struct heels_syn *o, const struct heels_server_vip *v,
							 const __u32 *stamp)
{
	struct bpf_sock_tuple t = {
		.ipv4 = { .saddr = o->client,
			  .sport = o->client_port,
			  .daddr = heels_ip(&v->local),
			  .dport = v->local.port },
	};
	enum heels_verdict verdict = HEELS_DECLINE_COLLISION;
	struct bpf_sock *sk;
	int taken;

	if (!confirm_is_told())
		return HEELS_DECLINE_AGENT;
	/* A client on the balancer itself: nobody could tell its two ways apart. */
	if (o->client == p->saddr)
		return HEELS_DECLINE_CLIENT;
	if (!confirm_device(o->client))
		return HEELS_DECLINE_ROUTE;
	sk = bpf_skc_lookup_tcp(skb, &t, sizeof(t.ipv4), BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return HEELS_DECLINE_NO_LISTENER;
	taken = sk->state != BPF_TCP_LISTEN;
	bpf_sk_release(sk);
	if (taken)
		return HEELS_DECLINE_COLLISION;
	t.ipv4.saddr = p->saddr;
	t.ipv4.sport = p->source;
	sk = bpf_skc_lookup_tcp(skb, &t, sizeof(t.ipv4), BPF_F_CURRENT_NETNS, 0);
	if (!sk)
		return HEELS_DECLINE_NO_LISTENER;
	if (sk->state == BPF_TCP_LISTEN) {
		verdict = heels_is_ready(sk) ? HEELS_OK : HEELS_DECLINE_LISTENER;
	} else if (sk->state == BPF_TCP_NEW_SYN_RECV) {
		verdict = HEELS_OK;
	} else if (sk->state == BPF_TCP_TIME_WAIT) {
		verdict = HEELS_OK;
		if (!heels_makes_way(sk, heels_tcp_word(skb, p, HEELS_TCP_SEQ), stamp))
			confirm_refuse(p, o);
	}
	bpf_sk_release(sk);
	return verdict;
}

static __always_inline int confirm_is_taken(const struct heels_syn *o)
{
	struct heels_control *c = heels_control_get();

	return c && o->tag == heels_syn_mark(c->secret, o, HEELS_TAG_CONFIRM);
}

/* Under SYN cookies the SYN is forgotten, and with it the client: there is no answer. */
static __always_inline int confirm_is_cookie(struct bpf_sock_ops *ops)
{
	if (ops->args[0] != BPF_WRITE_HDR_TCP_SYNACK_COOKIE)
		return 0;
	heels_count(HEELS_CONFIRM_COOKIE);
	return 1;
}

/* The answer, and what the client's first direct segment needs, which may overtake the end of the handshake. */
static __always_inline void confirm_answer(struct bpf_sock_ops *ops, const struct heels_syn *o)
{
	struct heels_synack answer = {
		.kind = heels_kind, .length = sizeof(answer), .exid = heels_exid, .flags = HEELS_ANSWER_CONFIRMS
	};
	struct heels_control *c = heels_control_get();
	struct heels_confirmed e = {};
	struct heels_tuple key = {};

	if (!c)
		return;
	heels_local(ops, &key.local);
	heels_remote(ops, &e.balancer);
	heels_end_set4(&e.client, o->client, o->client_port);
	heels_end_set4(&e.vip, o->vip, o->vip_port);
	e.since = bpf_ktime_get_ns();
	key.remote = e.client;
	answer.addr = heels_ip(&key.local);
	answer.port = key.local.port;
	if (c->key_count)
		answer.tag = heels_synack_tag(c->keys[0], &answer, o->client, o->client_port, o->vip, o->vip_port,
					      heels_answered(ops));
	bpf_map_update_elem(&heels_confirm_other, &key, &e, BPF_ANY);
	if (bpf_store_hdr_opt(ops, &answer, sizeof(answer), 0))
		heels_count(HEELS_ANSWER_NO_ROOM);
	else
		heels_count(HEELS_CONFIRM_ANSWERED);
}

/* What has been heard directly: replies go the same way from now on. */
static __always_inline void confirm_hear(struct heels_flow *f, __u32 mark)
{
	if (f->state == HEELS_FLOW_DIRECT)
		return;
	f->mark = mark;
	f->state = HEELS_FLOW_DIRECT;
	if (!f->begun)
		heels_count_opened(f, 1);
	f->begun = 1;
	heels_count(HEELS_CONFIRM_HEARD);
}

/* What a map has of a connection under the client's end, or NULL: that may be another connection's by now. */
static __always_inline struct heels_confirmed *confirm_entry(void *map, const struct heels_tuple *direct,
							     const struct heels_end *balancer)
{
	struct heels_confirmed *e = bpf_map_lookup_elem(map, direct);

	return e && heels_end_is(&e->balancer, heels_ip(balancer), balancer->port) ? e : 0;
}

/* Makes the two entries of a connection. False when one is taken, or there is no room. */
static __always_inline int confirm_enter(const struct heels_tuple *direct, const struct heels_tuple *detour,
					 const struct heels_confirmed *e)
{
	if (bpf_map_update_elem(&heels_confirmed, direct, e, BPF_NOEXIST))
		return 0;
	if (!bpf_map_update_elem(&heels_confirmed, detour, e, BPF_ANY))
		return 1;
	bpf_map_delete_elem(&heels_confirmed, direct);
	return 0;
}

/* Takes the entries of a connection away, those under the client's end unless they are another's by now. */
static __always_inline void confirm_leave(const struct heels_tuple *direct, const struct heels_tuple *detour)
{
	if (confirm_entry(&heels_confirmed, direct, &detour->remote))
		bpf_map_delete_elem(&heels_confirmed, direct);
	if (confirm_entry(&heels_confirm_other, direct, &detour->remote))
		bpf_map_delete_elem(&heels_confirm_other, direct);
	bpf_map_delete_elem(&heels_confirmed, detour);
}

/* A handshake has ended. The client may have been heard already, and may be being heard on another CPU: whoever comes second sees what the first has done. */
static __always_inline void confirm_accept(struct bpf_sock_ops *ops, struct bpf_sock *sk, const struct heels_syn *o)
{
	struct heels_tuple direct = {}, detour = {};
	struct heels_confirmed e = {}, *other, *live;
	struct heels_flow *f;

	heels_local(ops, &detour.local);
	heels_remote(ops, &detour.remote);
	heels_end_set4(&e.client, o->client, o->client_port);
	heels_end_set4(&e.vip, o->vip, o->vip_port);
	e.balancer = detour.remote;
	e.since = bpf_ktime_get_ns();
	direct.local = detour.local;
	direct.remote = e.client;
	if (!confirm_enter(&direct, &detour, &e)) {
		/* What comes directly is answered by a reset, and the client returns. */
		bpf_map_delete_elem(&heels_confirm_other, &direct);
		heels_count(HEELS_ACCEPT_NO_MEMORY);
		return;
	}
	/* Either the SYN of a plain connection with the client's end sees the entry, or this sees that it has come. */
	other = confirm_entry(&heels_confirm_other, &direct, &e.balancer);
	if (!other) {
		confirm_leave(&direct, &detour);
		heels_count(HEELS_CONFIRM_YIELDED);
		return;
	}
	f = bpf_sk_storage_get(&heels_server_flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!f) {
		confirm_leave(&direct, &detour);
		heels_count(HEELS_ACCEPT_NO_MEMORY);
		return;
	}
	f->vip = e.vip;
	f->peer = detour.local;
	f->client = e.client;
	f->confirm = 1;
	f->seen = ops->rcv_nxt;
	/* Nothing but the SYN was received yet. */
	f->syn = ops->rcv_nxt - 1;
	f->state = HEELS_FLOW_WAITING;
	heels_want(ops, BPF_SOCK_OPS_STATE_CB_FLAG);
	heels_count(HEELS_CONFIRM_ACCEPTED);
	live = confirm_entry(&heels_confirmed, &direct, &e.balancer);
	if (other->heard) {
		if (live) {
			live->mark = other->mark;
			live->heard = 1;
		}
		confirm_hear(f, other->mark);
	} else if (live && live->heard) {
		confirm_hear(f, live->mark);
	}
}

/* ---- Server: segments that come ---- */

/* A SYN of whomever: what an earlier connection with these two ends has left goes. True when it has the ends of one that goes around a balancer: that
 * one's socket gets it, as if both were the same. Of one that was never heard from there nothing but its SYN names the
 * client, and whoever sends that names whom he likes: it yields, and stays with the balancer. */
static __always_inline int confirm_meet_syn(struct __sk_buff *skb, const struct heels_packet *p)
{
	struct heels_control *c = heels_control_get();
	struct heels_closing *closing;
	struct heels_confirmed *e;
	struct heels_tuple key;

	if (!c || !(c->flags & HEELS_SERVER_CONFIRMS))
		return 0;
	heels_tuple_set(&key, p->daddr, p->dest, p->saddr, p->source);
	closing = bpf_map_lookup_elem(&heels_server_closing, &key);
	if (closing && !heels_end_is(&closing->peer, p->daddr, p->dest))
		bpf_map_delete_elem(&heels_server_closing, &key);
	/* Of a handshake, too: whoever has it has a socket for this SYN now, and will not send directly. */
	if (bpf_map_lookup_elem(&heels_confirm_other, &key))
		bpf_map_delete_elem(&heels_confirm_other, &key);
	e = bpf_map_lookup_elem(&heels_confirmed, &key);
	if (!e || !heels_end_is(&e->client, p->saddr, p->source))
		return 0;
	if (e->heard) {
		heels_set_source(skb, p, heels_ip(&e->balancer), e->balancer.port);
		return 1;
	}
	bpf_map_delete_elem(&heels_confirmed, &key);
	heels_count(HEELS_CONFIRM_YIELDED);
	return 0;
}

static __always_inline struct bpf_sock *confirm_socket(struct __sk_buff *skb, const struct heels_tuple *key,
						       const struct heels_confirmed *e)
{
	struct bpf_sock_tuple t = {
		.ipv4 = { .saddr = heels_ip(&e->balancer),
			  .sport = e->balancer.port,
			  .daddr = heels_ip(&key->local),
			  .dport = key->local.port },
	};

	return bpf_skc_lookup_tcp(skb, &t, sizeof(t.ipv4), BPF_F_CURRENT_NETNS, 0);
}

/* Whether a number lies in what has been counted up to an edge: no further back than the bytes that
 * there were, or than a window. */
static __always_inline int confirm_is_within(__u32 number, __u32 edge, __u64 bytes, __u32 window)
{
	__u32 back = bytes < window ? bytes : window;

	return !heels_after(edge - back, number);
}

/* Whether the client may have sent a segment with these numbers: it acknowledges what has been sent,
 * and is in the window, or in the one before that for what is sent again. One that was made up says
 * nothing of its connection, and whoever cannot see that has to hit both (RFC 5961). */
static __always_inline int confirm_is_genuine(struct bpf_sock *sk, __u32 seq, __u32 acknowledged)
{
	struct tcp_request_sock *half;
	struct bpf_sock *full;
	struct tcp_sock *tp;

	if (sk->state == BPF_TCP_NEW_SYN_RECV) {
		half = bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_request_sock));
		return acknowledged == half->snt_isn + 1 && heels_after(seq, half->rcv_isn);
	}
	full = sk->state != BPF_TCP_LISTEN ? bpf_sk_fullsock(sk) : 0;
	tp = full ? bpf_skc_to_tcp_sock(full) : 0;
	return tp && !heels_after(acknowledged, tp->snd_nxt) &&
	       confirm_is_within(acknowledged, tp->snd_una, tp->bytes_acked, tp->max_window) &&
	       !heels_after(seq, tp->rcv_wup + tp->rcv_wnd) &&
	       confirm_is_within(seq, tp->rcv_nxt, tp->bytes_received, tp->window_clamp);
}

/* The first direct segment of a connection, or the first since its client has returned to the balancer. */
static __always_inline void confirm_first(struct __sk_buff *skb, const struct heels_packet *p,
					  const struct heels_tuple *key, struct heels_confirmed *e)
{
	__u32 mark = heels_tcp_word(skb, p, HEELS_TCP_ACK_SEQ);
	struct bpf_sock *sk = confirm_socket(skb, key, e), *full = 0;
	struct heels_confirmed *live;
	struct heels_flow *f;
	int is_genuine;

	if (!sk)
		return;
	is_genuine = confirm_is_genuine(sk, heels_tcp_word(skb, p, HEELS_TCP_SEQ), mark);
	bpf_sk_release(sk);
	if (!is_genuine)
		return;
	e->mark = mark;
	__sync_lock_test_and_set(&e->heard, 1);
	/* The handshake may end on another CPU: confirm_accept. */
	live = confirm_entry(&heels_confirmed, key, &e->balancer);
	if (live) {
		live->mark = mark;
		__sync_lock_test_and_set(&live->heard, 1);
	}
	sk = confirm_socket(skb, key, e);
	if (!sk)
		return;
	if (sk->state == BPF_TCP_LISTEN || sk->state == BPF_TCP_NEW_SYN_RECV) {
		bpf_sk_release(sk);
		return;
	}
	full = bpf_sk_fullsock(sk);
	f = full ? bpf_sk_storage_get(&heels_server_flows, full, 0, 0) : 0;
	if (f && f->confirm)
		confirm_hear(f, mark);
	if (sk->state != BPF_TCP_ESTABLISHED)
		confirm_remember(key, e);
	bpf_sk_release(sk);
}

/* A genuine segment by way of the balancer. When the client has been heard directly, one that goes on
 * where the balancer's way has ended says that the client has not heard us, and has returned. */
static __always_inline void confirm_follow(struct heels_flow *f, const struct heels_tuple *direct,
					   const struct heels_end *balancer, __u32 seq, __u32 end)
{
	struct heels_confirmed *live;

	if (!heels_after(end, f->seen))
		return;
	if (f->state == HEELS_FLOW_DIRECT) {
		if (heels_after(seq, f->seen))
			return;
		f->state = HEELS_FLOW_WAITING;
		live = confirm_entry(&heels_confirmed, direct, balancer);
		if (live)
			live->heard = 0;
		heels_count(HEELS_CONFIRM_BACK);
	}
	f->seen = end;
}

/* A reset by way of the balancer. If TCP takes it (RFC 5961, section 3), whoever has the balancer's end now has asked for
 * it, or the balancer itself. */
static __always_inline void confirm_reset(struct bpf_sock *full, struct heels_flow *f, __u32 seq)
{
	struct tcp_sock *tp = full ? bpf_skc_to_tcp_sock(full) : 0;

	if (tp && f && f->confirm && tp->rcv_nxt == seq)
		f->passed_on = 1;
}

/* A segment that came by way of the balancer: one without payload says nothing, but for a reset. */
static __always_inline void confirm_detour(struct __sk_buff *skb, const struct heels_packet *p,
					   const struct heels_tuple *key, const struct heels_confirmed *e)
{
	__u32 length = heels_payload(skb, p), seq = heels_tcp_word(skb, p, HEELS_TCP_SEQ);
	struct heels_tuple direct = { .local = key->local, .remote = e->client };
	struct bpf_sock *sk, *full;
	struct heels_flow *f;

	if (p->flags & HEELS_TCP_FIN)
		length++;
	if (!(p->flags & HEELS_TCP_RST) && (!length || !(p->flags & HEELS_TCP_ACK)))
		return;
	sk = confirm_socket(skb, key, e);
	if (!sk)
		return;
	full = sk->state != BPF_TCP_LISTEN ? bpf_sk_fullsock(sk) : 0;
	f = full ? bpf_sk_storage_get(&heels_server_flows, full, 0, 0) : 0;
	if (p->flags & HEELS_TCP_RST)
		confirm_reset(full, f, seq);
	else if (f && f->confirm && confirm_is_genuine(sk, seq, heels_tcp_word(skb, p, HEELS_TCP_ACK_SEQ)))
		confirm_follow(f, &direct, &key->remote, seq, seq + length);
	bpf_sk_release(sk);
}

/* Whether the balancer has given the end of a connection that has closed to another one. A late segment of the closed one's client has no part in that. */
static __always_inline int confirm_is_passed_on(struct __sk_buff *skb, const struct heels_tuple *key,
						const struct heels_confirmed *e)
{
	struct bpf_sock *sk, *full;
	struct heels_flow *f;
	int is_passed_on;

	if (e->since)
		return 0;
	sk = confirm_socket(skb, key, e);
	if (!sk)
		return 0;
	full = sk->state == BPF_TCP_NEW_SYN_RECV ? 0 : bpf_sk_fullsock(sk);
	f = full ? bpf_sk_storage_get(&heels_server_flows, full, 0, 0) : 0;
	/* Of the closed one there may be a TIME_WAIT or, for a moment, the socket itself. */
	is_passed_on = sk->state != BPF_TCP_LISTEN && sk->state != BPF_TCP_TIME_WAIT &&
		       !(f && f->confirm && heels_end_is(&f->client, heels_ip(&e->client), e->client.port));
	bpf_sk_release(sk);
	return is_passed_on;
}

/* A segment that is no SYN. A function of its own because of the stack. A direct one gets the balancer's end for a source. */
static __noinline int confirm_segment(struct __sk_buff *skb)
{
	struct heels_control *c = heels_control_get();
	struct heels_confirmed *e;
	struct heels_packet p;
	struct heels_tuple key;

	if (!c || !(c->flags & HEELS_SERVER_CONFIRMS) || !heels_parse(skb, ETH_HLEN, &p))
		return HEELS_NEXT;
	heels_tuple_set(&key, p.daddr, p.dest, p.saddr, p.source);
	e = bpf_map_lookup_elem(&heels_confirmed, &key);
	if (!e) {
		e = bpf_map_lookup_elem(&heels_confirm_other, &key);
		if (!e || confirm_is_passed_on(skb, &key, e))
			return HEELS_NEXT;
	}
	if (heels_end_is(&e->balancer, p.saddr, p.source)) {
		confirm_detour(skb, &p, &key, e);
		return HEELS_NEXT;
	}
	if (!e->heard && p.flags & HEELS_TCP_ACK)
		confirm_first(skb, &p, &key, e);
	heels_set_source(skb, &p, heels_ip(&e->balancer), e->balancer.port);
	return HEELS_NEXT;
}

/* ---- Server: segments that go ---- */

/* A socket that nobody has connected: the agent tells a balancer of an end. The kernel's own, for segments of no full socket, is raw, too, and of TCP: before
 * Linux 6.13 it is seen here. */
static __always_inline int confirm_is_raw(struct bpf_sock *sk)
{
	return sk->type == HEELS_SOCK_RAW && sk->protocol != IPPROTO_TCP;
}

/* Once more through the balancer: it takes no acknowledgement of what it has not seen. The client sends the rest again, by way of the balancer. */
static __always_inline void confirm_clamp(struct __sk_buff *skb, const struct heels_packet *p,
					  const struct heels_flow *f)
{
	__u32 ack = heels_tcp_word(skb, p, HEELS_TCP_ACK_SEQ), from = bpf_htonl(ack), to = bpf_htonl(f->seen);

	if (!(p->flags & HEELS_TCP_ACK) || !heels_after(ack, f->seen))
		return;
	if (bpf_l4_csum_replace(skb, p->l4 + HEELS_TCP_CHECK, from, to, sizeof(to)) ||
	    bpf_skb_store_bytes(skb, p->l4 + HEELS_TCP_ACK_SEQ, &to, sizeof(to), 0))
		heels_count(HEELS_REWRITE_FAILED);
}

/* The packet was routed to the balancer: as the client does for a server (client_route). Where the client is reached by
 * another interface, the packet leaves by that. */
static __always_inline int confirm_route(struct __sk_buff *skb, const struct heels_flow *f, __u32 client)
{
	__u32 device;

	if (f && f->device == skb->ifindex && f->route_until > bpf_ktime_get_coarse_ns()) {
		bpf_skb_store_bytes(skb, 0, f->mac, sizeof(f->mac), 0);
		return HEELS_NEXT;
	}
	device = confirm_device(client);
	if (!device)
		device = skb->ifindex;
	heels_count(HEELS_CONFIRM_ROUTED);
	return bpf_redirect_neigh(device, 0, 0, 0);
}

/* Whether it is nothing but an acknowledgement. */
static __always_inline int confirm_is_bare(struct __sk_buff *skb, const struct heels_packet *p)
{
	return (p->flags & HEELS_TCP_HANDSHAKE) == HEELS_TCP_ACK && !heels_payload(skb, p);
}

/* What a full socket sends. */
static __always_inline int confirm_send(struct __sk_buff *skb, struct heels_flow *f)
{
	struct heels_packet p;

	if (!heels_is_tcp(skb) || !heels_parse(skb, ETH_HLEN, &p))
		return HEELS_NEXT;
	if (heels_end_is(&f->vip, p.saddr, p.source)) {
		if (heels_end_is(&f->client, p.daddr, p.dest) && !bpf_skb_load_bytes(skb, 0, f->mac, sizeof(f->mac))) {
			f->device = skb->ifindex;
			f->route_until = bpf_ktime_get_coarse_ns() + CONFIRM_ROUTE_NS;
		}
		return HEELS_NEXT;
	}
	/* What a tunnel has wrapped still belongs to the socket. */
	if (!heels_end_is(&f->peer, p.saddr, p.source))
		return HEELS_NEXT;
	if (f->challenged && confirm_is_bare(skb, &p)) {
		f->challenged = 0;
		heels_count(HEELS_CONFIRM_CHALLENGED);
		return HEELS_NEXT;
	}
	if (f->state != HEELS_FLOW_DIRECT) {
		if (f->begun)
			confirm_clamp(skb, &p, f);
		return HEELS_NEXT;
	}
	if (heels_set_source(skb, &p, heels_ip(&f->vip), f->vip.port) ||
	    heels_set_dest(skb, &p, heels_ip(&f->client), f->client.port))
		return HEELS_NEXT;
	return confirm_route(skb, f, heels_ip(&f->client));
}

/* What no full socket sends, from the VIP already. */
static __always_inline int confirm_send_closing(struct __sk_buff *skb, const struct heels_packet *p,
						const struct heels_closing *c)
{
	if (heels_set_dest(skb, p, heels_ip(&c->peer), c->peer.port))
		return HEELS_NEXT;
	heels_count(HEELS_CONFIRM_CLOSING);
	return confirm_route(skb, 0, heels_ip(&c->peer));
}

/* ---- Server: the end ---- */

/* The balancer would hold the connection for days. It takes a reset for good whose number lies between what it has seen acknowledged and what may come. Where
 * the socket leaves a TIME_WAIT behind, it is told later: until then it must not give the client's end to another. */
static __always_inline void confirm_tell(struct bpf_sock_ops *ops, const struct heels_tuple *detour, __u32 mark)
{
	struct heels_ended ended = {
		.local = detour->local, .remote = detour->remote, .seq = mark, .at = bpf_ktime_get_ns()
	};
	__u32 from = ops->args[0];
	long failed;

	if (from == BPF_TCP_FIN_WAIT1 || from == BPF_TCP_FIN_WAIT2 || from == BPF_TCP_CLOSING)
		failed = bpf_map_push_elem(&heels_ended_later, &ended, 0);
	else
		failed = bpf_map_push_elem(&heels_ended_now, &ended, 0);
	if (failed)
		heels_count(HEELS_CONFIRM_UNTOLD);
}

static __always_inline void confirm_close(struct bpf_sock_ops *ops, const struct heels_flow *f)
{
	struct heels_tuple direct = {}, detour = {};
	struct heels_confirmed e = {
		.vip = f->vip, .client = f->client, .mark = f->mark, .heard = f->state == HEELS_FLOW_DIRECT
	};

	heels_local(ops, &detour.local);
	heels_remote(ops, &detour.remote);
	direct.local = detour.local;
	direct.remote = f->client;
	e.balancer = detour.remote;
	if (confirm_entry(&heels_confirmed, &direct, &e.balancer)) {
		bpf_map_update_elem(&heels_confirm_other, &direct, &e, BPF_ANY);
		bpf_map_delete_elem(&heels_confirmed, &direct);
	}
	bpf_map_delete_elem(&heels_confirmed, &detour);
	if (f->state != HEELS_FLOW_DIRECT)
		return;
	heels_count_closed(ops, f, 1);
	if (!f->passed_on)
		confirm_tell(ops, &detour, f->mark);
}

static __always_inline void confirm_state(struct bpf_sock_ops *ops, struct heels_flow *f)
{
	struct heels_confirmed e = { .vip = f->vip, .client = f->client };
	struct heels_tuple key = {};

	if (f->state == HEELS_FLOW_DIRECT && heels_is_leaving(ops, 1)) {
		heels_local(ops, &key.local);
		heels_remote(ops, &e.balancer);
		confirm_remember(&key, &e);
	}
	if (heels_is_over(ops, f))
		confirm_close(ops, f);
}

#endif
