/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Another path in a request that is about to be moved. A message begins "METHOD SP target", and what changes is the beginning of the target:
 * so all that is written lies at the message's beginning, and bytes are added or taken away there only, never in its midst.
 *
 * The kernel has copied what the application sends, sendfile() and splice() included: neither its memory nor the page cache is written to.
 *
 * That part of the helpers is the same in all kernels: bpf_msg_push_data() at offset 0 puts one fragment in front, or, if there are too many,
 * copies the first; bpf_msg_pop_data() at offset 0, of less than the first fragment, moves the beginning of that, and can fail for its bounds
 * only. What was mended around 6.12.2 (pushing behind a message and into it, popping whole fragments, corking) is not used, but for popping
 * a whole fragment where memory is out; before, that leaks a page. Both charge the socket for the difference, so what the kernel gives
 * back once the message has gone is what was charged.
 */
#ifndef XLB_EDIT_H
#define XLB_EDIT_H

#include "conn.h"
#include "kernel.h"
#include "maps.h"
#include "span.h"

/* Longest method, a space and the longest text. */
#define EDIT_MAX (8 + MAX_REWRITE)

/* A message's beginning, before and after. */
struct edit {
	/* In bytes, from the method to the end of what is replaced. 0: nothing is. */
	__u32 before;
	__u32 after;
	/* Of the method and the space. */
	__u32 target_at;
	/* As in struct route. */
	__u32 rewrite;
};

/* Where the request's path ends. */
static __always_inline __u32 edit_path_end(const struct request_scan *r)
{
	return r->query_at ? r->query_at - 1 : r->target_at + r->target_len;
}

/* What a rewrite does to a scanned request. False: there is no such rewrite. */
static __always_inline int edit_plan(const struct request_scan *r, __u32 rewrite, struct edit *e)
{
	const struct rewrite *w = rewrite_at(rewrite);
	__u32 path = edit_path_end(r) - r->target_at;

	if (!w)
		return 0;
	e->target_at = r->target_at;
	e->rewrite = rewrite;
	e->before = r->target_at + (w->cut < path ? w->cut : path);
	e->after = r->target_at + (w->len < MAX_REWRITE ? w->len : MAX_REWRITE);
	return 1;
}

/* How many bytes the message will have more, less if negative. */
static __always_inline __s32 edit_growth(const struct edit *e)
{
	return (__s32)(e->after - e->before);
}

struct edit_walk {
	struct span span;
	struct request_scan *scan;
};

/* Eight bytes, or one. */
static long edit_step(__u32 i, void *ctx)
{
	struct edit_walk *w = ctx;
	struct edit_scan *s = &w->scan->edit;
	__u32 at = s->at, left = s->end - at;
	const __u8 *from = w->scan->host.host + (at & (EDIT_MAX - 1));
	__u8 *to = w->span.data + ((at - s->base) & (EDIT_MAX - 1));

	(void)i;
	if (!left || left > EDIT_MAX)
		return 1;
	if (left >= sizeof(__u64) && to + sizeof(__u64) <= w->span.end) {
		*(__u64 *)to = *(const __u64 *)from;
		s->at = at + sizeof(__u64);
		return 0;
	}
	if (to + 1 > w->span.end)
		return 1;
	*to = *from;
	s->at = at + 1;
	return 0;
}

/* Writes bytes of the new beginning to the message, of which the data that can be reached begins at `base`. False: not all of them are there,
 * and none is written. */
static __always_inline int edit_write(struct sk_msg_md *msg, struct request_scan *r, __u32 base, __u32 end)
{
	struct edit_walk w = { .span.data = msg->data, .span.end = msg->data_end, .scan = r };

	if (w.span.end - w.span.data < end - base)
		return 0;
	r->edit.at = base;
	r->edit.base = base;
	r->edit.end = end;
	bpf_loop(EDIT_MAX, edit_step, &w, 0);
	return 1;
}

/* Puts the new beginning together: the method as the message has it, and the text. It lies where the host was for its look-up. */
static __always_inline int edit_line(struct sk_msg_md *msg, struct request_scan *r, const struct edit *e)
{
	const struct rewrite *w = rewrite_at(e->rewrite);
	struct span span = { .data = msg->data, .end = msg->data_end };
	__u8 *line = r->host.host, *text = line + (e->target_at & 15);
	__u64 method;

	if (!w || !span_word(&span, 0, &method))
		return 0;
	*(__u64 *)line = method;
	for (__u32 i = 0; i < MAX_REWRITE; i += sizeof(__u64))
		*(__u64 *)(text + i) = *(const __u64 *)(w->text + i);
	return 1;
}

/* A fragment in front, which the new beginning fills together with that of the fragment behind it. */
static __always_inline int edit_lengthen(struct sk_msg_md *msg, struct request_scan *r, const struct edit *e,
					 __u32 remote)
{
	__u32 by = e->after - e->before;

	if (bpf_msg_push_data(msg, 0, by, 0))
		return 0;
	/* TCP would send a small fragment in a segment of its own and, as urgent data, without its last byte. */
	if (remote && bpf_msg_pull_data(msg, 0, e->after, 0)) {
		bpf_msg_pop_data(msg, 0, by, 0);
		return 0;
	}
	/* Each of the two parts lies in one fragment, so pulling it copies nothing, and only moves the data pointers. What was there before is
	 * written to last. */
	if (edit_write(msg, r, 0, by) && !bpf_msg_pull_data(msg, by, e->after, 0) && edit_write(msg, r, by, e->after))
		return 1;
	bpf_msg_pop_data(msg, 0, by, 0);
	return 0;
}

/* Edits a message that begins with the scanned head. False: it is as it was. */
static __always_inline int edit_message(struct sk_msg_md *msg, struct request_scan *r, const struct edit *e,
					__u32 remote)
{
	/* The head lies in the first fragment, which was made to hold it where it did not: nothing is copied. Behind what is replaced come at
	 * least a space and the version. */
	if (bpf_msg_pull_data(msg, 0, e->before + sizeof(__u64), 0) || !edit_line(msg, r, e))
		return 0;
	if (e->after > e->before)
		return edit_lengthen(msg, r, e, remote);
	/* The first fragment is longer than `before`, as the pull has shown: popping fewer bytes than that can fail for no bounds, and leaves at
	 * least `after`. */
	if (e->after < e->before && bpf_msg_pop_data(msg, 0, e->before - e->after, 0))
		return 0;
	return edit_write(msg, r, 0, e->after);
}

#endif
