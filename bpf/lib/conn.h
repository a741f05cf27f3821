/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* State of one client connection (p-sock) and of one accepted connection (s-sock), in socket storage. sk_msg programs
 * run under the socket's lock, so each has a single writer at a time.
 */
#ifndef XLB_CONN_H
#define XLB_CONN_H

#include "abi.h"
#include "send.h"

/* Fields, parameters of the query and pseudo headers. */
#define MAX_COMPARED (2 * MAX_FIELDS + PSEUDO_COUNT)

/* Progress through the parameters of a query (lib/query.h). Not on the stack, for the reason that struct field_scan gives. */
struct query_scan {
	/* Next byte to look at, and where the query ends. */
	__u32 at;
	__u32 end;
	/* The current parameter, and the end of its name, 0 before its '='. */
	__u32 begin;
	__u32 name_end;
	/* Parameters so far, and those of them that routes ask about. */
	__u32 count;
	__u32 asked;
};

/* Progress through the new beginning of a message (lib/edit.h). Not on the stack, for the same reason. */
struct edit_scan {
	/* Next byte to write, the first that can be reached, and where the writing ends. */
	__u32 at;
	__u32 base;
	__u32 end;
	__u32 reserved;
};

/* What the request scan found, and where it stands. */
struct request_scan {
	struct field_scan field;
	/* Method packed with its first byte highest. */
	__u64 method;
	__u64 content_length;
	/* Those of the route table's conditions that hold. */
	__u64 conditions;
	/* The random number that decides about the request, from routing until it is leased or declined; otherwise 0. */
	__u64 draw;
	__u32 state;
	__u32 off;
	/* enum verdict: why the scan gave up, 0 while it has not. */
	__u32 failure;
	__u32 flags;
	__u32 host_len;
	/* Behind the colon before the host's port, 0 if it has none. */
	__u32 port_at;
	__u32 path_len;
	__u32 version_len;
	/* Of the request target, with its query. */
	__u32 target_at;
	__u32 target_len;
	__u32 table;
	__u32 table_flags;
	/* Of those that routes ask about. */
	__u32 field_count;
	/* Set while the current field is one that routes ask about. */
	__u32 asked;
	struct {
		struct asked_field asked;
		__u32 at;
		__u32 len;
		/* How many automata are to be asked yet. */
		__u32 automata;
		__u32 reserved;
	} fields[MAX_COMPARED];
	/* Automata of the field that was looked up last, and whether any field has some. */
	__u32 unmatched;
	__u32 matching;
	/* Classes of their values, by asked_field.slot. */
	__u32 classes[MAX_CLASSES];
	struct field_key name;
	/* One after the other. */
	union {
		struct path_text text;
		struct value_key value;
	};
	struct path_key path;
	struct host_key host;
	__u8 authority[MAX_HOST + 1];
	/* Hexadecimal digits that must follow in the path. */
	__u32 escape;
	/* The path's last byte so far, and those of enum table_flags that say what it has. */
	__u32 path_last;
	__u32 path_marks;
	/* Header fields so far. */
	__u32 lines;
	/* Where the query begins, behind its '?'; 0 when there is none. */
	__u32 query_at;
	struct query_scan query;
	struct edit_scan edit;
};

enum psock_flags {
	/* Its bytes pass the request program. */
	PSOCK_JOINED = 1,
	/* For good on the slow path: its state could not be kept. */
	PSOCK_SLOW = 2,
	/* The daemon has been told that it must accept this connection now. */
	PSOCK_ANNOUNCED = 4,
	/* The last lease's endpoint was on another host. */
	PSOCK_REMOTE = 8,
	/* Of a listener without HTTP: no program looks at its bytes. */
	PSOCK_PLAIN = 16,
	/* The last descriptor has been closed. */
	PSOCK_CLOSED = 32,
	/* The running lease's request was edited: what a send returns says nothing exact of it unless it took all. */
	PSOCK_EDITED = 64,
};

/* A body of which the length is not known. */
#define CHUNKED_BODY (~0ULL)

struct psock {
	__u64 cookie;
	__u8 vip[16];
	__u16 vip_port;
	__u16 flags;
	__u32 listener;
	/* As in struct conn_record. */
	__u64 tenant[TENANT_LEVELS];
	/* The current or last lease. */
	__u64 lease;
	__u32 slot;
	/* Requests that the connection has carried, on both paths. */
	__u32 requests;
	/* enum hold. Writer: the daemon, by xlb_client. */
	__u32 held;
	/* Sequence number behind the bytes that were last passed to the anchor. */
	__u32 pass_end;
	/* Sequence numbers of the first bytes over TCP, in both directions. */
	__u32 read_base;
	__u32 write_base;
	/* As in struct anchor_ports: those of its network namespace. */
	__u32 workload;
	__u32 account;
	/* 1 while it counts in its account. Who exchanges it for 0 takes it from the count. */
	__u32 in_account;
	__u32 reserved;
	/* Bytes of the request's body still to come, or CHUNKED_BODY. */
	__u64 body;
	/* Its chunks as far as the first send has them; then the slot's scan goes on. */
	struct body_scan upload;
	/* The lease whose PENDING_SEND is this connection's to clear, 0: none. */
	__u64 unproven;
	/* The send that is under way. */
	struct send send;
	/* Of its record in `conns`. */
	struct conn_key key;
	struct request_scan scan;
};

struct ssock {
	__u32 slot;
	/* slot.generation when it joined: a slot is used again before the server has closed its end. */
	__u32 generation;
	/* The lease for which the last bytes were claimed. */
	__u64 lease;
	/* The send that is under way. */
	struct send send;
	/* When the server had last called receive, or a segment had last come, before it ended its sending side alone; 0: it has not. */
	__u64 read_ns;
};

/* A connection of a listener without HTTP, straight to an endpoint. */
struct plain_conn {
	/* What the application connected to; port 0: it was disconnected. */
	__u8 vip[16];
	__u16 vip_port;
	__u16 reserved;
	/* It counts as one of this endpoint's outstanding requests. */
	__u32 endpoint;
};

#endif
