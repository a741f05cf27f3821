/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Constants that the loader sets before the programs are verified; branches that they rule out are
 * removed by the verifier. Each states its unit and its default.
 */
#ifndef XLB_CONFIG_H
#define XLB_CONFIG_H

#include <linux/types.h>

#include <bpf/bpf_helpers.h>

/* p-socks and s-socks join the socket maps. Off: every connection is served by the slow path. */
const volatile __u8 fast_path = 1;

/* Servers on this host get requests over TCP, as those on other hosts, and no s-sock joins its map. */
const volatile __u8 same_host_tcp = 0;

/* Programs do not look whether the lock of a target is taken, and their senders wait for it: so tests hold a message between its program and its
 * target. */
const volatile __u8 wait_for_locks = 0;

/* Redirected bytes are charged to the receiver's sk_rmem_alloc (6.13 and stable kernels after it): found
 * by a probe, never by version. */
const volatile __u8 ingress_charged = 1;

/* A socket's tcp_clock_cache changes with every receive call: found by a probe. */
const volatile __u8 reads_stamped = 1;

/* References to an established socket in a socket map that its descriptor and its state hold, 0 when that is not known: found by a
 * probe. */
const volatile __u32 socket_references = 0;

/* References to its target that the kernel holds while it redirects a message: 1, or 2 on some builds of 6.18. Found by a probe. */
const volatile __u32 redirect_references = 1;

/* Largest request, head and body, in bytes, that the fast path moves without looking whether the server reads, and of a larger one what it moves
 * at once. */
const volatile __u32 request_limit = 256 << 10;

/* Unread bytes in a server on this host above which the rest of a larger request goes through the daemon. Redirects have no flow control: this
 * bounds what lies in a server that does not read. */
const volatile __u32 request_window = 2 << 20;

/* Unread bytes in a p-sock, with their bookkeeping, up to which all the rest of a response from this host is moved whatever the p-sock's receive
 * buffer; and the first send of one. */
const volatile __u32 response_window = 1 << 20;

/* Largest response, head and body, in bytes, from another host that the fast path moves without looking whether the client reads. Below the
 * p-sock's receive buffer, over which the kernel's worker retries only once per jiffy. From this host: unread bytes up to which one of unknown length
 * is moved whatever the receive buffer. */
const volatile __u32 response_limit = 256 << 10;

/* Unread bytes in a p-sock, with the kernel's bookkeeping, above which a longer response spills, and a tunnel. The p-sock's receive buffer, less
 * an eighth, bounds them too. */
const volatile __u32 client_window = 2 << 20;

/* SO_RCVBUF of p-socks in bytes, 0 leaves the kernel's. */
const volatile __u32 psock_rcvbuf = 0;

/* A heartbeat older than this, in nanoseconds, ends interception. */
const volatile __u64 heartbeat_limit_ns = 3000000000ULL;

/* A connection to a service address that is not intercepted, since the daemon drains or is silent, is
 * refused. Off: it goes where its address leads, as if there were no daemon. */
const volatile __u8 refuse_when_down = 0;

/* Network namespaces that the daemon does not know are reported. Off: it serves its own alone. */
const volatile __u8 report_namespaces = 0;

#endif
