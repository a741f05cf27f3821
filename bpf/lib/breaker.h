/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How many requests an account has in flight to a cluster, on both paths together: one count, which the daemon's circuit breakers share. Each
 * account has the cluster's limit for itself, as if it had an Envoy of its own: with one count for all, one that lets its requests hang would have those
 * of the others refused. Where there is no limit nothing counts: all processors would wait for one cache line.
 *
 * The counts are a hash table in an array, since a map of the kernel's cannot be mapped by the daemon, and has no atomic operations for it. Where all entries
 * of a set are taken the others of that hash share one.
 */
#ifndef XLB_BREAKER_H
#define XLB_BREAKER_H

#include "maps.h"

/* The cluster that an entry is, or is a subset of. */
static __always_inline struct cluster *cluster_whole(struct cluster *c)
{
	__u32 whole = c->whole;

	return whole ? cluster_at(whole - 1) : c;
}

/* The finalizer of MurmurHash3: the daemon's loadHash. */
static __always_inline __u64 load_hash(__u64 owner)
{
	owner = (owner ^ owner >> 33) * 0xff51afd7ed558ccdULL;
	owner = (owner ^ owner >> 33) * 0xc4ceb9fe1a85ec53ULL;
	return owner ^ owner >> 33;
}

/* The owner's entry in its set, which it takes if it has none. Two processors that take one at once take the same, unless the daemon frees one between
 * their looks: then the owner has two for a while. */
static __always_inline __u32 load_find(struct load_set *set, __u64 owner, __u64 hash)
{
	for (__u32 i = 0; i < LOADS_OF_SET; i++)
		if (*(volatile __u64 *)&set->owners[i] == owner)
			return i;
	for (__u32 i = 0; i < LOADS_OF_SET; i++) {
		__u64 was = *(volatile __u64 *)&set->owners[i];

		if (!was)
			was = __sync_val_compare_and_swap(&set->owners[i], 0, owner);
		if (!was || was == owner)
			return i;
	}
	return hash / LOAD_SETS % LOADS_OF_SET;
}

/* The load of an owner; *entry is for load_at. */
static __always_inline struct load *load_of(__u64 owner, __u32 *entry)
{
	__u64 hash = load_hash(owner);
	__u32 index = hash % LOAD_SETS, at;
	struct load_set *set = load_set_at(index);

	if (!set)
		return 0;
	at = load_find(set, owner, hash) % LOADS_OF_SET;
	*entry = index * LOADS_OF_SET + at + 1;
	return &set->loads[at];
}

static __always_inline struct load *load_at(__u32 entry)
{
	struct load_set *set = load_set_at((entry - 1) / LOADS_OF_SET);

	return set ? &set->loads[(entry - 1) % LOADS_OF_SET] : 0;
}

/* Counts a request of an account, unless it has as many as it may. *counted is for slot.counted. */
static __always_inline int cluster_enter(const struct cluster *c, __u32 account, __u32 *counted)
{
	__u32 limit = c->limit, entry;
	struct load *l;

	*counted = 0;
	if (limit == NO_LIMIT)
		return 1;
	l = load_of((__u64)account << 32 | c->number, &entry);
	if (!l || l->waiting)
		return 0;
	if (__sync_fetch_and_add(&l->active, 1) >= limit) {
		__sync_fetch_and_add(&l->active, -1);
		return 0;
	}
	*counted = entry;
	return 1;
}

/* Takes back what cluster_enter has counted. */
static __always_inline void cluster_leave(__u32 counted)
{
	struct load *l = counted ? load_at(counted) : 0;

	if (l)
		__sync_fetch_and_add(&l->active, -1);
}

/* The lease of a slot has ended, or ends now. */
static __always_inline void cluster_leave_slot(struct slot *s)
{
	/* Most are not counted, or a compiler would exchange nothing for nothing. */
	if (*(volatile __u32 *)&s->counted)
		cluster_leave(__sync_lock_test_and_set(&s->counted, 0));
}

#endif
