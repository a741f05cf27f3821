/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Errors in a row, for outlier detection. Kernel and daemon count on the same words; who reaches a limit has the daemon judge the
 * endpoint, and it begins the count anew. Atomic increments alone: a success that is forgotten among errors of other processors
 * was none in a row.
 */
#ifndef XLB_OUTLIER_H
#define XLB_OUTLIER_H

#include "maps.h"

static __always_inline int is_gateway_error(__u32 status)
{
	return status >= 502 && status <= 504;
}

/* Writes only what changes: nearly all responses are successes, and the word would go from processor to processor. */
static __always_inline void errors_reset(__u32 *errors)
{
	if (*(volatile __u32 *)errors)
		*(volatile __u32 *)errors = 0;
}

/* Exactly one of those that count at once reaches the limit. */
static __always_inline int errors_add(__u32 *errors, __u32 limit)
{
	return __sync_fetch_and_add(errors, 1) + 1 == limit;
}

/* Takes the status of a final response into account. */
static __always_inline void outlier_account(__u32 index, __u32 status)
{
	struct event event = { .kind = EVENT_OUTLIER, .slot = ~0u, .endpoint = index };
	struct endpoint *e = endpoint_at(index);

	if (!e || !(e->error_limit | e->gateway_error_limit))
		return;
	if (!is_gateway_error(status))
		errors_reset(&e->gateway_errors);
	else if (errors_add(&e->gateway_errors, e->gateway_error_limit))
		event.detail |= OUTLIER_GATEWAY_ERRORS;
	if (status < 500)
		errors_reset(&e->errors);
	else if (errors_add(&e->errors, e->error_limit))
		event.detail |= OUTLIER_ERRORS;
	/* A lost event is found by the daemon's next look at the counts. */
	if (event.detail)
		bpf_ringbuf_output(&events, &event, sizeof(event), 0);
}

#endif
