// SPDX-License-Identifier: Apache-2.0

package maps

// The types shared with the kernel programs, from bpf/lib/abi.h.
//go:generate go tool bpf2go -tags linux -target bpfel -go-package maps -type control -type anchor_ports -type listener_key -type listener -type conn_key -type conn_record -type slow_conn -type client_look -type route_table -type host_key -type path_key -type vhost -type path_text -type candidates -type path_routes -type automaton -type cells -type tuple -type bucket_key -type field_key -type asked_field -type value_key -type value -type route -type rewrite -type split -type group -type hash_place -type cluster -type traffic -type body_scan -type endpoint -type endpoint_address -type slot -type request_copy -type peer_key -type event -type explanation -type limits -type no_limit -type verdict -type table_flags -type route_flags -type host_direction -type asked_flags -type hash_policy -type pseudo_header -type policy -type conn_flags -type group_flags -type endpoint_flags -type slot_state -type slot_flags -type pending -type phase -type spill -type request_flags -type event_kind -type outlier abi ../../bpf/abi.bpf.c -- -I/usr/include/x86_64-linux-gnu -Wpadded
