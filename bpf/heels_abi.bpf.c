// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The types of lib/heels.h, so that Go's can be generated from them. Not loaded.
 */
#include "lib/heels.h"

struct heels_control *control_type;
struct heels_client_vip *client_vip_type;
struct heels_server_vip *server_vip_type;
struct heels_prefix *prefix_type;
struct heels_flow *flow_type;
struct heels_backend *backend_type;
struct heels_traffic *traffic_type;
struct heels_conn *conn_type;
struct heels_ended *ended_type;
struct heels_tuple *tuple_type;
struct heels_cookie *cookie_type;
struct heels_confirmed *confirmed_type;
struct heels_guesses *guesses_type;
struct heels_seen *seen_type;
struct heels_syn *syn_type;
struct heels_synack *synack_type;
struct heels_syn6 *syn6_type;
struct heels_synack6 *synack6_type;
enum heels_limits *limits_type;
enum heels_verdict *verdict_type;
enum heels_mode *mode_type;
enum heels_flags *flags_type;
enum heels_set *set_type;
enum heels_flow_state *flow_state_type;
