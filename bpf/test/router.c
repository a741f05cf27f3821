// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* maps.h takes the place of the one that router.h includes. */
#include "maps.h"

#include "router.h"

#include <string.h>

#include "../lib/router.h"

void decide(__u32 table, __u64 draw, const __u8 *data, size_t size, struct decision *d)
{
	struct span span = { .data = (__u8 *)data, .end = (__u8 *)data + size };
	struct routing to = {};
	struct request_scan r;
	struct route_table *t;
	__u32 *number;

	maps_read();
	memset(d, 0, sizeof(*d));
	number = map_lookup(MAP_TABLES, &table);
	t = number ? route_table_at(*number) : 0;
	if (!t || t->flags & TABLE_SLOW)
		return;
	/* What an earlier request has left must not matter. */
	memset(&r, 0xa5, sizeof(r));
	request_scan_begin(&r, *number, t->flags);
	r.flags = SCAN_DRAWN;
	r.draw = draw;
	if (request_scan(&r, span))
		return;
	d->outcome = OUTCOME_ROUTED;
	d->head = r.off;
	d->verdict = route_request(&r, t, span, &to);
	d->cluster = to.cluster;
}
