// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A tc program that nothing attaches: the daemon runs it to learn what the request program would decide about a head, now, by
 * the maps as they are. It calls what that calls, moves nothing, takes no endpoint and counts nothing.
 *
 * The packet is an Ethernet header, of which only the length matters, a struct explanation, and the head; the answer is written
 * into it.
 */
#include "lib/balance.h"
#include "lib/http1.h"
#include "lib/maps.h"
#include "lib/router.h"

#define EXPLAIN_AT 14

/* The scan of the head: too large for the stack. Writer: explain program; the daemon runs one at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct request_scan);
	__uint(max_entries, 1);
} explain_scans SEC(".maps");

static __always_inline enum verdict explain_cluster(const struct routing *to)
{
	struct cluster *c = cluster_at(to->cluster);

	return c && cluster_is_slow(c, to->hash) ? HANDOVER_CLUSTER_SLOW : 0;
}

static __always_inline enum verdict explain_head(struct __sk_buff *skb, struct request_scan *scan,
						 const struct explanation *e, struct routing *to)
{
	struct span span = { .end = (void *)(long)skb->data_end };
	__u8 *data = (void *)(long)skb->data;
	__u32 table = listener_table(e->listener);
	struct route_table *t;
	enum verdict v;

	span.data = data + EXPLAIN_AT + sizeof(struct explanation);
	if (!table)
		return HANDOVER_LISTENER_GONE;
	t = route_table_at(table);
	if (!t || t->flags & TABLE_SLOW)
		return HANDOVER_TABLE_SLOW;
	request_scan_begin(scan, table, t->flags);
	if (e->drawn) {
		scan->flags = SCAN_DRAWN;
		scan->draw = e->draw;
	}
	v = request_scan(scan, span);
	if (!v)
		v = route_request(scan, t, span, to);
	if (!v)
		v = route_upgrade(scan, to);
	if (!v)
		v = explain_cluster(to);
	return v;
}

/* Returns 0 when the answer has been written. */
SEC("tc")
int xlb_explain(struct __sk_buff *skb)
{
	__u32 key = 0;
	struct request_scan *scan = bpf_map_lookup_elem(&explain_scans, &key);
	struct explanation e;
	struct routing to = {};

	if (!scan || bpf_skb_load_bytes(skb, EXPLAIN_AT, &e, sizeof(e)))
		return -1;
	to.source = e.source;
	e.verdict = explain_head(skb, scan, &e, &to);
	e.timeout_ns = to.timeout_ns;
	e.cluster = to.cluster;
	e.flags = to.flags;
	e.hashed = to.hashed;
	e.hash = to.hash;
	e.rewrite = to.rewrite;
	return bpf_skb_store_bytes(skb, EXPLAIN_AT, &e, sizeof(e), 0);
}
