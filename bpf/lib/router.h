/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From a request head to a cluster: virtual host, path, headers, query, weighted choice. The order of routes was resolved by
 * the compiler (internal/compile): one look-up gives the candidates in Envoy's order, or an index of them, and the first whose conditions
 * hold wins, or has the request handed over when it asks more than the kernel can tell. Automata may lead to further candidates, and the
 * earliest of all winners wins.
 */
#ifndef XLB_ROUTER_H
#define XLB_ROUTER_H

#include "automaton.h"
#include "fields.h"
#include "hash.h"
#include "http1.h"
#include "index.h"
#include "maps.h"
#include "query.h"

/* What routing found. */
struct routing {
	__u64 timeout_ns;
	__u32 cluster;
	/* enum route_flags */
	__u32 flags;
	/* Of the request: what the route's policies hash, or chance. */
	__u64 hash;
	__u32 hashed;
	/* The client's IPv4 address in network order, 0 for none; given. */
	__u32 source;
	/* As in struct route. */
	__u32 idle_ms;
	/* As in struct route_table; given. */
	__u32 request_ms;
	/* As in struct route. */
	__u32 rewrite;
	__u32 reserved;
};

/* ---- virtual host ---- */

/* bpf_loop() takes a context on the stack only. */
struct host_copy {
	struct request_scan *scan;
	__u32 len;
	__u32 reserved;
};

static long reverse_step(__u32 i, void *ctx)
{
	struct host_copy *copy = ctx;
	struct request_scan *r = copy->scan;
	__u32 from = copy->len - 1 - i;

	if (from > MAX_HOST || i > MAX_HOST)
		return 1;
	r->host.host[bounded(i, 255)] = r->authority[bounded(from, 255)];
	return 0;
}

static long copy_step(__u32 i, void *ctx)
{
	struct host_copy *copy = ctx;
	struct request_scan *r = copy->scan;

	if (i > MAX_HOST)
		return 1;
	r->host.host[bounded(i, 255)] = r->authority[bounded(i, 255)];
	return 0;
}

static __always_inline __u32 find_host(struct request_scan *r, enum host_direction direction, __u32 len)
{
	__u32 *vhost;

	r->host.scope = r->table * 2 + direction;
	r->host.prefix_len = (sizeof(r->host.scope) + len) * 8;
	vhost = bpf_map_lookup_elem(&hosts, &r->host);
	return vhost ? *vhost : 0;
}

/* Envoy's precedence: exact domain, longest "*suffix", longest "prefix*", "*". Returns 0 for none. */
static __always_inline __u32 route_find_vhost(struct request_scan *r, const struct route_table *t)
{
	struct host_copy copy = { .scan = r };
	__u32 len = r->host_len, vhost = 0;

	if (t->flags & TABLE_IGNORES_PORTS && r->port_at)
		len = r->port_at - 1;
	copy.len = len;
	if (t->flags & TABLE_HOSTS) {
		bpf_loop(len, reverse_step, &copy, 0);
		if (len <= MAX_HOST)
			r->host.host[bounded(len, 255)] = 0;
		vhost = find_host(r, HOST_BACKWARD, len + 1);
	}
	if (!vhost && t->flags & TABLE_HOST_PREFIXES) {
		bpf_loop(len, copy_step, &copy, 0);
		vhost = find_host(r, HOST_FORWARD, len);
	}
	return vhost ? vhost : t->default_vhost;
}

/* ---- routes ---- */

#define PATH_WORDS (MAX_PATH_TEXT / sizeof(__u64))

static __always_inline struct candidates *path_look_up(const struct path_text *key)
{
	struct path_routes *found = path_texts_find(key);

	return found ? &found->of[bounded(*(volatile __u32 *)&found->current, 1)] : 0;
}

/* Makes all bytes but the first `len` 0. Without branches: the verifier follows each. */
static __always_inline void text_cut(__u64 *words, __u32 len)
{
	__s64 last = len / sizeof(*words);
	__u64 kept = (1ULL << len % sizeof(*words) * 8) - 1;

#pragma clang loop unroll(full)
	for (__s64 i = 0; i < (__s64)PATH_WORDS; i++)
		words[i] &= (__u64)((i - last) >> 63) | (kept & (__u64)(((i ^ last) - 1) >> 63));
}

/* Tries the lengths from the longest: what is cut off is not needed again. */
static __always_inline struct candidates *route_find_text(struct request_scan *r, __u32 vhost, __u64 lengths)
{
	__u64 *words = (__u64 *)r->text.text;
	struct candidates *found;

	r->text.vhost = vhost;
	__builtin_memcpy(words, r->path.path, MAX_PATH_TEXT);
	for (int i = 0; i < PATH_LENGTHS; i++, lengths >>= 8) {
		__u32 wanted = lengths & 0xff, len = wanted == WHOLE_PATH ? r->path_len : wanted - 1;

		if (!wanted)
			return 0;
		if (len > r->path_len || len > MAX_PATH_TEXT)
			continue;
		text_cut(words, len);
		r->text.len = len + (wanted == WHOLE_PATH);
		found = path_look_up(&r->text);
		if (found)
			return found;
	}
	return 0;
}

static __always_inline struct candidates *route_find_in_trie(struct request_scan *r, __u32 vhost)
{
	__u32 len = r->path_len;

	if (len > MAX_PATH)
		return 0;
	r->path.vhost = vhost;
	r->path.path[bounded(len, 255)] = 0;
	r->path.prefix_len = (sizeof(r->path.vhost) + len + 1) * 8;
	return bpf_map_lookup_elem(&paths, &r->path);
}

/* Returns whether there are candidates. They are copied: the verifier would follow pointers into two maps apart. */
static __always_inline int route_find_path(struct request_scan *r, __u32 vhost, struct candidates *to)
{
	struct vhost *v = vhost_at(vhost);
	__u64 lengths = v ? *(volatile __u64 *)&v->lengths : 0;
	struct candidates *found = lengths ? route_find_text(r, vhost, lengths) : route_find_in_trie(r, vhost);

	if (found)
		*to = *found;
	return !!found;
}

struct path_walk {
	struct request_scan *scan;
	struct automaton *automaton;
	__u32 state;
	__u32 reserved;
};

static long path_step(__u32 i, void *ctx)
{
	struct path_walk *w = ctx;

	if (i > MAX_PATH)
		return 1;
	w->state = automaton_next(w->automaton, w->state, w->scan->path.path[bounded(i, 255)]);
	return w->state == AUTOMATON_DEAD;
}

struct automata_walk {
	struct route_walk routes;
	__u32 first;
	/* enum verdict */
	__u32 failure;
};

static long automata_step(__u32 i, void *ctx)
{
	struct automata_walk *w = ctx;
	struct path_walk path = { .scan = w->routes.scan, .automaton = automaton_at(w->first + i) };
	struct candidates *c;
	__u32 number, page;

	if (!path.automaton)
		return 1;
	path.state = path.automaton->start;
	bpf_loop(path.scan->path_len, path_step, &path, 0);
	if (path.state == AUTOMATON_DEAD)
		return 0;
	/* What follows the bytes that are known may decide. */
	if (path.scan->path_len >= MAX_PATH) {
		w->failure = HANDOVER_ROUTE_SLOW;
		return 1;
	}
	number = automaton_accepts(path.automaton, path.state);
	if (!number)
		return 0;
	page = automaton_cell(path.automaton->lists, number / ACCEPTS);
	c = candidates_at(page * ACCEPTS + number % ACCEPTS);
	if (c)
		candidates_try(&w->routes, c);
	return 0;
}

/* The route that the path's candidates and automata lead to. 0: *why says why there is none. */
static __always_inline struct route *route_choose(struct request_scan *r, const struct candidates *c, enum verdict *why)
{
	struct automata_walk w = { .routes = route_walk_begin(r), .first = c->automaton };

	candidates_try(&w.routes, c);
	if (c->automata)
		bpf_loop(c->automata < MAX_AUTOMATA ? c->automata : MAX_AUTOMATA, automata_step, &w, 0);
	*why = w.failure ? w.failure : HANDOVER_NO_ROUTE;
	return w.failure ? 0 : route_won(&w.routes);
}

struct split_walk {
	__u32 first;
	__u32 draw;
	__u32 cluster;
	__u32 found;
};

static long split_step(__u32 i, void *ctx)
{
	struct split_walk *w = ctx;
	struct split *s = split_at(w->first + i);

	if (!s)
		return 1;
	if (w->draw >= s->below)
		return 0;
	w->cluster = s->cluster;
	w->found = 1;
	return 1;
}

static __always_inline enum verdict route_choose_cluster(const struct route *r, __u64 draw, struct routing *out)
{
	struct split_walk w = { .first = r->first };

	out->timeout_ns = r->timeout_ns;
	out->idle_ms = r->idle_ms;
	out->flags = r->flags;
	out->rewrite = r->rewrite;
	if (!r->count) {
		out->cluster = r->first;
		return 0;
	}
	if (!r->total)
		return HANDOVER_NO_CLUSTER;
	w.draw = draw % r->total;
	bpf_loop(r->count < MAX_SPLIT ? r->count : MAX_SPLIT, split_step, &w, 0);
	out->cluster = w.cluster;
	return w.found ? 0 : HANDOVER_NO_CLUSTER;
}

/* A random number other than 0. */
static __always_inline __u64 route_draw(void)
{
	return 1ULL << 63 | (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
}

/* The request's hash; without policies, or without anything that they hash, it is left to chance. */
static __always_inline enum verdict route_hash(struct request_scan *r, const struct route *won, struct span span,
					       struct routing *out)
{
	struct hash_walk w = { .span = span, .scan = r, .policies = won->hash, .source = out->source };
	enum verdict v;

	if (!won->hash)
		return 0;
	v = request_hash(&w);
	out->hash = w.hash;
	out->hashed = w.hashed;
	return v;
}

/* Routes a scanned request. The span is the one that was scanned; out->source is given. */
static __always_inline enum verdict route_request(struct request_scan *r, const struct route_table *t, struct span span,
						  struct routing *out)
{
	struct candidates c = {};
	enum verdict why;
	struct route *won;
	__u32 vhost;

	vhost = route_find_vhost(r, t);
	if (!vhost)
		return HANDOVER_NO_VHOST;
	if (!route_find_path(r, vhost, &c))
		return HANDOVER_NO_ROUTE;
	if (t->flags & TABLE_QUERY)
		query_read(r, span);
	if (!r->failure)
		fields_evaluate(r, t, span);
	if (r->failure)
		return r->failure;
	/* As in Envoy one number decides over all fractions and weights of a request. */
	if (t->flags & TABLE_DRAW && !(r->flags & SCAN_DRAWN))
		r->draw = route_draw();
	won = route_choose(r, &c, &why);
	if (!won)
		return why;
	if (won->flags & ROUTE_SLOW)
		return HANDOVER_ROUTE_SLOW;
	why = route_hash(r, won, span, out);
	if (why)
		return why;
	return route_choose_cluster(won, r->draw, out);
}

/* A request that asks for another protocol needs a route that allows it. */
static __always_inline enum verdict route_upgrade(const struct request_scan *r, const struct routing *to)
{
	return r->flags & SCAN_UPGRADE && !(to->flags & ROUTE_WEBSOCKET) ? HANDOVER_UPGRADE : 0;
}

#endif
