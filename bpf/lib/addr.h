/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Addresses as map keys: 16 bytes in network order, IPv4 as ::ffff:a.b.c.d, so that nothing exists twice.
 */
#ifndef XLB_ADDR_H
#define XLB_ADDR_H

#include <linux/types.h>

#include <bpf/bpf_endian.h>

/* The last word of 127.0.0.1, ::ffff:127.0.0.1 and ::1, in network order. */
#define LOOPBACK4 bpf_htonl(0x7f000001)
#define LOOPBACK6 bpf_htonl(1)

static __always_inline void addr_set4(__u8 *addr, __u32 ip)
{
	__u32 *w = (__u32 *)addr;

	w[0] = 0;
	w[1] = 0;
	w[2] = bpf_htonl(0xffff);
	w[3] = ip;
}

static __always_inline void addr_set6(__u8 *addr, __u32 a, __u32 b, __u32 c, __u32 d)
{
	__u32 *w = (__u32 *)addr;

	w[0] = a;
	w[1] = b;
	w[2] = c;
	w[3] = d;
}

static __always_inline int addr_is_v4(const __u8 *addr)
{
	const __u32 *w = (const __u32 *)addr;

	/* In one comparison: after three the verifier would follow each way on by itself. */
	return !(w[0] | w[1] | (w[2] ^ bpf_htonl(0xffff)));
}

static __always_inline int addr_is_loopback(const __u8 *addr)
{
	const __u32 *w = (const __u32 *)addr;

	if (addr_is_v4(addr))
		return addr[12] == 127;
	return !w[0] && !w[1] && !w[2] && w[3] == LOOPBACK6;
}

#endif
