/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* HEELS: every map, its writers, readers and lifetime. All are pinned, so that connections outlive the agent.
 */
#ifndef XLB_HEELS_MAPS_H
#define XLB_HEELS_MAPS_H

#include <linux/bpf.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "addr.h"
#include "heels.h"
#include "heels_tag.h"

/* Constants that the loader sets. */
const volatile __u8 heels_kind = 254;
/* Network order. */
const volatile __u16 heels_exid = 0;

/* One entry. Writer: agent. Readers: all programs. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct heels_control);
	__uint(max_entries, 1);
} heels_control SEC(".maps");

/* VIPs of the client role. Writers: agent (entries), client (back-off). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct heels_end);
	__type(value, struct heels_client_vip);
	__uint(max_entries, HEELS_CLIENT_VIPS);
} heels_client_vips SEC(".maps");

/* The same by index, for those who have to try them all. Writer: agent. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct heels_end);
	__uint(max_entries, HEELS_CLIENT_VIPS);
} heels_client_list SEC(".maps");

/* VIPs of the server role. Writer: agent. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct heels_end);
	__type(value, struct heels_server_vip);
	__uint(max_entries, HEELS_SERVER_VIPS);
} heels_server_vips SEC(".maps");

/* Ports that listeners of the server role have, in network order. Writer: agent. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u16);
	__type(value, __u8);
	__uint(max_entries, 2 * HEELS_SERVER_VIPS);
} heels_ports SEC(".maps");

/* Balancers, clients and backends that a VIP allows. Writer: agent. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct heels_prefix);
	__type(value, __u8);
	__uint(max_entries, 4 * HEELS_PREFIXES);
} heels_prefixes SEC(".maps");

/* Connections of the client role, from connect() on. Writer: sock_ops of the client. Gone with the socket. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct heels_flow);
} heels_client_flows SEC(".maps");

/* Connections of the server role, from the end of the handshake on. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct heels_flow);
} heels_server_flows SEC(".maps");

/* Listeners whose SYNs are kept and whose SYN-ACKs pass sock_ops: only for those may a SYN be committed to. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u32);
} heels_listeners SEC(".maps");

/* Connections that begin to close, for segments that no full socket sends: from FIN_WAIT2, TIME_WAIT, or none. Writers: sock_ops. */
struct heels_closing_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct heels_tuple);
	__type(value, struct heels_closing);
	__uint(max_entries, HEELS_CLOSING);
} heels_client_closing SEC(".maps"), heels_server_closing SEC(".maps");

/* Next hops to servers, for the first packet of a connection. Writer: tc of the client, when the kernel has found one. An entry counts for a second. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct heels_hop_key);
	__type(value, struct heels_hop);
	__uint(max_entries, HEELS_HOPS);
} heels_client_hops SEC(".maps");

/* Handshakes under SYN cookies, which keep no SYN, by the ends of the host's own stack: the tag is over those, a sequence
 * number is anybody's to choose. Writer: sock_ops at the SYN-ACK. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct heels_tuple);
	__type(value, struct heels_cookie);
	__uint(max_entries, HEELS_COOKIES);
} heels_cookies SEC(".maps");

/* Wrong tags by the VIP's index, and by client. A client that is pushed out begins anew; its VIP's count stands. Writer: tc
 * of the server. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct heels_guesses);
	__uint(max_entries, HEELS_SERVER_VIPS);
} heels_guesses SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, struct heels_guesser);
	__type(value, struct heels_guesses);
	__uint(max_entries, HEELS_GUESSERS);
} heels_guessers SEC(".maps");

/* Counters of finished connections. Writers: sock_ops. Reader: agent. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct heels_backend);
	__type(value, struct heels_traffic);
	__uint(max_entries, HEELS_BACKENDS);
} heels_traffic SEC(".maps");

/* How often each verdict was given. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, HEELS_VERDICTS);
} heels_verdicts SEC(".maps");

static __always_inline void heels_count(enum heels_verdict v)
{
	__u32 key = v;
	__u64 *n = bpf_map_lookup_elem(&heels_verdicts, &key);

	if (n)
		__sync_fetch_and_add(n, 1);
}

#define HEELS_GUESS_NS 1000000000ULL

static __always_inline void heels_guesser(struct heels_guesser *key, __u32 vip, const __u8 *addr)
{
	__builtin_memset(key, 0, sizeof(*key));
	__builtin_memcpy(key->addr, addr, sizeof(key->addr));
	if (!addr_is_v4(addr))
		__builtin_memset(key->addr + 8, 0, 8);
	key->vip = vip;
}

static __always_inline int heels_is_spent(const struct heels_guesses *g, __u32 limit, __u64 now)
{
	return g && g->count >= limit && now - g->since < HEELS_GUESS_NS;
}

/* Whether somebody tries tags for a VIP, or in this client's name: 32 bits are few where millions may be tried in a second.
 * The balancer's path serves meanwhile. */
static __always_inline int heels_is_guessed(__u32 vip, const __u8 *client)
{
	struct heels_guesses *all = bpf_map_lookup_elem(&heels_guesses, &vip), *each;
	struct heels_guesser key;
	__u64 now = bpf_ktime_get_ns();

	heels_guesser(&key, vip, client);
	each = bpf_map_lookup_elem(&heels_guessers, &key);
	if (!heels_is_spent(all, HEELS_GUESSES, now) && !heels_is_spent(each, HEELS_GUESSES_EACH, now))
		return 0;
	if (all) {
		__sync_fetch_and_add(&all->refused, 1);
		all->refused_at = now;
	}
	return 1;
}

static __always_inline void heels_guess_one(struct heels_guesses *g, __u64 now)
{
	if (now - g->since >= HEELS_GUESS_NS) {
		g->count = 0;
		g->since = now;
	}
	__sync_fetch_and_add(&g->count, 1);
}

/* A tag was wrong. */
static __always_inline void heels_guess(__u32 vip, const __u8 *client)
{
	struct heels_guesses *all = bpf_map_lookup_elem(&heels_guesses, &vip), *each;
	struct heels_guesses fresh = { .since = bpf_ktime_get_ns(), .count = 1 };
	struct heels_guesser key;

	if (all)
		heels_guess_one(all, fresh.since);
	heels_guesser(&key, vip, client);
	each = bpf_map_lookup_elem(&heels_guessers, &key);
	if (each)
		heels_guess_one(each, fresh.since);
	else
		bpf_map_update_elem(&heels_guessers, &key, &fresh, BPF_ANY);
}

static __always_inline struct heels_control *heels_control_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&heels_control, &zero);
}

static __always_inline void heels_end_set4(struct heels_end *e, __u32 ip, __u16 port)
{
	addr_set4(e->addr, ip);
	e->port = port;
	e->zero = 0;
}

static __always_inline __u32 heels_ip(const struct heels_end *e)
{
	return ((const __u32 *)e->addr)[3];
}

static __always_inline int heels_end_is(const struct heels_end *e, __u32 ip, __u16 port)
{
	return addr_is_v4(e->addr) && heels_ip(e) == ip && e->port == port;
}

static __always_inline int heels_allows(enum heels_set set, __u32 vip, __u32 ip)
{
	struct heels_prefix key = { .length = 64 + 128, .set = set, .vip = vip };

	addr_set4(key.addr, ip);
	return bpf_map_lookup_elem(&heels_prefixes, &key) != 0;
}

/* The counters of a pair, or NULL when there are too many. */
static __always_inline struct heels_traffic *heels_traffic_of(const struct heels_flow *f, __u32 server)
{
	struct heels_backend key = { .vip = f->vip, .peer = f->peer, .server = server };
	struct heels_traffic none = {}, *t;

	/* A server has one address; its port stays, clients' peers have theirs. */
	t = bpf_map_lookup_elem(&heels_traffic, &key);
	if (t)
		return t;
	bpf_map_update_elem(&heels_traffic, &key, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&heels_traffic, &key);
}

#endif
