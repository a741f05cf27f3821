/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The hash of a request that a route asks for, by which clusters with a policy that hashes choose: Envoy's, as model.HashPolicies and
 * internal/hashing have it. xxHash64 reads 32 bytes at a time, in four lanes, and then what is left.
 */
#ifndef XLB_HASH_H
#define XLB_HASH_H

#include "ctype.h"
#include "fields.h"

#define XXH_PRIME_1 0x9e3779b185ebca87ULL
#define XXH_PRIME_2 0xc2b2ae3d27d4eb4fULL
#define XXH_PRIME_3 0x165667b19e3779f9ULL
#define XXH_PRIME_4 0x85ebca77c2b2ae63ULL
#define XXH_PRIME_5 0x27d4eb2f165667c5ULL

#define XXH_STRIPE 32

static __always_inline __u64 rotate_left(__u64 v, __u32 bits)
{
	return v << bits | v >> (64 - bits);
}

static __always_inline __u64 xxh_round(__u64 lane, __u64 word)
{
	return rotate_left(lane + word * XXH_PRIME_2, 31) * XXH_PRIME_1;
}

struct stripe_walk {
	struct span span;
	__u64 lanes[4];
	__u32 at;
	__u32 reserved;
};

static long stripe_step(__u32 i, void *ctx)
{
	struct stripe_walk *w = ctx;
	__u64 word;

	(void)i;
	for (__u32 lane = 0; lane < 4; lane++) {
		if (!span_word(&w->span, w->at + lane * sizeof(word), &word))
			return 1;
		w->lanes[lane] = xxh_round(w->lanes[lane], word);
	}
	w->at += XXH_STRIPE;
	return 0;
}

/* What the stripes of a text come to, or for one without any the beginning. */
static __always_inline __u64 xxh_stripes(struct span span, __u32 at, __u32 len)
{
	struct stripe_walk w = { .span = span, .at = at };
	__u64 hash;

	if (len < XXH_STRIPE)
		return XXH_PRIME_5 + len;
	w.lanes[0] = XXH_PRIME_1 + XXH_PRIME_2;
	w.lanes[1] = XXH_PRIME_2;
	w.lanes[3] = -XXH_PRIME_1;
	bpf_loop(len / XXH_STRIPE, stripe_step, &w, 0);
	hash = rotate_left(w.lanes[0], 1) + rotate_left(w.lanes[1], 7) + rotate_left(w.lanes[2], 12) +
	       rotate_left(w.lanes[3], 18);
	for (__u32 lane = 0; lane < 4; lane++)
		hash = (hash ^ xxh_round(0, w.lanes[lane])) * XXH_PRIME_1 + XXH_PRIME_4;
	return hash + len;
}

/* Adds up to seven bytes, the first lowest. */
static __always_inline __u64 xxh_bytes(__u64 hash, __u64 word, __u32 len)
{
	if (len >= 4) {
		hash = rotate_left(hash ^ (word & 0xffffffff) * XXH_PRIME_1, 23) * XXH_PRIME_2 + XXH_PRIME_3;
		word >>= 32;
		len -= 4;
	}
	for (__u32 i = 0; i < 3; i++) {
		if (i < len)
			hash = rotate_left(hash ^ (word >> i * 8 & 0xff) * XXH_PRIME_5, 11) * XXH_PRIME_1;
	}
	return hash;
}

/* Adds the rest, less than a stripe, and mixes. */
static __always_inline __u64 xxh_end(__u64 hash, const __u64 *words, __u32 len)
{
	for (__u32 i = 0; i < XXH_STRIPE / sizeof(*words); i++) {
		__u64 word = words[i];

		if (len >= sizeof(word)) {
			hash = rotate_left(hash ^ xxh_round(0, word), 27) * XXH_PRIME_1 + XXH_PRIME_4;
			len -= sizeof(word);
			continue;
		}
		hash = xxh_bytes(hash, word, len);
		break;
	}
	hash = (hash ^ hash >> 33) * XXH_PRIME_2;
	hash = (hash ^ hash >> 29) * XXH_PRIME_3;
	return hash ^ hash >> 32;
}

/* Words of the key that a rest is read into; it is free behind the look-ups of values. */
#define REST_WORDS 7

static __always_inline __u64 hash_text(struct request_scan *r, const struct span *span, __u32 at, __u32 len)
{
	__u32 rest = len & (XXH_STRIPE - 1);
	__u64 *words = (__u64 *)r->value.value;
	__u64 hash = xxh_stripes(*span, at, len);

	key_set(words, REST_WORDS, span, at + len - rest, rest);
	return xxh_end(hash, words, rest);
}

/* Writes a byte in decimal at `at`; returns where it ends. */
static __always_inline __u32 decimal_write(__u8 *text, __u32 at, __u8 n)
{
	if (n >= 100)
		text[bounded(at++, 31)] = '0' + n / 100;
	if (n >= 10)
		text[bounded(at++, 31)] = '0' + n / 10 % 10;
	text[bounded(at++, 31)] = '0' + n % 10;
	return at;
}

/* The hash of the text of an IPv4 address in network order. */
static __always_inline __u64 hash_ipv4(struct request_scan *r, __u32 addr)
{
	__u8 *text = r->value.value;
	__u64 *words = (__u64 *)text;
	__u32 at = 0;

	words[0] = words[1] = words[2] = words[3] = 0;
	for (__u32 i = 0; i < 4; i++) {
		if (i)
			text[bounded(at++, 31)] = '.';
		at = decimal_write(text, at, addr >> i * 8);
	}
	return xxh_end(XXH_PRIME_5 + at, words, at);
}

struct hash_walk {
	struct span span;
	struct request_scan *scan;
	/* What is left of the route's policies. */
	__u32 policies;
	/* Of the client, in network order; 0 is not known. */
	__u32 source;
	__u64 hash;
	__u32 hashed;
	/* enum verdict */
	__u32 failure;
};

/* The field that policies know by a number; MAX_COMPARED: the request has none. */
static __always_inline __u32 hash_find(const struct request_scan *r, __u32 number)
{
	__u32 n = r->field_count;

	for (__u32 i = 0; i < MAX_COMPARED; i++)
		if (i < n && r->fields[i].asked.flags >> ASKED_HASH_SHIFT == number)
			return i;
	return MAX_COMPARED;
}

static __always_inline void hash_add(struct hash_walk *w, __u64 hash)
{
	w->hash = rotate_left(w->hash, 1) ^ hash;
	w->hashed = 1;
}

static long hash_step(__u32 i, void *ctx)
{
	struct hash_walk *w = ctx;
	struct request_scan *r = w->scan;
	__u32 policy = w->policies & 0xff, field;

	(void)i;
	if (!policy)
		return 1;
	w->policies >>= 8;
	field = hash_find(r, policy & HASH_FIELD);
	if (policy & HASH_SOURCE_IP) {
		/* The last hop that says so in X-Forwarded-For is the client to Envoy. */
		if (field < MAX_COMPARED || !w->source) {
			w->failure = HANDOVER_ROUTE_SLOW;
			return 1;
		}
		hash_add(w, hash_ipv4(r, w->source));
	} else if (field < MAX_COMPARED) {
		hash_add(w, hash_text(r, &w->span, r->fields[field].at, r->fields[field].len));
	}
	return policy & HASH_TERMINAL && w->hashed;
}

/* Works out the hash that the policies of a route ask for; w->hashed is 0 when they find nothing. */
static __always_inline enum verdict request_hash(struct hash_walk *w)
{
	bpf_loop(MAX_HASH_POLICIES, hash_step, w, 0);
	return w->failure;
}

#endif
