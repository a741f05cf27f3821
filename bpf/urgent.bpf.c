// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Socket filter of i-socks to other hosts. A redirect keeps the flags of the client's send, which no program sees: with MSG_OOB
 * the last byte goes as urgent data (RFC 9293, section 3.8.5), which the server does not read in its place. The sender's mark,
 * snd_up, stands behind snd_una until the byte is acknowledged. The filter runs on each segment before TCP does, so it sees the
 * mark before the segment that ends it: whatever the server answers then comes behind the filter.
 */
#include "lib/lease.h"
#include "lib/maps.h"

#define KEEP 0xffffffff

static __always_inline void slot_is_urgent(struct __sk_buff *skb)
{
	__u64 cookie = bpf_get_socket_cookie(skb);
	__u32 index;
	struct slot *s = isock_slots_read(&cookie, &index) ? slot_at(index) : 0;

	if (!s || __sync_fetch_and_or(&s->flags, SLOT_RETIRE | SLOT_URGENT) & SLOT_URGENT)
		return;
	guard(GUARD_URGENT, s, index);
	slot_discard(s, index);
}

SEC("socket")
int xlb_urgent(struct __sk_buff *skb)
{
	struct bpf_sock *sk = skb->sk;
	struct tcp_sock *tp = sk ? bpf_skc_to_tcp_sock(sk) : 0;

	if (tp && tcp_is_urgent(tp))
		slot_is_urgent(skb);
	return KEEP;
}
