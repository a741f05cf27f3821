// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* cgroup/sock_release: runs when a socket's last descriptor closes. A client that leaves with a request in flight
 * breaks its lease at once; without this a silent endpoint would hold the i-sock until its time was up.
 * The socket's lock is not held: the lease number tells a lease that ended meanwhile.
 */
#include "lib/lease.h"
#include "lib/maps.h"

SEC("cgroup/sock_release")
int xlb_release(struct bpf_sock *sk)
{
	struct psock *ps = psock_of(sk);
	struct slot *s;

	if (!ps || !ps->lease)
		return 1;
	s = slot_at(ps->slot);
	if (!s || s->lease != ps->lease)
		return 1;
	lease_break(s, ps->slot, EVENT_SLOT_BROKEN);
	count(VERDICT_CLIENT_LEFT);
	return 1;
}
