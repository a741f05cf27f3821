/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Every map: owner, writers, readers, lifetime; and the only functions that touch them. Sizes given here are
 * defaults: the loader may change max_entries, but for those that abi.h names.
 */
#ifndef XLB_MAPS_H
#define XLB_MAPS_H

#include "conn.h"
#include "kernel.h"

#define SHARED_ARRAY(name_, type_, count_)                           \
	struct {                                                     \
		__uint(type, BPF_MAP_TYPE_ARRAY);                    \
		__uint(map_flags, BPF_F_MMAPABLE);                   \
		__type(key, __u32);                                  \
		__type(value, struct type_);                         \
		__uint(max_entries, count_);                         \
	} name_ SEC(".maps");                                        \
	static __always_inline struct type_ *type_##_at(__u32 index) \
	{                                                            \
		return bpf_map_lookup_elem(&name_, &index);          \
	}

#define PLAIN_ARRAY(name_, type_, count_)                            \
	struct {                                                     \
		__uint(type, BPF_MAP_TYPE_ARRAY);                    \
		__type(key, __u32);                                  \
		__type(value, struct type_);                         \
		__uint(max_entries, count_);                         \
	} name_ SEC(".maps");                                        \
	static __always_inline struct type_ *type_##_at(__u32 index) \
	{                                                            \
		return bpf_map_lookup_elem(&name_, &index);          \
	}

/* An array that grows: an array of pages, of which the daemon makes one when it first needs an entry there. What no page holds is not found. Flags: those of
 * a page, BPF_F_MMAPABLE or 0. Both numbers are powers of two, and a page is a whole number of the machine's pages.
 */
#define PAGED_ARRAY(name_, type_, flags_, page_, count_)             \
	struct name_##_page {                                        \
		__uint(type, BPF_MAP_TYPE_ARRAY);                    \
		__uint(map_flags, flags_);                           \
		__uint(key_size, sizeof(__u32));                     \
		__uint(value_size, sizeof(struct type_));            \
		__uint(max_entries, page_);                          \
	};                                                           \
	struct {                                                     \
		__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);            \
		__type(key, __u32);                                  \
		__uint(max_entries, (count_) / (page_));             \
		__array(values, struct name_##_page);                \
	} name_ SEC(".maps");                                        \
	static __always_inline struct type_ *type_##_at(__u32 index) \
	{                                                            \
		__u32 at = index / (page_);                          \
		void *page = bpf_map_lookup_elem(&name_, &at);       \
                                                                     \
		if (!page)                                           \
			return 0;                                    \
		at = index % (page_);                                \
		return bpf_map_lookup_elem(page, &at);               \
	}

#define SHARED_PAGES(name_, type_, page_, count_) PAGED_ARRAY(name_, type_, BPF_F_MMAPABLE, page_, count_)
#define PLAIN_PAGES(name_, type_, page_, count_) PAGED_ARRAY(name_, type_, 0, page_, count_)

/* A hash that grows: an array of one, which the daemon exchanges for a larger one when it is full, up to MAX_GROWN entries. It is found after its
 * entries have been copied, and a look-up is in one of the two: it misses none. Only for maps that the daemon alone writes. The first is a map of its
 * own because clang describes the types of its entries there alone.
 */
#define GROWING_HASH(name_, key_, value_, first_)                                            \
	struct name_##_hash {                                                                \
		__uint(type, BPF_MAP_TYPE_HASH);                                             \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                        \
		__type(key, key_);                                                           \
		__type(value, value_);                                                       \
		__uint(max_entries, first_);                                                 \
	} name_##_first SEC(".maps");                                                        \
	struct {                                                                             \
		__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);                                    \
		__type(key, __u32);                                                          \
		__uint(max_entries, 1);                                                      \
		__array(values, struct name_##_hash);                                        \
	} name_ SEC(".maps") = { .values = { &name_##_first } };                             \
	static __always_inline __attribute__((unused)) value_ *name_##_find(const key_ *key) \
	{                                                                                    \
		__u32 at = 0;                                                                \
		void *hash = bpf_map_lookup_elem(&name_, &at);                               \
                                                                                             \
		return hash ? bpf_map_lookup_elem(hash, key) : 0;                            \
	}

/* A hash gives the memory of an entry that is deleted, or exchanged for another, to the next key at once, while programs may read there. So what a program reads is the
 * key's only if the key has the same entry behind the read. How often it looks: more than once in vain only while the entry is exchanged over and over. The other
 * kinds of maps, and hashes whose entries are exchanged or deleted when no program can reach them, do not need that. */
#define HASH_READS 4

/* Defines name_read(), which reads an entry of a hash. It reports whether the key has one. */
#define HASH_READ(name_, key_, value_)                                                               \
	static __always_inline __attribute__((unused)) int name_##_read(const key_ *key, value_ *to) \
	{                                                                                            \
		value_ *entry;                                                                       \
                                                                                                     \
		for (int i = 0; i < HASH_READS; i++) {                                               \
			entry = bpf_map_lookup_elem(&name_, key);                                    \
			if (!entry)                                                                  \
				return 0;                                                            \
			*to = *(volatile value_ *)entry;                                             \
			if (bpf_map_lookup_elem(&name_, key) == entry)                               \
				return 1;                                                            \
		}                                                                                    \
		return 0;                                                                            \
	}

/* One entry. Writer: daemon. Readers: connect programs. */
SHARED_ARRAY(controls, control, 1)

/* Balancing state. Writers: daemon and every program that picks, by atomic operations. */
SHARED_ARRAY(clusters, cluster, 4096)
SHARED_ARRAY(load_sets, load_set, LOAD_SETS)
SHARED_ARRAY(groups, group, 16384)
SHARED_ARRAY(endpoints, endpoint, 16384)
SHARED_ARRAY(endpoint_addresses, endpoint_address, 16384)

/* i-socks. See struct slot for who writes what. */
SHARED_PAGES(slots, slot, 512, 16384)

/* Pools of i-socks, and which is whose: as many as slots, since each has one at least. Writers of pools: daemon, and the programs that begin and end leases.
 * Writer of pool_indices: daemon. Reader: request program. */
SHARED_ARRAY(pools, pool, 16384)

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct pool_key);
	__type(value, __u32);
	__uint(max_entries, 16384);
} pool_indices SEC(".maps");

/* By slot. Mapped by the daemon, which reads an entry when the slot's lease has broken, or its request is to be sent again. Writer: the
 * request program that holds the lease. Reader: response program. */
SHARED_PAGES(request_copies, request_copy, 512, 16384)

/* Written by reconcile only, read by the request program. Entries that a live table reaches are never changed in place: what
 * is new gets new indices, then an entry of `paths`, `path_texts` or `hosts`, or the listener, is switched to it. */
SHARED_ARRAY(listeners, listener, MAX_LISTENERS)

/* The index of the table of the listener with that number; 0: it has gone. The entry is read by one load: another listener may get it meanwhile. */
static __always_inline __u32 listener_table(__u32 number)
{
	struct listener *l = listener_at(number & (MAX_LISTENERS - 1));
	__u64 entry;

	if (!l)
		return 0;
	entry = *(volatile __u64 *)l;
	return entry >> 32 == number ? (__u32)entry : 0;
}

PLAIN_ARRAY(route_tables, route_table, 8192)
PLAIN_PAGES(routes, route, 4096, 262144)
PLAIN_PAGES(tuples, tuple, 4096, 65536)
PLAIN_ARRAY(splits, split, 65536)
/* Twice what a configuration may have, as of what follows. */
PLAIN_PAGES(rewrites, rewrite, 1024, 32768)
PLAIN_ARRAY(retry_sets, retry_set, 2048)
PLAIN_ARRAY(automata, automaton, 1024)
/* Twice what a configuration may have, so that the next version has room beside it. */
PLAIN_PAGES(cell_blocks, cells, 2048, 65536)
PLAIN_PAGES(accepts, candidates, 4096, 65536)
PLAIN_PAGES(accepted_values, value, 4096, 65536)

/* What buckets lead to. Mapped by the daemon: a live entry is changed by one store. Writer: reconcile. Reader: request program. */
SHARED_PAGES(bucket_lists, bucket_list, 8192, 262144)

/* An entry of the schedules that groups point into: an endpoint's index, or a group's. Mapped by the daemon, whose slow path takes
 * turns too. Writer: reconcile. */
struct turn {
	__u32 of;
	__u32 reserved;
};
SHARED_PAGES(schedules, turn, 8192, 262144)

/* What group.table points into. Mapped by the daemon. Writer: reconcile. Reader: request program. */
SHARED_PAGES(hash_places, hash_place, 8192, 524288)

/* Service addresses of all views. Writer: reconcile. Readers: connect programs. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct listener_key);
	__type(value, __u32);
	__uint(max_entries, 32768);
} vips SEC(".maps");
HASH_READ(vips, struct listener_key, __u32)

/* Destinations that are nobody's own service address: listeners at 0.0.0.0 or ::, for one port or for any. The longest prefix wins, and one with
 * a port over one without; listener 0: left alone. Writer: reconcile. Readers: connect programs. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct capture_key);
	__type(value, __u32);
	__uint(max_entries, 32768);
} captures SEC(".maps");

/* Destinations that `captures` does not hold for, whatever it says. Writer: daemon, at its start. Readers: connect programs. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct exclusion_key);
	__type(value, __u32);
	__uint(max_entries, 1024);
} exclusions SEC(".maps");

/* Anchor listeners by network namespace cookie. Writer: daemon. Readers: connect programs, and sock_ops for servers. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct anchor_ports);
	__uint(max_entries, 4096);
} anchors SEC(".maps");

/* What a program has read of an entry of `anchors`. */
struct anchor {
	/* The daemon knows the network namespace. */
	__u32 is_known;
	/* Two of its ports; 0: it has none for that family. */
	__u16 port4;
	__u16 port6;
	/* As in struct anchor_ports. */
	__u32 workload;
	__u32 account;
	__u32 view;
};

/* Reads the anchors of a network namespace, as HASH_READ has it done. The lock cannot be read. */
static __always_inline void anchor_read(__u64 netns, struct anchor *to)
{
	__u32 port = bpf_get_prandom_u32() & (ANCHOR_PORTS - 1);
	volatile struct anchor_ports *entry;

	to->is_known = 0;
	for (int i = 0; i < HASH_READS && !to->is_known; i++) {
		entry = bpf_map_lookup_elem(&anchors, &netns);
		if (!entry)
			return;
		to->port4 = entry->port4[port];
		to->port6 = entry->port6[port];
		to->workload = entry->workload;
		to->account = entry->account;
		to->view = entry->view;
		to->is_known = bpf_map_lookup_elem(&anchors, &netns) == entry;
	}
}

/* Whether the daemon leaves a network namespace alone: it has no anchors in there. */
static __always_inline int is_left_alone(const struct anchor *a)
{
	return a->is_known && !a->port4 && !a->port6;
}

/* Who has how many connections: an entry for each account of `anchors`. Writers: daemon, which makes and deletes entries; connect programs, sock_ops and
 * the release program, which count in them. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct account);
	__uint(max_entries, 4096);
} accounts SEC(".maps");

/* When a network namespace was last reported that `anchors` does not have, by its cookie, CLOCK_MONOTONIC. Writers: connect programs. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__type(key, __u64);
	__type(value, __u64);
	__uint(max_entries, 1024);
} strangers SEC(".maps");

/* Hosts to virtual hosts: as many as these, and a reload needs room for both versions. Writer: reconcile. Reader: request program. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct host_key);
	__type(value, __u32);
	__uint(max_entries, 262144);
} hosts SEC(".maps");

/* How paths are looked up. Mapped by the daemon: a live entry is changed by one store. Writer: reconcile. Reader: request program. */
SHARED_ARRAY(vhosts, vhost, 131072)

/* Paths of virtual hosts to candidate routes, where few lengths of keys are to be tried. A live entry is written in place: see struct
 * path_routes. Writer: reconcile. Readers: request program, connect programs. */
GROWING_HASH(path_texts, struct path_text, struct path_routes, 4096)

/* Those of all other virtual hosts. Writer: reconcile. Reader: request program. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct path_key);
	__type(value, struct candidates);
	__uint(max_entries, 262144);
} paths SEC(".maps");

/* Indexes: classes of values of headers to bucket_lists. Writer: reconcile. Reader: request program. An entry is added or deleted, never
 * replaced: a look-up could miss both the old one and the new one. */
GROWING_HASH(buckets, struct bucket_key, __u32, 4096)

/* Header names that routes ask about. Writer: reconcile. Reader: request program. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct field_key);
	__type(value, struct asked_field);
	__uint(max_entries, 65536);
} fields SEC(".maps");

/* Values of those headers, and beginnings of values. Writer: reconcile. Reader: request program. */
GROWING_HASH(values, struct value_key, struct value, 4096)

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct value_key);
	__type(value, struct value);
	__uint(max_entries, 262144);
} value_prefixes SEC(".maps");

/* Connections between handshake and accept. Writers: sock_ops puts them in; the daemon takes them out, or the release program
 * when the client closes before. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct conn_key);
	__type(value, struct conn_record);
	__uint(max_entries, 65536);
} conns SEC(".maps");

/* p-socks that are or may be on the slow path, by cookie: a look-up takes 3 ns where there are none, 70 ns beside 1,000 and 160 ns beside 16,000.
 * Twice as many as `psocks`: an entry goes when the daemon has closed its end, after the client. Where there is no room, a request stays on the slow path (HANDOVER_NO_STATE). Writers: request and response programs, daemon. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct cookie_key);
	__type(value, struct slow_conn);
	__uint(max_entries, 524288);
} slow_conns SEC(".maps");

/* Where the next segment begins that a p-sock or s-sock gets from the daemon, by the socket's cookie: see lib/segment.h. Writers: receive
 * verdict; the release program and sock_ops take entries out, and the daemon those that they could not. As many as the entries of `psocks` and `ssocks`, and room for what they left. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct cookie_key);
	__type(value, __u64);
	__uint(max_entries, 524288);
} receive_sequences SEC(".maps");

/* Endpoints' sides of i-socks that are being connected, to their slots. Writer: daemon, before it connects and
 * until the i-sock closes. Reader: sock_ops. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct peer_key);
	__type(value, __u32);
	__uint(max_entries, 16384);
} peers SEC(".maps");
HASH_READ(peers, struct peer_key, __u32)

/* Slots of i-socks by cookie: sk_skb programs have no socket storage. Writer: daemon. Reader: verdict. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, __u32);
	__uint(max_entries, 16384);
} isock_slots SEC(".maps");
HASH_READ(isock_slots, __u64, __u32)

/* State of p-socks and of s-socks; lives as long as the socket. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct psock);
} psock_states SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct ssock);
} ssock_states SEC(".maps");

/* Connections that go to an endpoint by themselves; lives as long as the socket. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct plain_conn);
} plain_conns SEC(".maps");

/* p-socks by cookie: their sends run the request program, what they receive over TCP the client verdict.
 * Writer: sock_ops. Entries leave when the socket closes. */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__type(key, __u64);
	__type(value, __u64);
	__uint(max_entries, 262144);
} psocks SEC(".maps");

/* s-socks by slot: their sends run the response program. Writer: sock_ops. */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 16384);
} ssocks SEC(".maps");

/* i-socks to other hosts by slot: what they receive runs the verdict. Writer: daemon. */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 16384);
} isocks SEC(".maps");

/* How often each verdict was given. Reader: metrics. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, VERDICT_COUNT);
} verdicts SEC(".maps");

/* How often each invariant was broken, by enum guard. Reader: metrics. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, GUARD_COUNT);
} guards SEC(".maps");

/* Wakes the daemon; rare by design. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 18);
} events SEC(".maps");

static __always_inline void count(enum verdict v)
{
	__u32 key = v;
	__u64 *n = bpf_map_lookup_elem(&verdicts, &key);

	/* Atomic although it is per CPU: a preempted sk_msg program shares its CPU with others. */
	if (n)
		__sync_fetch_and_add(n, 1);
}

/* Not 0: there is no room for the event, and it is lost. The daemon finds by itself, now and then, what it was about. */
static __always_inline long raise_event(enum event_kind kind, __u32 slot, __u32 endpoint, __u64 lease)
{
	struct event e = { .kind = kind, .slot = slot, .endpoint = endpoint, .lease = lease };

	return bpf_ringbuf_output(&events, &e, sizeof(e), 0);
}

/* Whether an event may be raised: since the last one so much time must have passed. Of several programs at once one may. */
static __always_inline int event_is_due(__u64 *last, __u64 pause)
{
	__u64 now = bpf_ktime_get_ns(), before = *(volatile __u64 *)last;

	/* Another processor may have read the clock later. */
	if ((__s64)(now - before) < (__s64)pause)
		return 0;
	return __sync_val_compare_and_swap(last, before, now) == before;
}

/* At most so often the daemon is woken for a broken invariant. */
#define GUARD_EVENT_NS 10000000ULL

/* Counts a broken invariant, and tells the daemon of it now and then. */
static __always_inline void guard(enum guard what, const struct slot *s, __u32 index)
{
	struct event e = { .kind = EVENT_GUARD,
			   .slot = index,
			   .endpoint = s->endpoint,
			   .detail = what,
			   .lease = s->lease,
			   .cookie = s->cookie };
	__u32 key = what;
	__u64 *n = bpf_map_lookup_elem(&guards, &key);
	struct control *c = control_at(0);

	if (n)
		__sync_fetch_and_add(n, 1);
	if (c && event_is_due(&c->guard_ns[what], GUARD_EVENT_NS))
		bpf_ringbuf_output(&events, &e, sizeof(e), 0);
}

static __always_inline struct psock *psock_of(struct bpf_sock *sk)
{
	return bpf_sk_storage_get(&psock_states, sk, 0, 0);
}

static __always_inline struct plain_conn *plain_conn_of(struct bpf_sock *sk)
{
	return bpf_sk_storage_get(&plain_conns, sk, 0, 0);
}

static __always_inline struct cookie_key cookie_key(__u64 cookie)
{
	struct cookie_key key = { .prefix_len = COOKIE_BITS, .cookie = { cookie, cookie >> 32 } };

	return key;
}

static __always_inline struct slow_conn *slow_conn_of(__u64 cookie)
{
	struct cookie_key key = cookie_key(cookie);

	return bpf_map_lookup_elem(&slow_conns, &key);
}

/* Flags: BPF_ANY or BPF_NOEXIST. Not 0: there is no room. */
static __always_inline long slow_conn_put(__u64 cookie, const struct slow_conn *c, __u64 flags)
{
	struct cookie_key key = cookie_key(cookie);

	return bpf_map_update_elem(&slow_conns, &key, c, flags);
}

static __always_inline void slow_conn_drop(__u64 cookie)
{
	struct cookie_key key = cookie_key(cookie);

	bpf_map_delete_elem(&slow_conns, &key);
}

static __always_inline __u64 *sequence_of(__u64 cookie)
{
	struct cookie_key key = cookie_key(cookie);

	return bpf_map_lookup_elem(&receive_sequences, &key);
}

static __always_inline void sequence_put(__u64 cookie, __u64 next)
{
	struct cookie_key key = cookie_key(cookie);

	bpf_map_update_elem(&receive_sequences, &key, &next, BPF_ANY);
}

/* Most sockets have none, and to look costs no lock. */
static __always_inline void sequence_drop(__u64 cookie)
{
	struct cookie_key key = cookie_key(cookie);

	if (bpf_map_lookup_elem(&receive_sequences, &key))
		bpf_map_delete_elem(&receive_sequences, &key);
}

#endif
