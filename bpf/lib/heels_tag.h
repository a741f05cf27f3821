/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* HalfSipHash-2-4 with 32 bits of result, over whole words (Aumasson and Bernstein's reference).
 */
#ifndef XLB_HEELS_TAG_H
#define XLB_HEELS_TAG_H

#include <linux/types.h>

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

static __always_inline __u32 heels_syn_tag(const __u32 *key, const struct heels_syn *o, enum heels_tag_use use)
{
	__u32 words[4] = { use, o->client, o->vip, (__u32)o->client_port << 16 | o->vip_port };

	return heels_nonzero(heels_hash(key, words, 4));
}

static __always_inline __u32 heels_synack_tag(const __u32 *key, const struct heels_synack *o, __u32 client,
					      __u16 client_port, __u32 vip, __u16 vip_port)
{
	__u32 words[6] = { HEELS_TAG_SYNACK,
			   client,
			   vip,
			   (__u32)client_port << 16 | vip_port,
			   o->addr,
			   (__u32)o->flags << 16 | o->port };

	return heels_nonzero(heels_hash(key, words, 6));
}

static __always_inline int heels_syn_tag_holds(const struct heels_control *c, const struct heels_syn *o)
{
	if (!c->key_count)
		return !o->tag;
	if (o->tag == heels_syn_tag(c->keys[0], o, HEELS_TAG_SYN))
		return 1;
	return c->key_count > 1 && o->tag == heels_syn_tag(c->keys[1], o, HEELS_TAG_SYN);
}

static __always_inline int heels_synack_tag_holds(const struct heels_control *c, const struct heels_synack *o,
						  __u32 client, __u16 client_port, __u32 vip, __u16 vip_port)
{
	if (!c->key_count)
		return !o->tag;
	if (o->tag == heels_synack_tag(c->keys[0], o, client, client_port, vip, vip_port))
		return 1;
	return c->key_count > 1 && o->tag == heels_synack_tag(c->keys[1], o, client, client_port, vip, vip_port);
}

#endif
