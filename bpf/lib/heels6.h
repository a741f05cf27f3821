/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* HEELS over IPv6: what differs from IPv4 outside of packets. A SYN leaves room for 20 bytes: one address, and no port. So the client does not name the VIP;
 * the server knows it from the inner header, or from its configuration.
 */
#ifndef XLB_HEELS6_H
#define XLB_HEELS6_H

#include "heels_sockops.h"

/* VIPs of the server role by index, which is what a SYN carries that was committed to. Writer: agent. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct heels_end);
	__uint(max_entries, HEELS_SERVER_VIPS);
} heels_server_list SEC(".maps");

/* This host's address and port to the VIP, for SYNs of balancers that do not encapsulate. Writer: agent. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct heels_end);
	__type(value, struct heels_end);
	__uint(max_entries, HEELS_SERVER_VIPS);
} heels_server_own SEC(".maps");

static __always_inline __u32 *heels_words(const struct heels_end *e)
{
	return (__u32 *)e->addr;
}

static __always_inline void heels_end_set6(struct heels_end *e, const __u32 *ip, __u16 port)
{
	addr_set6(e->addr, ip[0], ip[1], ip[2], ip[3]);
	e->port = port;
	e->zero = 0;
}

static __always_inline int heels_same_addr(const void *a, const void *b)
{
	const __u32 *x = a, *y = b;

	return x[0] == y[0] && x[1] == y[1] && x[2] == y[2] && x[3] == y[3];
}

static __always_inline int heels_same(const struct heels_end *a, const struct heels_end *b)
{
	return a->port == b->port && heels_same_addr(a->addr, b->addr);
}

/* As heels_allows, for an address of either family in its 16-byte form. */
static __always_inline int heels_allows6(enum heels_set set, __u32 vip, const __u8 *addr)
{
	struct heels_prefix key = { .length = 64 + 128, .set = set, .vip = vip };

	__builtin_memcpy(key.addr, addr, sizeof(key.addr));
	return bpf_map_lookup_elem(&heels_prefixes, &key) != 0;
}

/* Whether a socket talks IPv6: one that was made for it may talk IPv4. */
static __always_inline int heels_is_v6(struct bpf_sock_ops *ops)
{
	struct heels_end local;

	heels_local(ops, &local);
	return !addr_is_v4(local.addr);
}

/* HalfSipHash-2-4 with 64 bits of result. */
static __always_inline void heels_hash64(const __u32 *key, const __u32 *words, __u32 count, __u32 *out)
{
	__u32 v[4] = { key[0], key[1] ^ 0xee, 0x6c796765 ^ key[0], 0x74656462 ^ key[1] };
	__u32 last = count * 4 << 24;

	for (__u32 i = 0; i < count; i++) {
		v[3] ^= words[i];
		heels_round(v);
		heels_round(v);
		v[0] ^= words[i];
	}
	v[3] ^= last;
	heels_round(v);
	heels_round(v);
	v[0] ^= last;
	v[2] ^= 0xee;
	for (int i = 0; i < 4; i++)
		heels_round(v);
	out[0] = v[1] ^ v[3];
	v[1] ^= 0xdd;
	for (int i = 0; i < 4; i++)
		heels_round(v);
	out[1] = v[1] ^ v[3];
}

/* Of a mark, and of a tag. */
#define HEELS_MARK6_WORDS 11
#define HEELS_TAG6_WORDS 13

/* What a mark is over, and a tag begins with. */
static __always_inline void heels_mark6_words(__u32 *w, enum heels_tag_use use, const struct heels_end *client,
					      const struct heels_end *vip, __u32 index)
{
	w[0] = use;
	__builtin_memcpy(&w[1], client->addr, sizeof(client->addr));
	__builtin_memcpy(&w[5], vip->addr, sizeof(vip->addr));
	w[9] = (__u32)client->port << 16 | vip->port;
	w[10] = index;
}

/* What a tag is over. */
struct heels_hashed6 {
	__u32 key[2];
	__u32 words[HEELS_TAG6_WORDS];
};

/* As heels_hash4. */
__noinline __u64 heels_hash6(const struct heels_hashed6 *h)
{
	__u32 out[2];

	if (!h)
		return 0;
	heels_hash64(h->key, h->words, HEELS_TAG6_WORDS, out);
	return (__u64)out[1] << 32 | out[0];
}

/* As heels_syn_hashed. */
static __always_inline void heels_syn6_hashed(struct heels_hashed6 *h, const struct heels_end *client,
					      const struct heels_end *vip, __u32 number)
{
	heels_mark6_words(h->words, HEELS_TAG_SYN, client, vip, 0);
	h->words[11] = number;
}

/* As heels_syn_tag. The first word of the tag is the lower half. */
static __always_inline __u64 heels_tag6(struct heels_hashed6 *h, const __u32 *key, __u32 slot)
{
	h->key[0] = key[0];
	h->key[1] = key[1];
	h->words[12] = slot;
	return heels_hash6(h);
}

static __always_inline int heels_tag6_holds(const struct heels_control *c, const struct heels_end *client,
					    const struct heels_end *vip, __u32 number, const __u32 *words)
{
	__u64 tag = (__u64)words[1] << 32 | words[0];
	__u32 now = heels_slot();
	struct heels_hashed6 h;

	if (!c->key_count)
		return 0;
	heels_syn6_hashed(&h, client, vip, number);
	for (__u32 n = 0; n < HEELS_SLOTS; n++) {
		if (tag == heels_tag6(&h, c->keys[0], heels_slot_of(now, n)))
			return 1;
		if (c->key_count > 1 && tag == heels_tag6(&h, c->keys[1], heels_slot_of(now, n)))
			return 1;
	}
	return 0;
}

/* What this host writes into the option of a SYN that it has committed to. */
static __always_inline __u32 heels_mark6(const __u32 *secret, const struct heels_end *client,
					 const struct heels_end *vip, __u32 index)
{
	__u32 words[HEELS_MARK6_WORDS];

	heels_mark6_words(words, HEELS_TAG_COMMIT, client, vip, index);
	return heels_hash(secret, words, HEELS_MARK6_WORDS);
}

#endif
