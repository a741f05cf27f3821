// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* HEELS: both roles in one object, so that they share their maps. */
#include "heels_client.bpf.c"
#include "heels_client6.bpf.c"
#include "heels_server.bpf.c"
#include "heels_server6.bpf.c"
#include "heels_confirm.bpf.c"
#include "heels_iter.bpf.c"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
