/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A socket keeps the program it found when it joined its map. So what joins is a stub that calls the logic
 * through a slot of a program array, and the slot can be changed under live sockets. An empty slot falls through to
 * SK_PASS: plain TCP.
 */
#ifndef XLB_DISPATCH_H
#define XLB_DISPATCH_H

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

enum msg_logic {
	MSG_REQUEST = 0,
	MSG_RESPONSE,
	MSG_LOGIC_COUNT,
};

enum skb_logic {
	SKB_RESPONSE = 0,
	SKB_LOGIC_COUNT,
};

int xlb_request(struct sk_msg_md *msg);
int xlb_response(struct sk_msg_md *msg);
int xlb_verdict(struct __sk_buff *skb);

/* Writer: loader. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, MSG_LOGIC_COUNT);
	__type(key, __u32);
	__array(values, int(void *));
} msg_logic SEC(".maps") = {
	.values = {
		[MSG_REQUEST] = (void *)&xlb_request,
		[MSG_RESPONSE] = (void *)&xlb_response,
	},
};

/* Writer: loader. */
struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, SKB_LOGIC_COUNT);
	__type(key, __u32);
	__array(values, int(void *));
} skb_logic SEC(".maps") = {
	.values = {
		[SKB_RESPONSE] = (void *)&xlb_verdict,
	},
};

#endif
