/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What becomes of a response of which the kernel moved less than was claimed. The server sends the rest again, and may send other
 * bytes: only where they cannot be read for anything but a body may the response go on.
 */
#ifndef XLB_ROLLBACK_H
#define XLB_ROLLBACK_H

#include "http1.h"
#include "lease.h"

/* Whether what was moved of the response ends in a body with a length, or in a tunnel. */
static __always_inline int response_can_go_on(const struct slot *s)
{
	__u32 phase = s->response.phase;

	if (phase == PHASE_TUNNEL)
		return 1;
	return (phase == PHASE_LENGTH || phase == PHASE_DONE) && !(s->head.flags & SCAN_CHUNKED) &&
	       s->moved >= s->head.off;
}

/* So many bytes of its body are still to come. */
static __always_inline void response_take_back(struct slot *s, __u64 bytes)
{
	if (s->response.phase == PHASE_TUNNEL)
		return;
	if (s->response.phase == PHASE_DONE)
		s->response.remaining = 0;
	s->response.remaining += bytes;
	s->response.phase = PHASE_LENGTH;
	/* It may have been taken for complete: PENDING_REPLY keeps its lease. */
	lease_part_open(s, PENDING_RESPONSE);
}

#endif
