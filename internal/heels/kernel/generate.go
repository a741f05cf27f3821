// SPDX-License-Identifier: Apache-2.0

package kernel

// The kernel programs, and the types that they share with the agent: bpf/lib/heels.h.
//go:generate go tool bpf2go -tags linux -target bpfel -go-package kernel -no-global-types kernel ../../../bpf/heels.bpf.c -- -I/usr/include/x86_64-linux-gnu
//go:generate go tool bpf2go -tags linux -target bpfel -go-package kernel -type heels_control -type heels_client_vip -type heels_server_vip -type heels_prefix -type heels_flow -type heels_backend -type heels_traffic -type heels_conn -type heels_ended -type heels_tuple -type heels_cookie -type heels_confirmed -type heels_guesses -type heels_seen -type heels_end -type heels_limits -type heels_verdict -type heels_mode -type heels_flags -type heels_set -type heels_flow_state abi ../../../bpf/heels_abi.bpf.c -- -I/usr/include/x86_64-linux-gnu -Wpadded
