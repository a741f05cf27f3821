/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Follows a chunked body through a message of a send(), whose bytes lie in many fragments. Framing bytes are looked at in
 * windows; data is leapt over.
 */
#ifndef XLB_WALK_H
#define XLB_WALK_H

#include "chunked.h"
#include "kernel.h"
#include "span.h"

/* Windows of a message in which chunk headers are looked for, and framing bytes in one window. */
#define MAX_WINDOWS 64
#define MAX_WINDOW_STEPS 512
#define WINDOW 256

struct chunk_walk {
	struct sk_msg_md *msg;
	struct body_scan *body;
	struct span span;
	/* Next byte to look at, and where the window begins. */
	__u32 at;
	__u32 base;
	__u32 size;
	__u32 bad;
	/* What stands at `at` is left to the daemon. */
	__u32 left;
	__u32 reserved;
};

/* One framing byte, or one leap over chunk data. */
static long chunk_step(__u32 i, void *ctx)
{
	struct chunk_walk *w = ctx;
	struct body_scan *b = w->body;
	__u8 c;

	(void)i;
	if (w->at >= w->size || b->phase == PHASE_DONE)
		return 1;
	if (b->phase == PHASE_CHUNK_DATA) {
		w->at += body_skip(b, w->size - w->at);
		return 0;
	}
	if (!span_byte(&w->span, w->at - w->base, &c) || w->at - w->base > SPAN_MASK)
		return 1;
	switch (chunk_byte(b, c)) {
	case CHUNK_TAKEN:
		w->at++;
		return 0;
	case CHUNK_LEFT:
		w->left = 1;
		return 1;
	}
	w->bad = 1;
	return 1;
}

/* Looks at one window of the message; chunk headers may lie in any of its fragments. */
static long window_step(__u32 i, void *ctx)
{
	struct chunk_walk *w = ctx;
	__u32 end = w->size;

	(void)i;
	if (w->bad || w->left || w->at >= w->size || w->body->phase == PHASE_DONE)
		return 1;
	if (end - w->at > WINDOW)
		end = w->at + WINDOW;
	if (bpf_msg_pull_data(w->msg, w->at, end, 0))
		return 1;
	w->span.data = w->msg->data;
	w->span.end = w->msg->data_end;
	w->base = w->at;
	bpf_loop(MAX_WINDOW_STEPS, chunk_step, w, 0);
	return 0;
}

/* What chunk_walk() adds to an offset behind which the daemon has to go on. */
#define WALK_LEFT (1LL << 32)

/* Follows the body from that offset of the message. Returns the offset behind what it has followed: the body's end, the
 * message's, or earlier: in one of very many tiny chunks and, with WALK_LEFT, before what is left to the daemon; -1 when the body is
 * malformed. */
static __always_inline long chunk_walk(struct sk_msg_md *msg, struct body_scan *body, __u32 from)
{
	struct chunk_walk w = { .msg = msg, .body = body, .at = from, .size = msg->size };

	bpf_loop(MAX_WINDOWS, window_step, &w, 0);
	if (w.bad)
		return -1;
	return w.left ? WALK_LEFT + w.at : (long)w.at;
}

#endif
