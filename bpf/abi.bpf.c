// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* No program: names every shared type, so that Go's copies are generated from this one place. */
#include "lib/abi.h"

#define SHARED(name) const struct name *shared_##name __attribute__((unused))
#define SHARED_ENUM(name) const enum name *shared_##name __attribute__((unused))

SHARED(control);
SHARED(anchor_ports);
SHARED(account);
SHARED(listener_key);
SHARED(capture_key);
SHARED(exclusion_key);
SHARED(listener);
SHARED(conn_key);
SHARED(conn_record);
SHARED(slow_conn);
SHARED(cookie_key);
SHARED(client_look);
SHARED(route_table);
SHARED(host_key);
SHARED(path_key);
SHARED(vhost);
SHARED(path_text);
SHARED(candidates);
SHARED(path_routes);
SHARED(tuple);
SHARED(bucket_key);
SHARED(automaton);
SHARED(cells);
SHARED(field_key);
SHARED(asked_field);
SHARED(value_key);
SHARED(value);
SHARED(route);
SHARED(rewrite);
SHARED(retry_set);
SHARED(split);
SHARED(group);
SHARED(hash_place);
SHARED(cluster);
SHARED(traffic);
SHARED(body_scan);
SHARED(endpoint);
SHARED(endpoint_address);
SHARED(pool_key);
SHARED(pool);
SHARED(slot);
SHARED(request_copy);
SHARED(peer_key);
SHARED(event);
SHARED(explanation);
SHARED_ENUM(limits);
SHARED_ENUM(no_limit);
SHARED_ENUM(verdict);
SHARED_ENUM(table_flags);
SHARED_ENUM(route_flags);
SHARED_ENUM(host_direction);
SHARED_ENUM(asked_flags);
SHARED_ENUM(hash_policy);
SHARED_ENUM(pseudo_header);
SHARED_ENUM(policy);
SHARED_ENUM(conn_flags);
SHARED_ENUM(group_flags);
SHARED_ENUM(endpoint_flags);
SHARED_ENUM(slot_state);
SHARED_ENUM(slot_flags);
SHARED_ENUM(pending);
SHARED_ENUM(phase);
SHARED_ENUM(spill);
SHARED_ENUM(request_flags);
SHARED_ENUM(retry_flags);
SHARED_ENUM(retry_statuses);
SHARED_ENUM(event_kind);
SHARED_ENUM(outlier);
SHARED_ENUM(guard);
SHARED_ENUM(hold);
SHARED_ENUM(offer);
