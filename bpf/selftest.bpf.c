// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* tc programs that nothing attaches: the daemon runs them at start on heads that it knows, and refuses the fast path when
 * the answers are wrong. There is a kernel on which the parser loads and then finds no end in any head; versions do
 * not tell which. Tests use them to run the parser as the verifier has compiled it.
 *
 * The packet is an Ethernet header, of which only the length matters, and the head.
 */
#include "lib/http1.h"
#include "lib/lease.h"
#include "lib/maps.h"
#include "lib/router.h"

#define ETHERNET_HEADER 14

/* State of the scans; runs do not overlap. Writer: selftest programs. */
struct selftest {
	struct request_scan request;
	struct slot response;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct selftest);
	__uint(max_entries, 1);
} selftests SEC(".maps");

/* What a scan found: the verdict in the highest byte, the phase that follows a response's head in the next, and the length of the
 * head. */
#define SELFTEST_RESULT(verdict, phase, head) ((__u32)(verdict) << 24 | (phase) << 16 | ((head) & 0xffff))

static __always_inline struct span selftest_span(struct __sk_buff *skb)
{
	struct span span = { .end = (void *)(long)skb->data_end };
	__u8 *data = (void *)(long)skb->data;

	span.data = data + ETHERNET_HEADER;
	return span;
}

SEC("tc")
int xlb_selftest_request(struct __sk_buff *skb)
{
	__u32 key = 0;
	struct selftest *t = bpf_map_lookup_elem(&selftests, &key);
	enum verdict v;

	if (!t)
		return -1;
	request_scan_begin(&t->request, 0, 0);
	v = request_scan(&t->request, selftest_span(skb));
	return SELFTEST_RESULT(v, 0, v ? 0 : t->request.off);
}

SEC("tc")
int xlb_selftest_response(struct __sk_buff *skb)
{
	__u32 key = 0;
	struct selftest *t = bpf_map_lookup_elem(&selftests, &key);
	enum verdict v;

	if (!t)
		return -1;
	t->response.request = 0;
	t->response.response.phase = PHASE_HEAD;
	v = response_scan(&t->response, selftest_span(skb));
	return v ? SELFTEST_RESULT(v, 0, 0) : SELFTEST_RESULT(v, t->response.response.phase, t->response.head.off);
}

/* Only for tests: whether a response may send its request again, of which slot.retry is the packet's first byte, and the statuses those of the
 * first slot. */
SEC("tc")
int xlb_selftest_retry(struct __sk_buff *skb)
{
	__u32 key = 0;
	struct selftest *t = bpf_map_lookup_elem(&selftests, &key);
	enum verdict v;
	__u8 flags;

	if (!t || bpf_skb_load_bytes(skb, 0, &flags, sizeof(flags)))
		return -1;
	t->response.request = 0;
	t->response.response.phase = PHASE_HEAD;
	t->response.retry = flags;
	v = response_retried(&t->response, 0, response_scan(&t->response, selftest_span(skb)));
	return SELFTEST_RESULT(v, t->response.retry, t->response.head.off);
}

/* Whether the client holds references to its own socket: a program passes bytes to the anchor by a redirect to the client itself, which lasts
 * until they have room. The daemon makes room, and must not wait for it. */
static __always_inline int client_waits_for_room(struct bpf_sock *client)
{
	struct psock *ps = psock_of(client);

	return ps && send_is_under_way(&ps->send) && sock_waits_for_room(client, ps->pass_end);
}

/* Not a test: how many messages are on their way to a p-sock, of which the packet is the cookie: with a worker, or with a sender that
 * has been interrupted, or waits for the p-sock's lock. The daemon asks before it sends or ends, because that would overtake them. Only
 * senders whose program had run when an RCU grace period began are sure to be seen. -1: no such p-sock.
 */
SEC("tc")
int xlb_queued(struct __sk_buff *skb)
{
	struct bpf_sock *client;
	__u64 cookie = 0;
	int queued, references = 0, waits;

	if (bpf_skb_load_bytes(skb, ETHERNET_HEADER, &cookie, sizeof(cookie)))
		return -1;
	client = bpf_map_lookup_elem(&psocks, &cookie);
	if (!client)
		return -1;
	queued = sock_redirected_segments(client);
	/* Before the count and behind it: a send that begins to wait in between had no reference when they were counted. */
	waits = client_waits_for_room(client);
	/* One reference is this look's. */
	if (socket_references)
		references = sock_foreign_references(client) - 1;
	if (references > 0 && waits && client_waits_for_room(client))
		references -= redirect_references;
	bpf_sk_release(client);
	return queued + references;
}

/* Whether the client waits for an answer: its lease runs, or broke and nobody has told it yet. */
static __always_inline int client_waits(const struct psock *ps)
{
	struct slot *s = slot_at(ps->slot);

	return lease_holds(s, ps->lease) || (lease_was_broken(s, ps->lease) && s->holder);
}

static __always_inline void client_answer(struct client_look *l, struct bpf_sock *client, struct psock *ps)
{
	struct slot *s = slot_at(ps->slot);

	if (l->hold > ps->held)
		ps->held = l->hold;
	l->known = 1;
	l->requests = ps->requests;
	l->busy = client_waits(ps) || ps->body || sock_redirected_segments(client);
	if (s && s->ended_cookie == l->cookie)
		l->ended_ns = s->ended_ns;
}

/* Not a test: how a client's connection stands. The daemon asks before it closes one for lack of use. A p-sock that is held begins no
 * request on the fast path; one that began before is sure to be seen once an RCU grace period is over.
 */
SEC("tc")
int xlb_client(struct __sk_buff *skb)
{
	struct client_look l;
	struct bpf_sock *client;
	struct psock *ps;

	if (bpf_skb_load_bytes(skb, ETHERNET_HEADER, &l, sizeof(l)))
		return -1;
	client = bpf_map_lookup_elem(&psocks, &l.cookie);
	if (!client)
		return 0;
	ps = psock_of(client);
	if (ps)
		client_answer(&l, client, ps);
	bpf_sk_release(client);
	return bpf_skb_store_bytes(skb, ETHERNET_HEADER, &l, sizeof(l), 0);
}

/* What was seen of a socket at its last send. */
struct probe_sight {
	/* Its tcp_clock_cache. */
	__u64 clock;
	__u64 references;
	/* The sequence number behind its last send. */
	__u64 end;
	/* Given: its bytes go out to its peer, as a program passes them. */
	__u64 out;
};

/* Writer: the probe program. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct probe_sight);
	__uint(max_entries, 1);
} probe_sights SEC(".maps");

/* The probe's one socket. Writer: loader. */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKMAP);
	__type(key, __u32);
	__type(value, __u64);
	__uint(max_entries, 1);
} probe_socks SEC(".maps");

/* Sends a socket's bytes into its own receive queue, or out: what the loader has to know of this kernel's redirects, it finds out with
 * this. */
SEC("sk_msg")
int xlb_probe(struct sk_msg_md *msg)
{
	struct bpf_sock *sk = msg->sk;
	__u32 key = 0;
	struct probe_sight *seen = bpf_map_lookup_elem(&probe_sights, &key);

	if (!sk || !seen)
		return SK_PASS;
	seen->clock = sock_tcp(sk)->tcp_clock_cache;
	seen->references = sock_references(sk);
	seen->end = sock_tcp(sk)->write_seq + msg->size;
	return bpf_msg_redirect_map(msg, &probe_socks, key, seen->out ? 0 : BPF_F_INGRESS);
}

/* How many references there are to the probe's socket while its send waits for room, in the midst of a redirect; 0: it does not wait. */
SEC("tc")
int xlb_probe_waiting(struct __sk_buff *skb)
{
	__u32 key = 0;
	struct probe_sight *seen = bpf_map_lookup_elem(&probe_sights, &key);
	struct bpf_sock *sk = bpf_map_lookup_elem(&probe_socks, &key);
	int references = 0;

	if (!sk)
		return 0;
	/* One is this look's. */
	if (seen && sock_waits_for_room(sk, seen->end))
		references = sock_references(sk) - 1;
	/* It may have had room meanwhile. */
	if (seen && !sock_waits_for_room(sk, seen->end))
		references = 0;
	bpf_sk_release(sk);
	return references;
}

/* What tests of choices ask. */
struct pick_test {
	__u32 first;
	__u32 clusters;
};

/* What tests of edits share with their program. */
struct edit_test {
	/* The request's scan, and what is still to come of it. */
	struct psock psock;
	/* Given: messages go out by TCP, not into the socket's own queue. */
	__u32 remote;
	/* enum verdict of the last message. */
	__u32 verdict;
	/* Messages that were edited. */
	__u64 edited;
};

/* Writers: the tests and their program. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__type(key, __u32);
	__type(value, struct edit_test);
	__uint(max_entries, 1);
} edit_tests SEC(".maps");

/* Only for tests: sends a socket's requests to itself, or on to its peer, with the path that the first rewrite makes of theirs, by way of the
 * request program's own functions. What is not edited goes the same way, as it is. */
SEC("sk_msg")
int xlb_selftest_edit(struct sk_msg_md *msg)
{
	__u32 key = 0;
	struct edit_test *t = bpf_map_lookup_elem(&edit_tests, &key);
	struct edit edit = {};
	enum verdict v;
	__u64 room;

	if (!t)
		return SK_DROP;
	bpf_msg_apply_bytes(msg, 0);
	bpf_msg_cork_bytes(msg, 0);
	v = request_read(msg, &t->psock, 0, 0);
	if (!v)
		v = request_fits(&t->psock, msg->size, &room);
	if (!v && t->psock.scan.flags & SCAN_CHUNKED)
		v = request_chunks_begin(msg, &t->psock);
	if (!v)
		v = request_plan_edit(&t->psock, msg->size, 1, &edit, &room);
	if (!v && !edit_message(msg, &t->psock.scan, &edit, t->remote))
		v = HANDOVER_REWRITE;
	t->edited += !v;
	t->verdict = v;
	return bpf_msg_redirect_map(msg, &probe_socks, key, t->remote ? 0 : BPF_F_INGRESS);
}

/* Only for tests: chooses an endpoint of one of so many clusters, the first of which is given too, by a hash that is drawn. The answer is the
 * endpoint, or NO_ENDPOINT. */
SEC("tc")
int xlb_selftest_pick(struct __sk_buff *skb)
{
	struct pick_test t;
	struct cluster *c;
	__u64 hash;

	if (bpf_skb_load_bytes(skb, ETHERNET_HEADER, &t, sizeof(t)) || !t.clusters)
		return NO_ENDPOINT;
	hash = (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32();
	c = cluster_at(t.first + (__u32)hash % t.clusters);
	return c ? balance_pick(c, hash) : NO_ENDPOINT;
}

/* What tests of leases ask: that the pool of that number ask for i-socks to the endpoint of that number, or that the slot's lease of that number end, of which the client is to be told or
 * not, or that the workload of that number get an i-sock of the pool, or the slot. */
enum lease_test_kind {
	LEASE_TEST_WANT = 0,
	LEASE_TEST_BREAK,
	LEASE_TEST_FAIL,
	LEASE_TEST_BEGIN,
	LEASE_TEST_TAKE,
};

struct lease_test {
	__u32 kind;
	__u32 index;
	__u64 lease;
};

/* Only for tests: does what the packet says, as programs do it. */
SEC("tc")
int xlb_selftest_lease(struct __sk_buff *skb)
{
	struct lease_test t;
	struct pool_key of = {};
	struct endpoint *e;
	struct pool *p;
	struct slot *s;
	__u32 index;
	__u64 lease;

	if (bpf_skb_load_bytes(skb, ETHERNET_HEADER, &t, sizeof(t)))
		return -1;
	of.endpoint = t.index;
	e = endpoint_at(t.index);
	p = pool_at(t.index);
	s = slot_at(t.index);
	if (!e || !p || !s)
		return -1;
	switch (t.kind) {
	case LEASE_TEST_WANT:
		pool_want(p, &of);
		break;
	case LEASE_TEST_BREAK:
		lease_break(s, t.index, t.lease);
		break;
	case LEASE_TEST_FAIL:
		lease_fail(s, t.index, t.lease);
		break;
	case LEASE_TEST_BEGIN:
		of.workload = t.lease;
		lease_begin(p, &of, e, &index, &lease);
		break;
	case LEASE_TEST_TAKE:
		of.workload = t.lease;
		lease_take(s, t.index, &of, e, &lease);
		break;
	}
	return 0;
}

/* What tests of circuit breakers ask: that a request of an account to the cluster of that index be counted; or that what an entry counts be taken
 * back; or both, so many times. */
enum breaker_test_kind {
	BREAKER_TEST_ENTER = 0,
	BREAKER_TEST_LEAVE,
	BREAKER_TEST_BOTH,
};

struct breaker_test {
	__u32 kind;
	__u32 cluster;
	__u32 account;
	/* The entry, or how many times. */
	__u32 n;
};

static long breaker_test_step(__u32 i, void *ctx)
{
	struct breaker_test *t = ctx;
	struct cluster *c = cluster_at(t->cluster);
	__u32 at;

	(void)i;
	if (!c)
		return 1;
	if (cluster_enter(c, t->account, &at))
		cluster_leave(at);
	return 0;
}

/* Only for tests: does what the packet says. The answer is the place, 0 for a request that need not be counted, or -1 for one that is not to be sent. */
SEC("tc")
int xlb_selftest_breaker(struct __sk_buff *skb)
{
	struct breaker_test t;
	struct cluster *c;
	__u32 at;

	if (bpf_skb_load_bytes(skb, ETHERNET_HEADER, &t, sizeof(t)))
		return -1;
	if (t.kind == BREAKER_TEST_LEAVE) {
		cluster_leave(t.n);
		return 0;
	}
	if (t.kind == BREAKER_TEST_BOTH) {
		bpf_loop(t.n, breaker_test_step, &t, 0);
		return 0;
	}
	c = cluster_at(t.cluster);
	if (!c || !cluster_enter(c, t.account, &at))
		return -1;
	return at;
}
