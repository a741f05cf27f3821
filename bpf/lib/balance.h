/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From a cluster to an endpoint. State is one for the whole node: every process, and the slow path, takes turns on the same
 * counters.
 */
#ifndef XLB_BALANCE_H
#define XLB_BALANCE_H

#include "consistent.h"
#include "maps.h"

#define NO_ENDPOINT 0xffffffffu
/* The balancing has the request fail. */
#define FAILING_ENDPOINT 0xfffffffeu

/* What is due to an idle endpoint in pick_weighted: so many requests still make a difference. */
#define WEIGHTED_UNIT (1u << 20)

struct pick {
	struct group *group;
	/* First entry and length of the schedule. */
	__u32 first;
	__u32 len;
	__u32 endpoint;
	__u32 outstanding;
	__u32 weight;
	/* What the draw among those called for is out of. */
	__u32 sum;
};

/* The endpoint at a place of the schedule; NULL when it is out of service. */
static __always_inline struct endpoint *pick_at(struct pick *p, __u32 place, __u32 *index)
{
	struct turn *t = turn_at(p->first + place);
	struct endpoint *e;

	if (!t)
		return 0;
	*index = t->of;
	e = endpoint_at(t->of);
	return e && !(e->flags & ENDPOINT_OUT_OF_SERVICE) ? e : 0;
}

/* Takes turns; skips those out of service, so that their turns fall to their successors. */
static long pick_turn(__u32 i, void *ctx)
{
	struct pick *p = ctx;
	__u64 turn = __sync_fetch_and_add(&p->group->turn, 1);
	__u32 index;

	(void)i;
	if (!p->len || !pick_at(p, turn % p->len, &index))
		return 0;
	p->endpoint = index;
	return 1;
}

/* The endpoint of a turn that is drawn; NULL when it is out of service. */
static __always_inline struct endpoint *pick_drawn(struct pick *p, __u32 *index)
{
	return p->len ? pick_at(p, bpf_get_prandom_u32() % p->len, index) : 0;
}

static long pick_random(__u32 i, void *ctx)
{
	struct pick *p = ctx;
	__u32 index;

	(void)i;
	if (!pick_drawn(p, &index))
		return 0;
	p->endpoint = index;
	return 1;
}

/* Keeps the less busy of the endpoints it is called for, load being (outstanding + 1) / weight. */
static long pick_less(__u32 i, void *ctx)
{
	struct pick *p = ctx;
	struct endpoint *e;
	__u32 index, outstanding, weight;

	(void)i;
	e = pick_drawn(p, &index);
	if (!e)
		return 0;
	outstanding = e->outstanding + 1;
	weight = e->weight;
	if (p->endpoint != NO_ENDPOINT && (__u64)outstanding * p->weight >= (__u64)p->outstanding * weight)
		return 0;
	p->endpoint = index;
	p->outstanding = outstanding;
	p->weight = weight;
	return 0;
}

/* Takes the place of those before with the probability that is its due among them: its share of the schedule is its weight, so what is left
 * is to divide by its requests. Of several it ends with one of them, each as likely as weight / (outstanding + 1) says. */
static long pick_weighted(__u32 i, void *ctx)
{
	struct pick *p = ctx;
	struct endpoint *e;
	__u32 index, due;

	(void)i;
	e = pick_drawn(p, &index);
	if (!e)
		return 0;
	due = WEIGHTED_UNIT / (e->outstanding + 1) + 1;
	p->sum += due;
	if (bpf_get_prandom_u32() % p->sum < due)
		p->endpoint = index;
	return 0;
}

/* Ends with one that is idle: nothing is less busy, and it is as likely as any other that is idle, as if all had been looked at. */
static long pick_idle(__u32 i, void *ctx)
{
	struct pick *p = ctx;
	struct endpoint *e;
	__u32 index;

	(void)i;
	e = pick_drawn(p, &index);
	if (!e || e->outstanding)
		return 0;
	p->endpoint = index;
	return 1;
}

/* Keeps the least busy of all, and of several such any. */
static long pick_scan(__u32 i, void *ctx)
{
	struct pick *p = ctx;
	struct endpoint *e;
	__u32 index;

	e = pick_at(p, i, &index);
	if (!e || (p->endpoint != NO_ENDPOINT && e->outstanding > p->outstanding))
		return 0;
	if (p->endpoint == NO_ENDPOINT || e->outstanding < p->outstanding)
		p->sum = 0;
	p->sum++;
	if (p->sum > 1 && bpf_get_prandom_u32() % p->sum)
		return 0;
	p->endpoint = index;
	p->outstanding = e->outstanding;
	return 0;
}

static __always_inline int policy_hashes(__u32 policy)
{
	return policy == POLICY_RING_HASH || policy == POLICY_MAGLEV;
}

/* Which turn of a group of groups it is: priorities are drawn, or the hash draws them, and localities take turns, as in Envoy. */
static __always_inline __u64 group_turn(struct group *g, __u64 hash)
{
	if (policy_hashes(g->policy))
		return hash;
	return g->policy == POLICY_RANDOM ? bpf_get_prandom_u32() : __sync_fetch_and_add(&g->turn, 1);
}

/* The group that a group of groups leads to. */
static __always_inline struct group *group_below(struct group *g, __u64 hash)
{
	__u64 schedule = g->schedule;
	__u32 first = schedule, len = schedule >> 32;
	struct turn *t;

	if (!len)
		return 0;
	t = turn_at(first + group_turn(g, hash) % len);
	return t ? group_at(t->of) : 0;
}

/* The endpoints that are chosen among this time. */
static __always_inline struct group *group_of(const struct cluster *c, __u64 hash)
{
	struct group *g = group_at((__u32)c->root);

	for (int i = 1; i < MAX_GROUP_DEPTH; i++) {
		if (!g || !(g->flags & GROUP_OF_GROUPS))
			return g;
		g = group_below(g, hash);
	}
	return g;
}

/* Whether a choice by a hash would find the daemon's table only. */
static __always_inline int cluster_is_slow(const struct cluster *c, __u64 hash)
{
	struct group *g = group_at((__u32)c->root);

	if (!g || !policy_hashes(g->policy))
		return 0;
	g = group_of(c, hash);
	return g && !g->table && g->schedule >> 32;
}

/* The endpoint of a hash. */
static __always_inline __u32 pick_hashed(const struct group *g, __u64 hash)
{
	__u32 first = g->table, len = g->table >> 32;
	struct hash_place *place;
	struct endpoint *e;

	if (!len)
		return NO_ENDPOINT;
	place = hash_place_at(first + hash_find_place(g, first, len, hash));
	if (!place)
		return NO_ENDPOINT;
	e = endpoint_at(place->endpoint);
	return e && !(e->flags & ENDPOINT_OUT_OF_SERVICE) ? place->endpoint : NO_ENDPOINT;
}

/* Takes turns, or draws. */
static __always_inline __u32 pick_scheduled(struct group *g)
{
	struct pick p = { .group = g, .endpoint = NO_ENDPOINT };
	__u64 schedule = g->schedule;
	__u32 choices = g->choices;

	/* Both from one look: the daemon may change the length meanwhile. */
	p.first = schedule;
	p.len = schedule >> 32;
	if (!p.len)
		return NO_ENDPOINT;
	switch (g->policy) {
	case POLICY_LEAST_REQUEST:
		bpf_loop(choices < MAX_PICK_TRIES ? choices : MAX_PICK_TRIES, pick_less, &p, 0);
		if (p.endpoint != NO_ENDPOINT)
			return p.endpoint;
		bpf_loop(MAX_PICK_TRIES, pick_random, &p, 0);
		break;
	case POLICY_LEAST_WEIGHTED:
		bpf_loop(MAX_PICK_TRIES, pick_weighted, &p, 0);
		break;
	case POLICY_LEAST_SCAN:
		bpf_loop(MAX_PICK_TRIES, pick_idle, &p, 0);
		if (p.endpoint == NO_ENDPOINT && p.len <= MAX_SCAN)
			bpf_loop(p.len, pick_scan, &p, 0);
		break;
	case POLICY_RANDOM:
		bpf_loop(MAX_PICK_TRIES, pick_random, &p, 0);
		break;
	default:
		bpf_loop(MAX_PICK_TRIES, pick_turn, &p, 0);
	}
	return p.endpoint;
}

/* Chooses by the group's policy. NO_ENDPOINT: none found in a few tries; the slow path looks at all. FAILING_ENDPOINT: the draw has come to a
 * group without turns; the daemon answers, and does not draw again. */
static __always_inline __u32 balance_pick(struct cluster *c, __u64 hash)
{
	struct group *g = group_of(c, hash);

	if (!g)
		return NO_ENDPOINT;
	if (!(g->schedule >> 32))
		return FAILING_ENDPOINT;
	return policy_hashes(g->policy) ? pick_hashed(g, hash) : pick_scheduled(g);
}

#endif
