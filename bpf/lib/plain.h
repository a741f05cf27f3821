/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Listeners without HTTP: a connection goes to an endpoint when it is made, and no program sees its bytes. */
#ifndef XLB_PLAIN_H
#define XLB_PLAIN_H

#include "addr.h"
#include "balance.h"
#include "router.h"

/* The connection has ended, or was never made. */
static __always_inline void plain_forget(struct bpf_sock *sk)
{
	struct plain_conn *c = plain_conn_of(sk);
	struct endpoint *e;

	if (!c || !c->vip_port)
		return;
	c->vip_port = 0;
	e = endpoint_at(c->endpoint);
	if (e)
		__sync_fetch_and_add(&e->outstanding, -1);
}

/* The route of a plain table. */
static __always_inline struct route *plain_route(const struct route_table *t)
{
	struct path_text key = { .vhost = t->default_vhost, .len = 1, .text = "/" };
	struct candidates *c = path_look_up(&key);
	struct route *r = c && c->count ? route_at(c->first) : 0;

	return r && !(r->flags & ROUTE_SLOW) ? r : 0;
}

/* Chooses an endpoint as for a request. NO_ENDPOINT: the daemon goes on. */
static __always_inline __u32 plain_pick(const struct route_table *t)
{
	struct route *r = plain_route(t);
	struct routing to = {};
	struct cluster *c;

	if (!r || route_choose_cluster(r, route_draw(), &to))
		return NO_ENDPOINT;
	c = cluster_at(to.cluster);
	return c ? balance_pick(c, route_draw()) : NO_ENDPOINT;
}

/* Sends the connection to an endpoint, if one can be had: its address, else NULL. */
static __always_inline struct endpoint_address *plain_begin(struct bpf_sock *sk, const struct route_table *t,
							    const struct listener_key *key)
{
	__u32 chosen = plain_pick(t);
	struct endpoint_address *to = endpoint_address_at(chosen);
	struct endpoint *e = endpoint_at(chosen);
	struct plain_conn *c;

	/* A socket of one family cannot go to an address of the other; the daemon can. Only the daemon speaks TLS. */
	if (!to || !e || addr_is_v4(to->addr) != addr_is_v4(key->addr) || e->flags & ENDPOINT_TLS)
		return 0;
	c = bpf_sk_storage_get(&plain_conns, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!c)
		return 0;
	__builtin_memcpy(c->vip, key->addr, sizeof(c->vip));
	c->vip_port = key->port;
	c->endpoint = chosen;
	__sync_fetch_and_add(&e->outstanding, 1);
	return to;
}

#endif
