/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* HEELS: what its kernel programs share with each other and with the agent (internal/heels). Go's types are generated from here.
 * Addresses are 16 bytes in network order, IPv4 as ::ffff:a.b.c.d; ports are in network order.
 */
#ifndef XLB_HEELS_H
#define XLB_HEELS_H

#include <linux/types.h>

enum heels_limits {
	/* Changes with every type below: an agent does not take over the pinned maps of another number. */
	HEELS_ABI = 6,
	/* VIPs of the client role; a reset or an ICMP error is looked up under each. */
	HEELS_CLIENT_VIPS = 64,
	HEELS_SERVER_VIPS = 256,
	/* Of one role. Maps have room for both roles, and for what a configuration and the one before it name. */
	HEELS_PREFIXES = 4096,
	/* Pairs of VIP and server that are counted apart. */
	HEELS_BACKENDS = 8192,
	/* Connections that are closing or have closed within a minute. An entry that is pushed out costs one late segment. */
	HEELS_CLOSING = 131072,
	/* Ends whose SYN cookies are being waited for, and how many of each. */
	HEELS_COOKIES = 16384,
	HEELS_COOKIE_NUMBERS = 4,
	/* Wrong tags in a second for one VIP, and of those for one of its clients; for the rest of it no SYN for that VIP, or
	 * of that client for it, is believed. How many clients are counted apart. */
	HEELS_GUESSES = 64,
	HEELS_GUESSES_EACH = 8,
	HEELS_GUESSERS = 4096,
	/* Confirm mode: live connections, two entries each; handshakes and ends that packets may still come for; ends that a balancer is to be told of. */
	HEELS_CONFIRMED = 1048576,
	HEELS_CONFIRM_OTHER = 131072,
	HEELS_ENDED = 65536,
	/* Confirm mode: parts of clients' prefixes that are routed apart. */
	HEELS_ROUTES = 4096,
	/* Next hops that the client remembers; one that is pushed out is asked for again. */
	HEELS_HOPS = 4096,
	HEELS_KEYS = 2,
	/* Slots of time whose tags are good: this one, the one before, the next one. */
	HEELS_SLOTS = 3,
	/* Confirm mode, with a key: clients' ends whose last SYN is known. */
	HEELS_SEEN = 32768,
	/* SYNs of one connection that carry the option; those after it go without. */
	HEELS_OFFERS = 2,
	/* Length of the option in a SYN and in a SYN-ACK, in bytes. */
	HEELS_SYN_LENGTH = 20,
	HEELS_SYNACK_LENGTH = 16,
	/* The same over IPv6; with a tag there is no address in the SYN. */
	HEELS_SYN6_LENGTH = 20,
	HEELS_SYN6_TAGGED_LENGTH = 12,
	HEELS_SYNACK6_LENGTH = 20,
};

/* Why a program ended as it did. Every decision is counted under one of these; docs/heels.md says what each means. */
enum heels_verdict {
	HEELS_OK = 0,
	/* Client: the SYN. */
	HEELS_OFFERED,
	HEELS_OFFER_DRAINING,
	HEELS_OFFER_BACK_OFF,
	HEELS_OFFER_NO_ROOM,
	HEELS_OFFER_REPEATED,
	HEELS_OFFER_NO_MEMORY,
	HEELS_OFFER_INTERFACE,
	/* Client: the SYN-ACK. */
	HEELS_DIRECT,
	HEELS_ANSWER_NONE,
	HEELS_ANSWER_MALFORMED,
	HEELS_ANSWER_BACKEND,
	HEELS_ANSWER_TAG,
	/* Client: a connection that ended before its server confirmed anything. */
	HEELS_DIRECT_FAILED,
	HEELS_FALLBACK_FAILED,
	/* Client: packets that are not a socket's own. */
	HEELS_CLIENT_CLOSING,
	HEELS_CLIENT_RESET,
	HEELS_CLIENT_ICMP,
	HEELS_CLIENT_ROUTED,
	/* Server: the SYN. Each but the first leaves it as it is. */
	HEELS_COMMITTED,
	HEELS_DECLINE_FIRST,
	HEELS_DECLINE_DRAINING = HEELS_DECLINE_FIRST,
	HEELS_DECLINE_MALFORMED,
	HEELS_DECLINE_VIP,
	HEELS_DECLINE_PATH,
	HEELS_DECLINE_BALANCER,
	HEELS_DECLINE_CLIENT,
	HEELS_DECLINE_TAG,
	HEELS_DECLINE_FAST_OPEN,
	HEELS_DECLINE_MPTCP,
	HEELS_DECLINE_SIGNED,
	HEELS_DECLINE_COLLISION,
	HEELS_DECLINE_NO_LISTENER,
	HEELS_DECLINE_LISTENER,
	HEELS_DECLINE_EXTENSION,
	HEELS_DECLINE_PORT,
	HEELS_DECLINE_AGENT,
	HEELS_DECLINE_INTERFACE,
	HEELS_DECLINE_GUESSED,
	HEELS_DECLINE_ROUTE,
	HEELS_DECLINE_REPLAYED,
	HEELS_DECLINE_LAST = HEELS_DECLINE_REPLAYED,
	/* Server: the rest of the handshake. */
	HEELS_ANSWERED,
	HEELS_ANSWERED_COOKIE,
	HEELS_ANSWER_NO_ROOM,
	HEELS_ANSWER_UNKNOWN_VIP,
	HEELS_ACCEPTED,
	HEELS_ACCEPTED_COOKIE,
	HEELS_ACCEPT_NO_MEMORY,
	HEELS_LISTENER_READY,
	HEELS_LISTENER_REFUSED,
	/* Server: packets. */
	HEELS_DECAPSULATED,
	HEELS_DECAPSULATED_DETOUR,
	HEELS_DECAPSULATE_REFUSED,
	HEELS_DECAPSULATE_FAILED,
	HEELS_SERVER_CLOSING,
	HEELS_SERVER_ICMP,
	HEELS_REWRITE_FAILED,
	/* Client, confirm mode. */
	HEELS_CONFIRM_WAITING,
	HEELS_CONFIRM_SWITCHED,
	HEELS_CONFIRM_RETURNED,
	HEELS_CONFIRM_SHARED,
	/* Server, confirm mode. */
	HEELS_CONFIRM_TAKEN,
	HEELS_CONFIRM_ANSWERED,
	HEELS_CONFIRM_COOKIE,
	HEELS_CONFIRM_ACCEPTED,
	HEELS_CONFIRM_HEARD,
	HEELS_CONFIRM_BACK,
	HEELS_CONFIRM_CLOSING,
	HEELS_CONFIRM_ROUTED,
	HEELS_CONFIRM_UNTOLD,
	HEELS_CONFIRM_CHALLENGED,
	HEELS_CONFIRM_YIELDED,
	HEELS_VERDICTS,
};

/* How a balancer delivers SYNs. */
enum heels_mode {
	/* Inside another IP packet, client and VIP untouched. */
	HEELS_ENCAPSULATED = 1,
	/* With the balancer's address as source. */
	HEELS_REWRITTEN,
	/* With the client's address as source, the server's as destination. */
	HEELS_PRESERVED,
};

enum heels_flags {
	HEELS_CLIENT_DRAINING = 1 << 0,
	HEELS_SERVER_DRAINING = 1 << 1,
	/* There is, or has been, a VIP in confirm mode: segments have to be looked up. */
	HEELS_SERVER_CONFIRMS = 1 << 2,
	/* An interface has no programs: it is gone, or another of its name has come. What begins could not be finished. */
	HEELS_INCOMPLETE = 1 << 3,
};

/* What a prefix is for. */
enum heels_set {
	HEELS_BALANCERS = 1,
	HEELS_CLIENTS,
	HEELS_BACKENDS_OF,
	/* Of no VIP: in heels_routes. */
	HEELS_ROUTED,
};

enum heels_flow_state {
	/* The SYN carried the option; nothing is rewritten. */
	HEELS_FLOW_OFFERED = 0,
	HEELS_FLOW_DIRECT,
	/* The SYN-ACK came without an answer. */
	HEELS_FLOW_FALLBACK,
	/* Confirm mode: the answer is there, or given, and nothing has come or gone directly yet. */
	HEELS_FLOW_WAITING,
};

struct heels_end {
	__u8 addr[16];
	__u16 port;
	__u16 zero;
};

/* One entry. Writer: agent. */
struct heels_control {
	__u32 abi;
	/* enum heels_flags. */
	__u32 flags;
	/* The network namespace that the interfaces are in: sockets of others are left alone. */
	__u64 netns;
	/* The agent that has started last: one that it has succeeded leaves alone what changes. */
	__u64 agent;
	/* The number of the cgroup that sock_ops is attached to; 0: whichever. */
	__u64 cgroup;
	/* Marks SYNs that this host has committed to; survives restarts. */
	__u32 secret[2];
	/* The first signs, all are accepted. */
	__u32 keys[HEELS_KEYS][2];
	__u32 key_count;
	__u32 client_vip_count;
};

/* What the client's programs know of a VIP. */
struct heels_client_vip {
	__u32 index;
	/* Failures in a row, each of which doubles the back-off. */
	__u32 failures;
	/* CLOCK_MONOTONIC, ns, until which no option is sent. */
	__u64 quiet_until;
};

struct heels_server_vip {
	__u32 index;
	/* enum heels_mode. */
	__u32 mode;
	/* Where the listener gets the connections. */
	struct heels_end local;
	/* 1: confirm mode. */
	__u32 confirm;
	/* This host's address of the other family, where a balancer may wrap one in the other; all 0 when there is none. */
	__u8 other[16];
};

/* Key of a longest-prefix trie: the first 64 bits count as part of the prefix. */
struct heels_prefix {
	/* In bits, 64 more than that of the address in its 16-byte form. */
	__u32 length;
	/* enum heels_set. */
	__u32 set;
	/* Index of the VIP. */
	__u32 vip;
	__u8 addr[16];
};

/* A connection as its socket's storage holds it. For a client peer is the server's own address, for a server its own. */
struct heels_flow {
	struct heels_end vip;
	struct heels_end peer;
	/* enum heels_flow_state. */
	__u32 state;
	/* The next hop's address. */
	__u8 mac[6];
	/* The connection was counted as failed. */
	__u8 failed;
	/* IPv6: the SYN that is being sent is to tell the client's port. */
	__u8 tells_port;
	/* Of a server: the sequence number of the SYN, host order; 0 when it is not known. */
	__u32 syn;
	/* Confirm mode. */
	__u8 confirm;
	/* Client: the handshake's last segment has gone to the balancer. Server: the flow has been direct. */
	__u8 begun;
	/* The end has been dealt with. */
	__u8 closed;
	/* Confirm mode, in the server: a SYN has come with the balancer's end of this connection. The next bare
	 * acknowledgement is the answer to it. */
	__u8 challenged;
	/* Confirm mode, in the server: the balancer's end is another's, or nobody's; there is nothing to tell of. */
	__u8 passed_on;
	__u8 zero[3];
	/* When the next hop has to be found again, CLOCK_MONOTONIC_COARSE, ns. */
	__u64 route_until;
	/* Confirm mode, in the server: the client's own end. */
	struct heels_end client;
	/* Confirm mode. Client: where what it sends directly begins. Server: the client's acknowledgement then. */
	__u32 mark;
	/* Confirm mode, in the server: the end of what has come by way of the balancer. */
	__u32 seen;
	/* Confirm mode, in the server: the interface that mac counts for. */
	__u32 device;
};

/* What the kernel finds a next hop by. */
struct heels_hop_key {
	__u8 local[16];
	__u8 peer[16];
	__u32 device;
	__u32 mark;
};

/* A next hop's address, and when it has to be found again, CLOCK_MONOTONIC_COARSE, ns. */
struct heels_hop {
	__u64 until;
	__u8 mac[6];
	__u8 zero[2];
};

/* A connection as the host's own stack sees it. */
struct heels_tuple {
	struct heels_end local;
	struct heels_end remote;
};

/* Handshakes of one client's end under SYN cookies: the client's first sequence numbers, in host order, tell them from those to
 * the server's own address. Whoever sends one SYN again and again pushes out those of the same end alone. */
struct heels_cookie {
	struct heels_end vip;
	/* The last ones, in turn. */
	__u32 syns[HEELS_COOKIE_NUMBERS];
	__u32 next;
};

/* Wrong tags since a time of CLOCK_MONOTONIC, in ns. */
struct heels_guesses {
	__u64 since;
	__u32 count;
	__u32 zero;
	/* Of a VIP: SYNs that were not believed because of wrong tags before them, and when the last one was. */
	__u64 refused;
	__u64 refused_at;
};

/* Key of a client's wrong tags for one VIP. */
struct heels_guesser {
	/* Of IPv6 the first 64 bits: the rest is anybody's to choose on a link. */
	__u8 addr[16];
	__u32 vip;
};

/* What stands for the flow of a connection that has no socket any more. */
struct heels_closing {
	struct heels_end vip;
	struct heels_end peer;
	/* 1: in confirm mode. */
	__u32 confirm;
};

/* What a segment of a connection in confirm mode belongs to. Key: the server's own end, and the one that the segment comes from. */
struct heels_confirmed {
	struct heels_end vip;
	/* The client's own end. */
	struct heels_end client;
	/* The client's end as its server's socket has it: the balancer's. */
	struct heels_end balancer;
	/* The client's acknowledgement when it was first heard directly. */
	__u32 mark;
	/* It has been heard. */
	__u32 heard;
	__u32 zero;
	/* CLOCK_MONOTONIC, ns, of the handshake, until the connection is closed: then 0. */
	__u64 since;
};

/* The last SYN that was taken of a client's end for a VIP, which is the key, as a tuple. */
struct heels_seen {
	/* Where it came from. */
	struct heels_end from;
	/* Its sequence number, host order. */
	__u32 number;
	/* Of time, when it came. */
	__u32 slot;
};

/* The end of a connection that a balancer is to be told of. */
struct heels_ended {
	/* As the server's socket had them. */
	struct heels_end local;
	struct heels_end remote;
	/* A sequence number that the balancer takes for good. */
	__u32 seq;
	__u32 zero;
	/* CLOCK_MONOTONIC, ns. */
	__u64 at;
};

/* Key of the counters of finished connections. */
struct heels_backend {
	struct heels_end vip;
	struct heels_end peer;
	/* 1: server. */
	__u32 server;
};

struct heels_traffic {
	__u64 opened;
	__u64 closed;
	/* Payload of closed connections, in bytes: acknowledged by the other end, and received from it. */
	__u64 sent;
	__u64 received;
};

/* A live connection, as an iterator writes it. */
struct heels_conn {
	struct heels_end local;
	struct heels_end remote;
	struct heels_end vip;
	struct heels_end peer;
	__u64 sent;
	__u64 received;
	/* The kernel's TCP state. */
	__u32 tcp_state;
	/* enum heels_flow_state. */
	__u32 state;
	/* 1: of a cgroup that is not the agent's. */
	__u32 foreign;
	__u32 zero;
};

/* The option of an IPv4 SYN, as on the wire. */
struct heels_syn {
	__u8 kind;
	__u8 length;
	__u16 exid;
	__u32 client;
	__u16 client_port;
	__u32 vip;
	__u16 vip_port;
	/* From the client: over client, VIP, sequence number and time. Of a SYN that was committed to: the server's mark. */
	__u32 tag;
} __attribute__((packed));

/* What an answer says besides, in network order. */
#define HEELS_ANSWER_CONFIRMS __builtin_bswap16(1)

/* The option of an IPv4 SYN-ACK. In confirm mode it is final as sock_ops writes it. Otherwise, between sock_ops and tc of the server it holds the VIP; on the wire, the server. */
struct heels_synack {
	__u8 kind;
	__u8 length;
	__u16 exid;
	__u32 addr;
	__u16 port;
	/* 0, or HEELS_ANSWER_CONFIRMS. */
	__u16 flags;
	__u32 tag;
} __attribute__((packed));

/* The option of an IPv6 SYN. Without a tag it holds the client's address, and the segment's urgent pointer the client's port; with one, of length
 * HEELS_SYN6_TAGGED_LENGTH, two words of tag. In a SYN that was committed to: the server's mark and the VIP's index.
 */
struct heels_syn6 {
	__u8 kind;
	__u8 length;
	__u16 exid;
	__u32 words[4];
};

/* The option of an IPv6 SYN-ACK. Between sock_ops and tc of the server it holds the VIP; on the wire, the server. Ports are equal. */
struct heels_synack6 {
	__u8 kind;
	__u8 length;
	__u16 exid;
	__u8 addr[16];
};

#endif
