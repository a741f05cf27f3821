/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Types and limits shared with the daemon. Go's copies are generated from this
 * header (internal/maps); nothing here is typed twice.
 *
 * Rules: no padding holes (the compiler checks, -Wpadded), enums rather than
 * macros for whatever Go must know, 8-byte aligned values. Ports are in host
 * byte order, addresses are 16 bytes in network order, IPv4 as v4-mapped IPv6.
 *
 * Arrays marked SHARED are memory-mapped by the daemon, which changes fields of
 * them with atomic operations; the comment of each field names its writers.
 */
#ifndef XLB_ABI_H
#define XLB_ABI_H

#include <linux/bpf.h>
#include <linux/types.h>

enum limits {
	/* Those of a socket's cookie. */
	COOKIE_BITS = 64,
	/* Levels of the cgroup hierarchy by which clients are told apart, below its root. */
	TENANT_LEVELS = 3,
	/* Largest head, in bytes, that the fast path reads. */
	MAX_HEAD = 8192,
	/* Longest request that is kept while its lease lasts. */
	MAX_COPY = 1024,
	/* Longest path and host, in bytes, that take part in look-ups. A longer path is
	 * compared by its beginning, a longer host is handed over. */
	MAX_PATH = 251,
	MAX_HOST = 251,
	/* Virtual hosts whose paths are all this short, with their terminators, and whose prefixes have so many lengths at most, whole
	 * paths counting as one, are looked up by hash. A whole number of words. */
	MAX_PATH_TEXT = 88,
	PATH_LENGTHS = 8,
	/* Most entries of each hash that grows. */
	MAX_GROWN = 262144,
	/* Entries of `listeners`; a power of two. */
	MAX_LISTENERS = 4096,
	/* Stands for the length of whole paths. */
	WHOLE_PATH = 255,
	/* Longest header name and value that a route may ask about. */
	MAX_FIELD_NAME = 56,
	MAX_FIELD_VALUE = 120,
	/* Longest text that a route puts in place of a path or of its beginning; a multiple of 8. */
	MAX_REWRITE = 120,
	/* Header fields of one request, as Envoy's HttpProtocolOptions.max_headers_count. */
	MAX_LINES = 100,
	/* Header fields of one request that routes ask about, and parameters of its query. */
	MAX_FIELDS = 8,
	/* Parameters of one query that are read when routes ask about some. */
	MAX_PARAMETERS = 100,
	/* Routes tried for one request, clusters of one weighted route. */
	MAX_CANDIDATES = 128,
	MAX_SPLIT = 64,
	/* Conditions on headers in one route table that a request is told apart by, one bit each. */
	MAX_PREDICATES = 64,
	/* Look-ups in the index of one path, headers that one look-up is about, and values that it tells apart of headers in one
	 * table: class 0 of header 0 stands for none. */
	MAX_TUPLES = 16,
	MAX_TUPLE_FIELDS = 4,
	MAX_CLASSES = 16,
	/* Hash policies of one route, and headers and parameters of the query that those of one table hash. */
	MAX_HASH_POLICIES = 4,
	MAX_HASHED = 15,
	/* Automata that one path is given to. */
	MAX_AUTOMATA = 8,
	/* Transitions in one entry of the map of them; a power of two. */
	CELLS = 32,
	/* Lists in one page of what automata lead to. */
	ACCEPTS = 8,
	/* Endpoints and i-socks tried before the request is handed over. */
	MAX_PICK_TRIES = 8,
	/* Endpoints that a full scan looks at; of larger groups the daemon chooses. */
	MAX_SCAN = 256,
	/* Groups from a cluster to an endpoint: a priority, a locality, its endpoints. */
	MAX_GROUP_DEPTH = 3,
	MAX_LEASE_TRIES = 4,
	/* Anchor listeners of each address family in a network namespace; a power of two. */
	ANCHOR_PORTS = 8,
	/* Messages that may lie unread in a server on this host. The kernel keeps a kilobyte beside the bytes of each, and charges
	 * it to nobody. */
	MAX_MESSAGES = 1024,
};

/* Why a hook program ended as it did. Every exit of every program is counted
 * under one of these; docs/verdicts.md says what each means. HANDOVER_* verdicts
 * are the reasons of xlb_handovers_total.
 */
enum verdict {
	VERDICT_OK = 0,
	/* connect4, connect6 */
	VERDICT_CONNECT_INTERCEPTED,
	VERDICT_CONNECT_OTHER,
	VERDICT_CONNECT_STALE_DAEMON,
	VERDICT_CONNECT_NO_ANCHOR,
	VERDICT_CONNECT_LEFT_ALONE,
	VERDICT_CONNECT_OVER_QUOTA,
	VERDICT_CONNECT_NO_MEMORY,
	VERDICT_CONNECT_PLAIN,
	/* sock_ops */
	VERDICT_PSOCK_JOINED,
	VERDICT_PSOCK_NOT_JOINED,
	VERDICT_SSOCK_JOINED,
	VERDICT_SSOCK_NOT_JOINED,
	/* sk_msg of a p-sock */
	VERDICT_REQUEST_LEASED,
	VERDICT_REQUEST_BODY,
	VERDICT_REQUEST_ON_SLOW_PATH,
	VERDICT_REQUEST_RETURNED,
	HANDOVER_FIRST,
	HANDOVER_PARTIAL_HEAD = HANDOVER_FIRST,
	HANDOVER_HEAD_TOO_LONG,
	HANDOVER_MALFORMED,
	HANDOVER_NOT_HTTP11,
	HANDOVER_METHOD,
	HANDOVER_TARGET_FORM,
	HANDOVER_HOST,
	HANDOVER_TRANSFER_CODING,
	HANDOVER_TRAILERS,
	HANDOVER_CONNECTION_OPTION,
	HANDOVER_UPGRADE,
	HANDOVER_EXPECT,
	HANDOVER_BODY_TOO_LONG,
	HANDOVER_PIPELINED,
	HANDOVER_UNREAD,
	HANDOVER_REPEATED_FIELD,
	HANDOVER_TOO_MANY_FIELDS,
	HANDOVER_TOO_MANY_PARAMETERS,
	HANDOVER_LISTENER_GONE,
	HANDOVER_CONNECTION_LIMIT,
	HANDOVER_TABLE_SLOW,
	HANDOVER_ROUTE_SLOW,
	HANDOVER_NORMALIZE,
	HANDOVER_REWRITE,
	HANDOVER_RETRY_COPY,
	HANDOVER_NO_VHOST,
	HANDOVER_NO_ROUTE,
	HANDOVER_NO_CLUSTER,
	HANDOVER_OVERFLOW,
	HANDOVER_CLUSTER_SLOW,
	HANDOVER_NO_ENDPOINT,
	HANDOVER_ENDPOINT_TLS,
	HANDOVER_POOL_EMPTY,
	HANDOVER_NO_ROOM,
	HANDOVER_ENDPOINT_LOCKED,
	HANDOVER_LEASE_BROKEN,
	HANDOVER_BODY_MALFORMED,
	HANDOVER_BODY_SPILLED,
	HANDOVER_GUARDED,
	HANDOVER_NO_STATE,
	HANDOVER_LAST = HANDOVER_NO_STATE,
	/* sk_msg of an s-sock, verdict of an i-sock */
	VERDICT_RESPONSE_MOVED,
	VERDICT_RESPONSE_ENDED,
	VERDICT_RESPONSE_UNASKED,
	VERDICT_RESPONSE_FIN,
	VERDICT_RESPONSE_NO_CLIENT,
	VERDICT_RESPONSE_MALFORMED,
	VERDICT_RESPONSE_UNKNOWN_SOCKET,
	VERDICT_SPILL_FULL,
	VERDICT_SPILL_LOCKED,
	VERDICT_SPILL_FRAMING,
	VERDICT_SPILL_CONNECTION_OPTION,
	VERDICT_SPILL_TOO_LONG,
	VERDICT_SPILL_TRAILERS,
	VERDICT_SPILL_RETRY,
	VERDICT_SPILLED,
	VERDICT_SEGMENT_TRIMMED,
	/* cgroup/sock_release */
	VERDICT_CLIENT_LEFT,
	VERDICT_COUNT,
};

/* Invariants of every exchange that a program found broken. Each is counted in `guards` (xlb_guard_total), and the i-sock
 * serves nobody else unless all that was moved is known. */
enum guard {
	/* The kernel moved a part of a message to a socket on this host, and ran the program again for the rest. */
	GUARD_CUT = 0,
	/* A send returned fewer bytes than the program had claimed. */
	GUARD_SHORT,
	/* Two tasks sent on one connection at once, in the midst of a message. */
	GUARD_CONCURRENT,
	/* The i-sock's sequence number does not agree with the bytes of the request. */
	GUARD_SEQUENCE,
	/* A byte of a request left as urgent data. */
	GUARD_URGENT,
	/* An endpoint sent bytes that nobody asked for. */
	GUARD_UNASKED,
	GUARD_COUNT,
};

/* One look at the daemon's life, SHARED, one entry. */
struct control {
	/* CLOCK_MONOTONIC of the last heartbeat; connect programs stop rewriting when it
	 * is older than HEARTBEAT_NS. Writer: daemon. */
	__u64 heartbeat_ns;
	/* The daemon's thread group as the kernel sees it: its own sockets never become p-socks. */
	__u32 daemon_tgid;
	/* Non-zero: no new connection is intercepted. Writer: daemon. */
	__u32 draining;
	/* How many entries `captures` has. Writer: daemon. */
	__u32 captures;
	/* Non-zero: network namespaces may have views. Set before the first that has one, and before the first listener of one. Writer: daemon. */
	__u32 views;
	/* CLOCK_MONOTONIC of the last EVENT_GUARD of each kind: more often than GUARD_EVENT_NS they are counted only. Writers:
	 * programs. */
	__u64 guard_ns[GUARD_COUNT];
	/* CLOCK_MONOTONIC of the last EVENT_NAMESPACE, which is raised every NAMESPACE_EVENT_NS at most. Writers: connect programs. */
	__u64 namespace_ns;
	/* Non-zero: no request begins on the fast path. Writer: daemon. */
	__u32 guarded;
	/* How many connections all accounts may have together; 0: any number, and each account likewise. Writer: daemon. */
	__u32 max_connections;
	/* The value of `arrived` at which EVENT_ARRIVED is raised. Writer: daemon. */
	__u32 accept_at;
	/* So that what follows is not in the cache line of what every connect reads. */
	__u32 reserved[9];
	/* p-socks since the daemon last accepted. Writers: sock_ops; the daemon, which sets it to 0. */
	__u32 arrived;
	/* Those of all accounts, and of accounts that are no more. Writers: connect programs, sock_ops, release program. */
	__u32 connections;
};

/* What the clients of one or more network namespaces have together, by anchor_ports.account. */
struct account {
	/* Connections to service addresses that were intercepted, from connect on. Writers: connect programs, sock_ops, release program. */
	__u32 connections;
	__u32 reserved;
	/* Connections that were not intercepted because there were as many as may be. Writers: connect programs. */
	__u64 refused;
	/* Nanoseconds that the request's program has run for sends that are no part of a lease's request: see lib/sample.h. Writer: the request's program. */
	__u64 program_ns;
};

/* Numbers of views. A view is the configuration that a workload sees: its service addresses, and their routes. 0 is the shared one. */
enum views {
	/* In keys of `vips` and `captures`: every address that a view other than 0 has, for network namespaces that have no view. */
	VIEW_ANY = 0xffffffff,
};

/* Where the connections of one network namespace are really sent, by its cookie. Several, so that short connections to
 * many services do not crowd the source ports of one address. Where all are 0 the namespace is known, and not served.
 * A change of the view alone is written into the entry: a hash exchanges an entry by another one, and a look-up can miss both. All else is
 * exchanged with the entry: a program could see half of what is written into it. */
struct anchor_ports {
	__u16 port4[ANCHOR_PORTS];
	__u16 port6[ANCHOR_PORTS];
	/* The daemon's number of the network namespace; 0: its own. */
	__u32 workload;
	/* Key of `accounts`. */
	__u32 account;
	/* 0 where the namespace is not served. Below 256: one byte changes, so that no program sees half of a change. */
	__u32 view;
	/* The daemon's alone: with it the kernel writes in place. */
	struct bpf_spin_lock lock;
};

/* A service address. */
struct listener_key {
	__u8 addr[16];
	__u16 port;
	/* 0, except in the daemon: for many addresses, which are in `captures`, how many leading bits of them count, and 1. Port 0 is any
	 * then. */
	__u16 bits;
	/* Whose address it is, or VIEW_ANY. */
	__u32 view;
};

/* Destinations by port and beginning of the address. */
struct capture_key {
	/* Of what follows, in bits: of view, port and family all count. */
	__u32 prefix_len;
	/* As in listener_key. */
	__u32 view;
	/* Network order; 0 is any port. */
	__u16 port;
	/* Network order, 4 or 6: what is for all addresses is for those of one family. */
	__u16 family;
	__u8 addr[16];
};

/* Destinations by the beginning of the address alone. */
struct exclusion_key {
	__u32 prefix_len;
	__u8 addr[16];
};

/* A listener's current route table, SHARED. The entry is at the low bits of the listener's number, and says whose it is: when the listener has gone
 * another one may get it, under a number of which the other bits differ. A number is never given twice, so a connection to a listener that has gone
 * finds no table for ever. One word, exchanged by one store: a reader sees table and number of one moment. Writer: reconcile. */
struct listener {
	/* Index into route_tables; 0 is none: the listener has gone. */
	__u32 table;
	/* 0 is no listener's. */
	__u32 number;
};

/* A client connection as the daemon's end of it sees its peer. */
struct conn_key {
	__u8 addr[16];
	__u64 netns;
	__u16 port;
	/* The anchor listener's: two connections may come from one source port to two of them. */
	__u16 anchor_port;
	__u16 reserved[2];
};

enum conn_flags {
	/* Of a listener without HTTP: served from its beginning, not from its first bytes. */
	CONN_PLAIN = 1,
	/* No program sees its bytes, and it is in no map of sockets: that says nothing of whether its client has closed. */
	CONN_UNSEEN = 2,
};

/* What the daemon must know of a connection it accepts. Written at the client's handshake,
 * taken out by the daemon at accept. */
struct conn_record {
	__u64 cookie;
	__u8 vip[16];
	__u16 vip_port;
	/* enum conn_flags */
	__u16 flags;
	__u32 listener;
	/* The client's cgroups, the outermost first; 0 behind its own. */
	__u64 tenant[TENANT_LEVELS];
};

enum offer {
	OFFER_NONE = 0,
	/* The daemon has sent on what a lease's request lacked. The lease may run still, or have broken: then its client waits. */
	OFFER_SENT_ON = 1,
	/* The client has been answered, or told how its lease has ended. */
	OFFER_ANSWERED = 2,
};

/* A connection that is, or may be, on the slow path, by the p-sock's cookie. Its presence keeps the
 * p-sock off the fast path; it goes when the daemon's give-back is accepted. */
struct slow_conn {
	/* enum verdict. Writer: p-sock, under its lock. */
	__u32 reason;
	/* Endpoint that was chosen before the request was declined, plus 1; 0 is none, 0xffffffff that the request is to fail. Writer: p-sock. */
	__u32 endpoint;
	/* Lease that must end before the daemon answers anything; if its request has not ended, or it is a tunnel, the bytes are the
	 * lease's own. Writers: p-sock, and the program that spills. */
	__u32 slot;
	__u32 has_lease;
	__u64 lease;
	/* The daemon's offer to give the connection back: low half, bytes it has read from the anchor;
	 * high half, bytes it has written there; both modulo 2^32, since the handshake. The p-sock accepts when both
	 * agree with its own counts, so an offer that was overtaken by a send is void. */
	__u64 offer;
	/* enum offer. Writer: the daemon. */
	__u32 offered;
	/* Non-zero: the client has some of the response to the request of which these bytes are. Writer: p-sock. */
	__u32 begun;
	/* The random number that has decided about the request, 0 if none has: drawn again, it would be decided twice. Writer: p-sock. */
	__u64 draw;
	/* Requests that the connection has carried, on both paths. Writers: p-sock, and the daemon with its offer. */
	__u32 requests;
	/* Non-zero: no bytes that a program has moved are on their way to the client any more, nor will be as long as this entry lives. Writer:
	 * the daemon, with its offer. */
	__u32 settled;
};

/* A socket's cookie as the key of a trie, in which it always counts whole. A trie takes memory for what it holds, a hash for what it may hold, and
 * these hold little while connections are on the fast path. */
struct cookie_key {
	/* COOKIE_BITS */
	__u32 prefix_len;
	/* Lower half first. */
	__u32 cookie[2];
};

/* Why a connection's next request is handed over. */
enum hold {
	HOLD_NOT = 0,
	/* The connection's time is up, or it has carried as many requests as it may. */
	HOLD_LIMIT = 1,
	/* It has broken invariants. */
	HOLD_GUARD = 2,
};

/* What the daemon asks about a client's connection, and the answer. */
struct client_look {
	/* The question: the p-sock, and whether it is to be held from now on (enum hold). */
	__u64 cookie;
	__u32 hold;
	/* Non-zero: there is such a p-sock. The rest is the answer. */
	__u32 known;
	/* Non-zero: a lease runs, its client has yet to be told how it ended, or bytes are on their way to the client. */
	__u32 busy;
	/* Requests that the connection has carried, as far as the kernel knows. */
	__u32 requests;
	/* CLOCK_MONOTONIC of the end of its last response, 0: the slot has served another client since, or the daemon ended it. */
	__u64 ended_ns;
};

enum table_flags {
	/* Only the slow path can evaluate this table. */
	TABLE_SLOW = 1,
	/* Some virtual host names a domain other than "*". */
	TABLE_HOSTS = 2,
	/* Some domain is a prefix wildcard. */
	TABLE_HOST_PREFIXES = 4,
	/* Some route asks about headers. */
	TABLE_FIELDS = 8,
	/* Some route is left to chance, or its cluster is. */
	TABLE_DRAW = 16,
	/* Virtual hosts are looked up without the host's port. */
	TABLE_IGNORES_PORTS = 32,
	/* The slow path serves hosts with a port, or with a dot at the end of the name: it cuts those off. */
	TABLE_CUTS_PORTS = 64,
	TABLE_CUTS_DOTS = 128,
	TABLE_KNOWS_PORTS = TABLE_IGNORES_PORTS | TABLE_CUTS_PORTS | TABLE_CUTS_DOTS,
	/* Some route asks about a pseudo header. */
	TABLE_PSEUDO = 256,
	/* Some route asks about a parameter of the query. */
	TABLE_QUERY = 512,
	/* The path is to be changed before it is looked up, if it has a "%", a segment that begins with a ".", an empty one, or a ";". */
	TABLE_ESCAPES = 1024,
	TABLE_DOTS = 2048,
	TABLE_SLASHES = 4096,
	TABLE_PARAMETERS = 8192,
	/* Of a listener without HTTP: its one route, that of the path "/", says where connections go. */
	TABLE_PLAIN = 16384,
	/* Requests that have a field with a "_" in its name are refused, or lose the field. */
	TABLE_UNDERSCORES = 32768,
};

enum asked_flags {
	/* Some values of the header have records of their own. */
	ASKED_VALUES = 1,
	/* Some beginnings of its values have. */
	ASKED_PREFIXES = 2,
	/* The highest byte is the number by which hash policies know it, 0 for none. */
	ASKED_HASH_SHIFT = 24,
};

/* What routes ask about a header, or about a parameter of the query. */
struct asked_field {
	/* Conditions that hold for a value without a record. */
	__u64 bits;
	/* Conditions that hold for a request without the header. */
	__u64 missing;
	/* Stands for the header in keys of values. Of one header of one table. */
	__u32 number;
	/* enum asked_flags */
	__u32 flags;
	/* Where a request keeps the class of the value; 0: no index asks for it. */
	__u32 slot;
	/* Class of a value without a record; 0 is that of a missing header. */
	__u32 class;
	/* automata[automaton .. automaton + automata) tell what else holds for a value without a record. */
	__u32 automaton;
	__u32 automata;
};

/* What of a request is compared like a header's value. */
enum pseudo_header {
	PSEUDO_METHOD = 0,
	/* The target, with its query. */
	PSEUDO_PATH,
	PSEUDO_COUNT,
};

/* One version of one listener's route table. Never changed once a listener points to it. */
struct route_table {
	__u32 flags;
	/* Virtual host of "*", 0 is none. */
	__u32 default_vhost;
	/* Conditions that hold for a request without any of the headers that routes ask about. */
	__u64 missing;
	/* By enum pseudo_header; with number 0 no route asks. */
	struct asked_field pseudo[PSEUDO_COUNT];
	/* How long a request may take to its last byte, in milliseconds, and how many one connection may carry; 0: no limit. */
	__u32 request_ms;
	__u32 max_requests;
};

enum host_direction {
	/* The host from its last byte to its first, a 0 byte behind it: finds exact domains, then the longest "*suffix". */
	HOST_BACKWARD = 0,
	/* The host from its first byte: finds the longest "prefix*". */
	HOST_FORWARD = 1,
};

/* Key of the host trie. prefix_len counts bits of what follows it. */
struct host_key {
	__u32 prefix_len;
	/* table * 2 + enum host_direction */
	__u32 scope;
	__u8 host[MAX_HOST + 1];
};

/* Key of the path trie. A path that must match whole ends in a 0 byte. */
struct path_key {
	__u32 prefix_len;
	__u32 vhost;
	__u8 path[MAX_PATH + 1];
};

/* How the paths of a virtual host are looked up, SHARED; by its number. */
struct vhost {
	/* 0: in the path trie. Otherwise by hash: a byte for each length that keys may have, the longest lowest, 0 behind them: one more
	 * than the length of a prefix, or WHOLE_PATH. One word: a reader sees one version. Writer: daemon. */
	__u64 lengths;
};

/* Key of the paths that are looked up by hash: what lies behind `len` bytes is 0. A path that must match whole has its terminator in
 * `len`. */
struct path_text {
	__u32 vhost;
	__u32 len;
	__u8 text[MAX_PATH_TEXT];
};

/* The routes that a path may take: routes[first .. first + count), in order, and those that an index leads to, by
 * tuples[tuple .. tuple + tuple_count), in the order of their first routes; for a path also those of the candidates that
 * automata[automaton .. automaton + automata) lead to. The first of all that match is taken. */
struct candidates {
	__u32 first;
	__u32 count;
	__u32 tuple;
	__u32 tuple_count;
	__u32 automaton;
	__u32 automata;
};

/* What a path_text leads to: of[current]. A hash exchanges an entry by another one, and a look-up can miss both. So the daemon writes
 * into the entry: first what is not current, and then, in a write of its own, which is. That is one byte that changes. The lock is
 * the daemon's alone: with it the kernel writes in place. */
struct path_routes {
	struct bpf_spin_lock lock;
	__u32 current;
	struct candidates of[2];
};

/* Routes that ask for values of the same headers: a look-up by the classes of these values leaves the few that can match. */
struct tuple {
	/* Position of the first of them in its virtual host. */
	__u32 order;
	/* In keys of buckets. 0: they ask for no values, and are routes[first .. first + count). */
	__u32 number;
	__u32 first;
	__u32 count;
	/* The headers, by asked_field.slot; 0 is none. */
	__u8 slots[MAX_TUPLE_FIELDS];
};

struct bucket_key {
	/* tuple.number */
	__u32 tuple;
	/* Of the values of the tuple's headers; 0 where there is none. */
	__u32 classes[MAX_TUPLE_FIELDS];
};

/* Of routes the first, in the low half, and how many, in the high one: one store exchanges both. */
struct bucket_list {
	__u64 place;
};

/* Expressions as a table of transitions: the state behind state s and byte b is cell s * class_count + classes[b] of those that
 * begin at cells[next]. The cells that begin at cells[accept] hold for each state the number of a list. For values of a header, that is an
 * index into accepted_values, counted from `lists`. For paths, lists lie in pages of ACCEPTS, of which the cells that begin at cells[lists] hold
 * the numbers: page p is accepts[p * ACCEPTS .. p * ACCEPTS + ACCEPTS). So a route that changes is a page that does. */
struct automaton {
	__u32 next;
	__u32 accept;
	__u32 lists;
	__u32 class_count;
	__u32 start;
	__u32 reserved;
	__u8 classes[256];
};

struct cells {
	__u16 of[CELLS];
};

/* A name that some route of a table asks about: a header's in lower case, or '?' and that of a parameter of the query. Key of a struct
 * asked_field. */
struct field_key {
	__u32 table;
	__u32 len;
	__u8 name[MAX_FIELD_NAME];
};

/* A value of a header, or the beginning of one; what lies behind it is 0. Key of a hash and of a trie: prefix_len counts
 * bits of what follows it. */
struct value_key {
	__u32 prefix_len;
	/* asked_field.number */
	__u32 field;
	__u8 value[MAX_FIELD_VALUE];
};

/* What is known of such a value. */
struct value {
	/* All conditions on the header that hold for it. */
	__u64 bits;
	/* Tells it from values with other records. */
	__u32 class;
	__u32 reserved;
};

enum route_flags {
	/* A request may switch its connection to the WebSocket protocol. */
	ROUTE_WEBSOCKET = 1,
	/* Only the slow path can tell whether the route matches: a request that could take it is handed over. */
	ROUTE_SLOW = 2,
	/* What lies above is the index into retry_sets, 0: no response and no loss of a request sends it again. */
	ROUTE_RETRY_SHIFT = 16,
};

/* A route that a path leads to. It is taken when of the request's conditions all of `need` hold and none of `forbid`. */
struct route {
	__u64 need;
	__u64 forbid;
	/* 0 for none. From the end of the request to the end of the response. */
	__u64 timeout_ns;
	/* splits[first .. first + count) with cumulative weights up to `total`; for one cluster, count is 0 and
	 * `first` is the cluster, or the subset of one. */
	__u32 first;
	__u32 count;
	__u32 total;
	/* enum route_flags */
	__u32 flags;
	/* Position in its virtual host: of several that match, the lowest is taken. */
	__u32 order;
	/* The share of the requests: those of which the draw, modulo the denominator, is less. Denominator 0: all of them. */
	__u32 numerator;
	__u32 denominator;
	/* Longest time without progress in milliseconds, 0 for the daemon's default, NO_LIMIT for none. */
	__u32 idle_ms;
	/* Hash policies, the first in the lowest byte: enum hash_policy. 0: there are none. */
	__u32 hash;
	/* Index into rewrites, 0: the endpoint gets the path as it is. */
	__u32 rewrite;
};

/* A text that the endpoint gets in place of the beginning of a path. */
struct rewrite {
	/* Bytes of the path that it replaces, NO_LIMIT: all of them. */
	__u32 cut;
	/* Of the text, at least 1: it begins with a slash. What lies behind it is 0. */
	__u32 len;
	__u8 text[MAX_REWRITE];
};

enum retry_flags {
	/* The request is kept, and goes to the daemon when it is lost. */
	RETRY_KEPT = 1,
	/* A response that says x-envoy-ratelimited may send it again: then whatever its status is, otherwise never. */
	RETRY_LIMITED = 2,
};

enum retry_statuses {
	FIRST_STATUS = 100,
	/* Words of 64 statuses each. Of others the daemon decides. */
	STATUS_WORDS = 8,
};

/* The responses that may send a request again, instead of going to the client. */
struct retry_set {
	/* A bit for each status, from FIRST_STATUS on. */
	__u64 statuses[STATUS_WORDS];
	/* enum retry_flags */
	__u32 flags;
	__u32 reserved;
};

/* What one policy hashes: the field of that number. */
enum hash_policy {
	HASH_FIELD = 15,
	/* The client's address instead, unless the request has the field. */
	HASH_SOURCE_IP = 64,
	/* Once there is a hash, the policies behind it are left out. */
	HASH_TERMINAL = 128,
};

/* A share of a weighted route. */
struct split {
	__u32 below;
	__u32 cluster;
};

enum policy {
	POLICY_ROUND_ROBIN = 0,
	POLICY_LEAST_REQUEST = 1,
	POLICY_RANDOM = 2,
	POLICY_RING_HASH = 3,
	POLICY_MAGLEV = 4,
	/* LEAST_REQUEST of endpoints with different weights: each as likely as its weight, divided by its requests, says. */
	POLICY_LEAST_WEIGHTED = 5,
	/* LEAST_REQUEST that looks at every endpoint. */
	POLICY_LEAST_SCAN = 6,
};

enum group_flags {
	/* Its schedule holds groups, not endpoints. */
	GROUP_OF_GROUPS = 1,
};

/* What a choice is made among, SHARED: endpoints of one priority, state of health and locality, or such groups. While a cluster leads to
 * it only the turn changes and, where endpoints are many, single places of the schedule and its length: a place within a length that
 * was read holds an endpoint of before or of after. */
struct group {
	/* schedule[low half .. + high half): endpoints or groups, each as often as its share asks. 0 length: nothing to choose. One
	 * word: read it once. Writer: daemon. */
	__u64 schedule;
	/* Turn of round robin. Writers: everybody who picks. */
	__u64 turn;
	/* enum policy, choice_count of LEAST_REQUEST, enum group_flags. Writer: daemon. */
	__u32 policy;
	__u32 choices;
	__u32 flags;
	__u32 unused;
	/* Of a policy that hashes: hash_places[low half .. + high half), a ring sorted by hash, or a Maglev table. 0: only the daemon has it.
	 * Writer: daemon. */
	__u64 table;
	/* A cache line of its own: processors take turns on one group without slowing those of another. */
	__u64 reserved[3];
};

/* A place of a table that finds endpoints by hash; in a Maglev table `hash` is 0. */
struct hash_place {
	__u64 hash;
	__u32 endpoint;
	__u32 reserved;
};

/* A cluster, SHARED, or one of its subsets: that has a root of its own, and all counts are the cluster's. */
struct cluster {
	/* Low half: the group that a choice begins with, 0 for none. High half: another number after each change, so that who has
	 * chosen can tell that nothing has changed meanwhile. One word: a reader sees one version. Writer: daemon. */
	__u64 root;
	/* The kernel begins no request of an account while it has so many in flight; NO_LIMIT: it counts none. Writer: daemon. */
	__u32 limit;
	/* That of no other cluster before or after it; never 0, at most LOAD_RETIRED - 1. Writer: daemon. */
	__u32 number;
	/* Of a subset the cluster's index, plus 1; 0: it is a cluster. Writer: daemon, before a route leads here. */
	__u32 whole;
	__u32 reserved;
};

/* Requests that one account has in flight to one cluster, on both paths, as far as they were counted. Writers of both: by atomic operations, each of which
 * is taken back at the same entry, so that whose entry it is meanwhile does not matter. */
struct load {
	/* Writers: everybody. */
	__u32 active;
	/* Non-zero: requests wait in the daemon for others to end, and come before the kernel's. Writer: daemon. */
	__u32 waiting;
};

enum load_sizes {
	LOAD_SETS = 8192,
	LOADS_OF_SET = 8,
	/* In an owner's low half: requests that begin are counted at another entry. When this one counts none any more it is free. */
	LOAD_RETIRED = 0x80000000,
};

/* The loads of those accounts and clusters that have the same hash. */
struct load_set {
	/* The account, high half, and cluster.number; 0: the entry is free. It is taken by compare-and-exchange. Writers: the request's program and the
	 * daemon, which alone retires and frees. */
	__u64 owners[LOADS_OF_SET];
	struct load loads[LOADS_OF_SET];
};

enum no_limit {
	NO_LIMIT = 0xffffffff,
};

enum endpoint_flags {
	/* Its connections were refused or all lost: passed over while another of the group can be had. */
	ENDPOINT_DOWN = 1,
	/* Removed from the configuration. */
	ENDPOINT_GONE = 2,
	/* Neither takes requests. What follows is health: the daemon makes groups of it, and the kernel does not look at it, because in
	 * panic a group holds unhealthy endpoints too. */
	ENDPOINT_OUT_OF_SERVICE = ENDPOINT_DOWN | ENDPOINT_GONE,
	/* Active health checks fail, or none has passed yet. */
	ENDPOINT_UNHEALTHY = 4,
	/* Outlier detection has ejected it. */
	ENDPOINT_EJECTED = 8,
	/* Health checks say that it is degraded. */
	ENDPOINT_DEGRADED = 16,
	/* Left out where the share of healthy endpoints is computed, beside being unhealthy: not checked yet. */
	ENDPOINT_EXCLUDED = 32,
	/* Connections to it are secured: it has no i-socks, and the daemon serves its requests. */
	ENDPOINT_TLS = 64,
	/* Too many invariants were broken with it: the daemon serves its requests. */
	ENDPOINT_GUARDED = 128,
};

/* What was carried on the fast path. */
struct traffic {
	__u64 requests;
	/* Responses by class: [0] 1xx .. [4] 5xx. */
	__u64 responses[5];
	/* Body and head bytes. */
	__u64 bytes_sent;
	__u64 bytes_received;
	/* Nanoseconds that programs have run for it: see lib/sample.h. */
	__u64 program_ns;
};

/* Of so many runs of a program for a request or a response the time of one is taken, by chance, and counted as often: a clock that is read twice in each
 * run would take longer than 1 % of a short request. A power of 2. */
enum {
	PROGRAM_SAMPLE = 64
};

/* An endpoint of a cluster, SHARED. */
struct endpoint {
	/* Requests begun and not yet ended, on both paths, of all workloads. Writers: everybody. */
	__u32 outstanding;
	/* enum endpoint_flags. Writer: daemon. */
	__u32 flags;
	__u32 weight;
	/* Its cluster. Writer: daemon. */
	__u32 cluster;
	/* Leases that ended otherwise than with a whole response. Writers: everybody. */
	__u64 broken;
	/* Of those, leases that ended without a fault of the endpoint: nearly always its client has left. Never more than broken, if read
	 * before it. Writers: everybody. */
	__u64 cancelled;
	/* Of i-socks that have closed; what the open ones carry is counted in their slots. Writer: daemon. */
	struct traffic traffic;
	/* Responses in a row that were errors, 5xx, and that were a gateway's, 502 to 504, on both paths. Writers: everybody. */
	__u32 errors;
	__u32 gateway_errors;
	/* So many of them in a row wake the daemon; 0: nothing does. Writer: daemon. */
	__u32 error_limit;
	__u32 gateway_error_limit;
};

/* A workload's i-socks to an endpoint: key of pool_indices. */
struct pool_key {
	__u32 workload;
	__u32 endpoint;
};

/* A workload's i-socks to an endpoint, SHARED. The daemon may give an entry to another workload and endpoint when no slot is of it any more; a program
 * that has found it before leaves the slots that it then finds there: they say whose they are. */
struct pool {
	/* Idle i-socks, a stack: low half, top slot plus 1 (0 is empty); high half, a tag that changes with every
	 * exchange, so that a slot which left and came back is noticed. Writers: all programs, and the daemon. */
	__u64 idle;
	/* Leases that run on its i-socks. Writers: likewise. */
	__u32 leased;
	/* Non-zero asks the daemon for more i-socks. Set by a program that finds too few, cleared by the daemon. */
	__u32 want;
	/* Requests that found no idle i-sock since the daemon last opened some. Writers: request program; the daemon, which sets it to 0. */
	__u32 missed;
	/* From so many leases on the daemon is asked for more i-socks although some are idle; 0: only when none is. Writer: daemon. */
	__u32 ask_at;
	/* So that no entry lies in two cache lines. */
	__u64 reserved;
};

/* Where an endpoint listens, SHARED; by the endpoint's number. IPv4 mapped into IPv6. Writer: daemon, before a group leads to the
 * endpoint. */
struct endpoint_address {
	__u8 addr[16];
	__u16 port;
	__u16 reserved[3];
};

enum slot_state {
	/* Nobody's: the daemon may use it for a new i-sock. */
	SLOT_FREE = 0,
	/* The daemon is connecting it. */
	SLOT_CONNECTING,
	/* Idle: in its endpoint's stack, or on its way there. */
	SLOT_READY,
	SLOT_LEASED,
	/* To be closed by the daemon. Nothing leads out of it but the daemon. */
	SLOT_BROKEN,
};

enum slot_flags {
	/* The other end is an s-sock: requests go by ingress. Fixed before the slot is READY. */
	SLOT_LOCAL = 1,
	/* Close instead of READY when the lease ends. */
	SLOT_RETIRE = 2,
	/* The endpoint has sent what nobody asked for: a response that is read from the i-sock would begin with it. */
	SLOT_TAINTED = 4,
	/* A byte of the request left as urgent data: the server does not read it in its place. */
	SLOT_URGENT = 8,
	/* None of these begins another lease. */
	SLOT_UNFIT = SLOT_RETIRE | SLOT_TAINTED | SLOT_URGENT,
};

enum pending {
	/* The framing of the request, of the response: their last byte has not passed a program, or the daemon. */
	PENDING_REQUEST = 1,
	PENDING_RESPONSE = 2,
	/* The client's send with the last byte that a program moved has not returned: what the endpoint's socket took of it is
	 * not known. */
	PENDING_SEND = 4,
	/* The same of the server's send, where that is on this host. */
	PENDING_REPLY = 8,
};

/* Where a message stands; the daemon's slow path goes on from any of these. */
enum phase {
	/* Nothing of the message has been seen. */
	PHASE_HEAD = 0,
	/* `remaining` bytes of body, then the end. */
	PHASE_LENGTH,
	/* Chunked: inside a size line, after its CR, in `remaining` bytes of data, after the data ... */
	PHASE_CHUNK_SIZE,
	/* Behind a ';', in a name, behind its '=', in a value, in a quoted value, behind that. */
	PHASE_CHUNK_EXT,
	PHASE_CHUNK_EXT_NAME,
	PHASE_CHUNK_EXT_EQUALS,
	PHASE_CHUNK_EXT_VALUE,
	PHASE_CHUNK_EXT_QUOTED,
	PHASE_CHUNK_EXT_UNQUOTED,
	/* Behind whitespace: ';' comes, or behind a name '='. */
	PHASE_CHUNK_SPACE,
	PHASE_CHUNK_EXT_NAME_SPACE,
	PHASE_CHUNK_SIZE_LF,
	PHASE_CHUNK_DATA,
	PHASE_CHUNK_DATA_CR,
	PHASE_CHUNK_DATA_LF,
	/* Before the line behind the last chunk, or a trailer: those are the daemon's. */
	PHASE_TRAILER_START,
	PHASE_LAST_LF,
	/* The whole message has been seen. */
	PHASE_DONE,
	/* The protocol was switched: bytes without end, in both directions. */
	PHASE_TUNNEL,
};

enum spill {
	SPILL_NONE = 0,
	/* What was moved is framed up to here: `response` says where the daemon goes on. */
	SPILL_REST,
	/* The kernel could not frame it, or moved none of it: the daemon reads it from its first byte. */
	SPILL_WHOLE,
};

/* Header fields that framing depends on. */
enum field_id {
	FIELD_OTHER = 0,
	FIELD_HOST,
	FIELD_CONTENT_LENGTH,
	FIELD_TRANSFER_ENCODING,
	FIELD_CONNECTION,
	FIELD_UPGRADE,
	FIELD_EXPECT,
	FIELD_TRAILER,
	FIELD_HTTP2_SETTINGS,
	FIELD_HOP_BY_HOP,
	FIELD_TE,
};

/* Progress through one header field (lib/field.h). It lies in map memory, not on the stack: there the
 * verifier knows nothing of its values, so a byte loop over it converges at once. */
struct field_scan {
	/* The name in lower case, packed with its first byte lowest; its first 24 bytes. */
	__u64 name[3];
	/* The value in lower case, likewise, for the fields of which framing needs the text. */
	__u64 value[3];
	__u64 number;
	__u32 name_len;
	__u32 value_len;
	__u32 state;
	__u32 id;
};

/* Progress through a body, lib/chunked.h. */
struct body_scan {
	/* enum phase */
	__u32 phase;
	/* Digits of the chunk size. */
	__u32 digits;
	/* What of the current length or chunk is still to come. */
	__u64 remaining;
};

/* Progress through a response's head, lib/http1.h. */
struct response_head {
	/* enum scan_state */
	__u32 state;
	__u32 off;
	/* enum verdict: why the scan gave up. */
	__u32 failure;
	/* enum scan_flags */
	__u32 flags;
	/* Position in the status line. */
	__u32 at;
	/* Interim responses (1xx) so far. */
	__u32 interims;
	struct field_scan field;
};

/* An i-sock and the lease on it, SHARED. `state` owns the rest: the leaseholder's programs write it
 * while LEASED, the daemon while FREE or CONNECTING. */
struct slot {
	/* enum slot_state. Writers: everybody, by compare-and-exchange. */
	__u32 state;
	/* Low half of the number of a lease: while LEASED of the one that runs, while BROKEN of the one of which the client has not been told yet. 0
	 * otherwise. It is exchanged together with `state`, as one word: who ends a lease may be late, and must not end the next one. Writers: likewise;
	 * the daemon, which sets it to 0 when it has told the client. */
	__u32 holder;
	/* Next slot in the stack of idle ones, plus 1. Writers: whoever pushes. */
	__u32 next;
	/* Non-zero from push to pop. The daemon frees a slot only when it is 0. */
	__u32 stacked;
	__u32 endpoint;
	__u32 flags;
	/* enum pending: what has not ended yet. Who clears the last bit ends the lease. */
	__u32 pending;
	/* Low half of the number of the lease that `pending` is of. Both are exchanged as one word: who
	 * ends a part of a lease may be late, and must not end one of the next. */
	__u32 pending_lease;
	/* Requests that the i-sock may serve, 0 for any number. Writer: daemon, while CONNECTING. */
	__u32 max_requests;
	/* Messages that were moved to a server on this host since its queue was last seen empty. Writer: the request's program. */
	__u32 messages;
	/* Number of the lease: changes when one begins and when it ends (odd: leased). */
	__u64 lease;
	/* The p-sock that holds the lease. */
	__u64 cookie;
	/* CLOCK_MONOTONIC when the response is overdue, or the request while that is coming; 0 for never; and the route's timeout. */
	__u64 deadline_ns;
	__u64 timeout_ns;
	/* enum spill. Writer: the response's program. */
	__u32 spill;
	/* enum request_flags */
	__u32 request;
	/* Request bytes moved to the endpoint. Writer: the request's program. */
	__u64 sent;
	/* Bytes of the final response moved to the p-sock. Writer: the response's program. */
	__u64 moved;
	/* Status of the response, 0 before its head. */
	__u32 status;
	/* The entry of the loads that counts this lease, plus 1, else 0. Who clears it takes the lease from the count. Writers: the request's
	 * program, who ends the lease, the daemon when it goes on with the request. */
	__u32 counted;
	/* enum retry_flags: the request may be sent again. 0 once a response has begun that says no. Writers: the request's program, the
	 * response's. */
	__u32 retry;
	/* The largest of the segments that `waiting` counts, likewise. */
	__u32 largest;
	/* The random number that has decided about the request, 0 if none has. Writer: the request's program. */
	__u64 draw;
	/* The response's head as it is read, and its body. Writer: the response's program. */
	struct response_head head;
	struct body_scan response;
	/* The request's body, if that is chunked. Writer: the request's program; the daemon, once it has spilled. */
	struct body_scan upload;
	/* Number of the i-sock among those that have used the slot, never 0. Writer: daemon, while CONNECTING. */
	__u32 generation;
	/* The route's. */
	__u32 idle_ms;
	/* Since the slot was FREE. Counted here, where a lease makes every field its holder's alone: at the endpoint all
	 * processors would wait for one cache line. Writers: the request's program, the response's program. */
	struct traffic traffic;
	/* CLOCK_MONOTONIC of the last byte of the last response that ended here, and the p-sock it was for. Writer: the response's
	 * program, before the lease ends. */
	__u64 ended_ns;
	__u64 ended_cookie;
	/* The last lease that ended otherwise than with a whole response: what its client sends next waits until the daemon has told it.
	 * Writer: who breaks it. */
	__u64 broken_lease;
	/* Bytes of a spilled response from another host that were left for the daemon to read. Writer: verdict. */
	__u64 passed;
	/* Where the next segment from another host begins: see lib/segment.h. Writer: verdict. */
	__u64 next_sequence;
	/* Bytes of request_copies that hold the lease's request, 0 where it was not kept. Writer: the request's program. */
	__u32 kept;
	/* slot.generation once the server has closed the s-sock: nothing is read from it any more. Writer: the release program. */
	__u32 closed;
	/* CLOCK_MONOTONIC when the lease was filled, before its request was moved. Writer: the request's program. */
	__u64 begun_ns;
	/* Of an i-sock to another host: the bytes that its peer has to acknowledge before any of this request. Writer: the request's
	 * program. */
	__u64 owed;
	/* The last lease of whose request the server may have seen some when it closed the s-sock: of any later one it has not. Writer: the release
	 * program. */
	__u64 read_lease;
	/* Bytes from another host, with the kernel's bookkeeping, that were moved since the worker of the client's socket had nothing to do; from this
	 * host, bookkeeping of what was moved since the client had nothing unread. Writer: the response's program. */
	__u64 waiting;
	/* The lease of whose request all lay there unread then, 0: none. Of another that was not read its client may have been told that it could
	 * not be sent. Writer: the release program. */
	__u64 held_lease;
	/* Of an i-sock to another host: its write_seq before the lease's request. Writer: the request's program. */
	__u32 first_sequence;
	/* Index into pools: where the slot lies while it is idle. Writer of this and of workload: daemon, while CONNECTING. */
	__u32 pool;
	/* The workload in whose network namespace the i-sock is. No other's request is moved there. */
	__u32 workload;
	__u32 reserved;
	/* Bytes that the server, on this host, had been given to send over TCP on this connection before the response spilled. The daemon
	 * has read as many, or what it would read began with some that nobody asked for. Writer: the response's program. */
	__u64 spilled_at;
};

/* The request of a slot's lease as the client sent it, if it was whole in one send. The daemon sends it again when it is certain that no
 * server has seen it, or when the route's retry policy asks for that. */
struct request_copy {
	/* As in struct retry_set, while slot.retry is not 0: those of the route as it was when the request began. */
	__u64 statuses[STATUS_WORDS];
	__u8 bytes[MAX_COPY];
};

enum request_flags {
	/* The response has no body whatever it says. */
	REQUEST_HEAD = 1,
	/* The endpoint may switch to another protocol. */
	REQUEST_UPGRADE = 2,
	/* The daemon writes the rest of the request to the i-sock. */
	REQUEST_SPILLED = 4,
	/* The client is short of memory: a response from another host comes over TCP, which waits. */
	REQUEST_LEAN = 8,
};

/* The two ends of a connection, as the accepting side sees them: netns is 0 unless the addresses are
 * loopback, where tuples repeat between namespaces. Anybody can have these addresses in a namespace of
 * his own; but the number of the first byte that comes is one that the daemon has drawn, and that only
 * the i-sock's true peer gets to know. */
struct peer_key {
	__u8 local[16];
	__u8 remote[16];
	__u16 local_port;
	__u16 remote_port;
	__u32 sequence;
	__u64 netns;
};

enum event_kind {
	EVENT_POOL_LOW = 1,
	/* An i-sock to close; its slot says whether a client waits. */
	EVENT_SLOT_BROKEN = 2,
	/* Bytes wait on a connection that the daemon may not have accepted yet. */
	EVENT_HANDOVER = 3,
	/* A response that the daemon has to go on with. */
	EVENT_SPILLED = 4,
	/* An endpoint has reached a limit of errors in a row. */
	EVENT_OUTLIER = 5,
	/* Many connections wait to be accepted, each of which could wait longer. */
	EVENT_ARRIVED = 6,
	/* An invariant did not hold; event.detail is enum guard. */
	EVENT_GUARD = 7,
	/* A thread has connected to a service address in a network namespace that `anchors` does not have. */
	EVENT_NAMESPACE = 8,
};

/* Which limits of an endpoint EVENT_OUTLIER is about. */
enum outlier {
	OUTLIER_ERRORS = 1,
	OUTLIER_GATEWAY_ERRORS = 2,
};

/* What the daemon is woken for. */
struct event {
	__u32 kind;
	__u32 slot;
	__u32 endpoint;
	/* enum outlier, enum guard; of an EVENT_POOL_LOW the workload, of an EVENT_NAMESPACE the thread, by its number in the first pid namespace. */
	__u32 detail;
	/* Of an EVENT_POOL_LOW: how many requests have found no pool. */
	__u64 lease;
	/* Of an EVENT_GUARD: the client's; of an EVENT_NAMESPACE: the namespace's. */
	__u64 cookie;
};

/* What the daemon asks the explain program about a request head, and what that answers. */
struct explanation {
	/* The route's, 0 for none. */
	__u64 timeout_ns;
	/* The question: the number of the listener, and the random number, unless the kernel is to draw it (drawn is 0). The rest is the
	 * answer. */
	__u64 draw;
	__u32 drawn;
	__u32 listener;
	/* enum verdict: why the request would be handed over, 0 when it would not. */
	__u32 verdict;
	/* The cluster, or its subset. */
	__u32 cluster;
	/* enum route_flags */
	__u32 flags;
	/* Whether the route's policies found something to hash, and its hash. */
	__u32 hashed;
	__u64 hash;
	/* The client's IPv4 address in network order, 0 for none: a part of the question. */
	__u32 source;
	/* As in struct route. */
	__u32 rewrite;
};

#endif
