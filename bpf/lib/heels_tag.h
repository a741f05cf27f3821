/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* HalfSipHash-2-4 with 32 bits of result, over whole words (Aumasson and Bernstein's reference).
 */
#ifndef XLB_HEELS_TAG_H
#define XLB_HEELS_TAG_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "heels.h"

enum heels_tag_use {
	HEELS_TAG_SYN = 1,
	HEELS_TAG_SYNACK,
	HEELS_TAG_COMMIT,
	HEELS_TAG_CONFIRM,
};

static __always_inline __u32 heels_rotate(__u32 x, int bits)
{
	return x << bits | x >> (32 - bits);
}

static __always_inline void heels_round(__u32 *v)
{
	v[0] += v[1];
	v[1] = heels_rotate(v[1], 5) ^ v[0];
	v[0] = heels_rotate(v[0], 16);
	v[2] += v[3];
	v[3] = heels_rotate(v[3], 8) ^ v[2];
	v[0] += v[3];
	v[3] = heels_rotate(v[3], 7) ^ v[0];
	v[2] += v[1];
	v[1] = heels_rotate(v[1], 13) ^ v[2];
	v[2] = heels_rotate(v[2], 16);
}

static __always_inline __u32 heels_hash(const __u32 *key, const __u32 *words, __u32 count)
{
	__u32 v[4] = { key[0], key[1], 0x6c796765 ^ key[0], 0x74656462 ^ key[1] };
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
	v[2] ^= 0xff;
	for (int i = 0; i < 4; i++)
		heels_round(v);
	return v[1] ^ v[3];
}

/* 0 on the wire means that there is no tag. */
static __always_inline __u32 heels_nonzero(__u32 tag)
{
	return tag ? tag : 1;
}

/* What is hashed over IPv4. */
struct heels_hashed {
	__u32 key[2];
	__u32 count;
	__u32 words[7];
};

/* VERIFIER: not static, so that it is followed once, and not for each of the tags that a SYN is held against; on the stack
 * of its callers there is no room for it besides. */
__noinline __u32 heels_hash4(const struct heels_hashed *h)
{
	if (!h)
		return 0;
	if (h->count == 4)
		return heels_hash(h->key, h->words, 4);
	return h->count == 6 ? heels_hash(h->key, h->words, 6) : heels_hash(h->key, h->words, 7);
}

/* Time is counted in slots of 2^36 ns, 69 s, of CLOCK_TAI. What was signed is good while clocks are less than a slot apart,
 * of which the offset to UTC, 37 s where somebody has set it, leaves half. */
#define HEELS_SLOT_SHIFT 36

static __always_inline __u32 heels_slot(void)
{
	return bpf_ktime_get_tai_ns() >> HEELS_SLOT_SHIFT;
}

/* By which a host knows a SYN that it has taken. */
static __always_inline __u32 heels_syn_mark(const __u32 *secret, const struct heels_syn *o, enum heels_tag_use use)
{
	struct heels_hashed h = { .key = { secret[0], secret[1] },
				  .count = 4,
				  .words = { use, o->client, o->vip, (__u32)o->client_port << 16 | o->vip_port } };

	return heels_nonzero(heels_hash4(&h));
}

/* What a SYN is signed by; the slot is the last word. number is its sequence number, in host order. */
static __always_inline void heels_syn_hashed(struct heels_hashed *h, const struct heels_syn *o, __u32 number)
{
	struct heels_hashed fresh = { .count = 6,
				      .words = { HEELS_TAG_SYN, o->client, o->vip,
						 (__u32)o->client_port << 16 | o->vip_port, number } };

	*h = fresh;
}

static __always_inline __u32 heels_syn_tag(struct heels_hashed *h, const __u32 *key, __u32 slot)
{
	h->key[0] = key[0];
	h->key[1] = key[1];
	h->words[5] = slot;
	return heels_nonzero(heels_hash4(h));
}

/* An answer is good for one SYN alone: number is that one's. */
static __always_inline __u32 heels_synack_tag(const __u32 *key, const struct heels_synack *o, __u32 client,
					      __u16 client_port, __u32 vip, __u16 vip_port, __u32 number)
{
	struct heels_hashed h = { .key = { key[0], key[1] },
				  .count = 7,
				  .words = { HEELS_TAG_SYNACK, client, vip, (__u32)client_port << 16 | vip_port,
					     o->addr, (__u32)o->flags << 16 | o->port, number } };

	return heels_nonzero(heels_hash4(&h));
}

/* The slots whose tags are good, one each for n from 0 on: this one first. */
static __always_inline __u32 heels_slot_of(__u32 now, __u32 n)
{
	return n == 2 ? now + 1 : now - n;
}

static __always_inline int heels_syn_tag_holds(const struct heels_control *c, const struct heels_syn *o, __u32 number)
{
	__u32 now = heels_slot();
	struct heels_hashed h;

	if (!c->key_count)
		return !o->tag;
	heels_syn_hashed(&h, o, number);
	for (__u32 n = 0; n < HEELS_SLOTS; n++) {
		if (o->tag == heels_syn_tag(&h, c->keys[0], heels_slot_of(now, n)))
			return 1;
		if (c->key_count > 1 && o->tag == heels_syn_tag(&h, c->keys[1], heels_slot_of(now, n)))
			return 1;
	}
	return 0;
}

static __always_inline int heels_synack_tag_holds(const struct heels_control *c, const struct heels_synack *o,
						  __u32 client, __u16 client_port, __u32 vip, __u16 vip_port,
						  __u32 number)
{
	if (!c->key_count)
		return !o->tag;
	if (o->tag == heels_synack_tag(c->keys[0], o, client, client_port, vip, vip_port, number))
		return 1;
	return c->key_count > 1 &&
	       o->tag == heels_synack_tag(c->keys[1], o, client, client_port, vip, vip_port, number);
}

#endif
